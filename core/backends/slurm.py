"""Run a task as a Slurm job: submitit submits it and keeps its exit status in the run's folder.

The folder of the run, this checkout and its environments must be at the same paths on the compute nodes. A job that
this command submitted goes on if the command is killed; the next command finds it by the files in the attempt's folder.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.backends.task import Task
from core.errors import InputError
from core.machine.loopback import single_node_environment
from core.plugins.user_code import python_path

ASK_SECONDS = 5.0  # between two questions to the controller, which all users share
ANSWER_SECONDS = 30.0  # time for the controller to answer, or for the result of an ended job to appear on this node
UNFINISHED = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED", "RESIZING", "STOPPED")


def run_task(module: tuple[str, ...], environment: Mapping[str, str], folder: Path, log: Path) -> int:
    """Run ``python -m`` with ``module`` under `core.backends.supervisor` on the compute node; its exit status."""
    from core.backends.supervisor import under_supervisor  # not before: it is a program

    command = under_supervisor([sys.executable, "-P", "-m", *module])
    variables = {**os.environ, **single_node_environment(), **environment}
    with log.open("wb") as output:
        status = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=variables,
            check=False,
        ).returncode
    return status if status >= 0 else 128 - status


class SlurmBackend:
    """A Slurm job of one node; its parameters are sbatch's, named as in submitit.

    Raises:
        InputError: they ask for several nodes or tasks.
    """

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        for name in ("nodes", "ntasks_per_node"):
            if str(asked := parameters.get(name) or 1) != "1":
                raise InputError(
                    f"slurm.{name}={asked}: expected 1, because each task would be a separate run: for several nodes "
                    "start Ray in your allocation with `ray symmetric-run`, and give backend=ray"
                )
        self._parameters = dict(parameters)
        self._task: Task | None = None
        self._job: Any = None
        self._state, self._asked, self._ended = "PENDING", 0.0, 0.0

    @property
    def queued(self) -> bool:
        return self._state in ("PENDING", "CONFIGURING", "REQUEUED")

    def start(self, task: Task) -> None:
        from submitit import SlurmExecutor
        from submitit.core.utils import FailedJobError

        try:
            executor = SlurmExecutor(_folder(task))
            setup = [*self._parameters.pop("setup", ()), f"export PYTHONPATH={python_path()}"]
            executor.update_parameters(job_name=task.name, setup=setup, stderr_to_stdout=True, **self._parameters)
            job = executor.submit(run_task, task.module, dict(task.environment), task.folder, task.log.resolve())
        except (RuntimeError, ValueError, TypeError, FailedJobError) as error:
            reason = " ".join(str(error).split())
            raise InputError(f"slurm: Slurm does not take the job: {reason}") from error
        self._follow(task, job)

    def reattach(self, task: Task) -> bool:
        from submitit import SlurmJob

        submitted = sorted(_folder(task).glob("*_submitted.pkl"))
        if not submitted:
            return False
        self._follow(task, SlurmJob(_folder(task), submitted[-1].name.partition("_")[0]))
        return self.poll() is None

    def poll(self) -> int | None:
        if self._job.paths.result_pickle.exists():
            outcome, result = self._job._get_outcome_and_result()
            return result if outcome == "success" else 1
        if time.monotonic() - self._asked < ASK_SECONDS:
            return None
        self._ask()
        if self._state in UNFINISHED:
            return None
        if self._state in ("COMPLETED", "FAILED") and time.monotonic() - self._ended < ANSWER_SECONDS:
            return None  # the file with its exit status is on its way
        return self._lost()

    def stop(self) -> None:
        if self._job is None or self.poll() is not None:
            return
        subprocess.run(["scancel", self._job.job_id], check=True, timeout=ANSWER_SECONDS)
        while self.poll() is None:
            time.sleep(0.5)

    def _follow(self, task: Task, job: Any) -> None:
        self._task, self._job = task, job
        self._state, self._asked, self._ended = "PENDING", 0.0, 0.0

    def _ask(self) -> None:
        """Ask the controller for the job's state; one that it has forgotten counts as completed."""
        command = ["squeue", "--noheader", "--states=all", f"--jobs={self._job.job_id}", "--format=%T"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_SECONDS)
        self._asked = time.monotonic()
        if answer.returncode and "Invalid job id" not in answer.stderr:
            return  # the controller does not answer, and the job goes on without it
        self._state = answer.stdout.strip() or "COMPLETED"
        if self._state not in UNFINISHED and not self._ended:
            self._ended = self._asked

    def _lost(self) -> int:
        """Return an exit status for a job that left none, and log how it ended."""
        assert self._task is not None
        with self._task.log.open("a", encoding="utf-8") as log:
            log.write(f"\nError: Slurm ended the job {self._job.job_id}: {self._state}\n")
        return 128 + signal.SIGTERM if self._state.startswith("CANCELLED") else 1


def _folder(task: Task) -> Path:
    """Return where submitit keeps the files of an attempt."""
    return task.log.resolve().with_name(f"{task.name}.slurm")
