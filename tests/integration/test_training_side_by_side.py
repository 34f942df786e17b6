"""Two trainings on one machine, each with a Ray cluster of its own."""

import subprocess
import sys
from pathlib import Path

import pytest
from training_runs import own_environment

from training.config.to_verl import compose_run

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import ray, verl
ray.init(num_cpus=1, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
print("job", ray.get_runtime_context().get_job_id(), flush=True)
input()  # until the other one has come as far
"""


@pytest.mark.parametrize("hardware", ["cpu", "gpu"])
def test_the_jobs_of_two_clusters_have_different_names(hardware: str) -> None:
    """verl calls the socket by which weights reach the rollout server after the job, in a folder that all share."""
    modules = compose_run("luffy", hardware, [], run=Path("run")).environment.VERL_USE_EXTERNAL_MODULES
    environment = {**own_environment(), "VERL_USE_EXTERNAL_MODULES": modules, "PYTHONPATH": str(ROOT)}
    jobs, names = [], []
    for _ in range(2):  # one after the other, since Ray gives a cluster 30 s to start
        job = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        jobs.append(job)
        names.append(next(line for line in job.stdout or () if line.startswith("job ")))
    for job in jobs:
        job.communicate("\n", timeout=60)
    assert len(set(names)) == 2, names
