"""A year of weekly runs, observations and retentions through the real jobs, and what it leaves on the disk.

``.venv/bin/python -m pytest -s tests/defs/test_operation_year.py`` prints the table of docs/results/operation.md.
Answers of recorded frequency take the place of vLLM's, and written policies replace trainings. Between two weeks,
everything becomes a week older: the files, and the times in Dagster's database.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from assets.shared.interpreter_process import TrainingInterpreter
from pipelines.definitions.factory import build_defs
from tests.defs.project import Project, settings_of
from tests.defs.test_promotion_year import BASE, POLICY, WEEKS, answer
from tests.defs.written_scores import OUTPUTS, Written

WEEK = 7 * 86_400
OBSERVATIONS = 2  # a week; hourly_observation makes 168, each as large as these
WEIGHTS = 1_000_000  # bytes of a policy and of each of its two checkpoints
TARGETS = ("targets/prepared", "targets/rejected", "targets/train")


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance that keeps what it records in SQLite, as ``luffy ui`` does."""
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as made:
        yield made


def project_of(week: int, storage: Path, instance: dg.DagsterInstance) -> Project:
    """The definitions of a week, in which the traces are new."""
    variables = {
        "LUFFY_PROFILE": "embedded",
        "LUFFY__STORAGE__ROOT": str(storage),
        "LUFFY__TARGETS__EMBEDDED_ROWS": "300",
        "LUFFY__TARGETS__SEED": str(week),
        "LUFFY__BENCHMARKS__LIMIT": "20",
    }
    return Project(build_defs(settings_of(**variables)), storage, instance)


def scheduled(project: Project, name: str) -> dict:
    """The run configuration that a tick of a schedule asks for."""
    schedule = next(schedule for schedule in project.defs.schedules if schedule.name == name)
    context = dg.build_schedule_context(instance=project.instance, repository_def=project.defs.get_repository_def())
    (request,) = schedule.evaluate_tick(context).run_requests or []
    return dict(request.run_config)


def train(written: Written, week: int) -> None:
    """A policy as a training leaves it, with the trainer's own checkpoints."""
    written.policy(f"gain {week} 0.0")
    run = written.project.storage / "training" / "policy" / f"gain {week} 0.0"
    for part in ("checkpoints/global_step_2", "checkpoints/global_step_3"):
        (run / part).mkdir(parents=True)
        (run / part / "weights.pt").write_bytes(os.urandom(WEIGHTS))
    (run / "policy" / "extra.bin").write_bytes(os.urandom(WEIGHTS))


def grow_older(storage: Path, home: Path, seconds: int) -> None:
    """Move everything into the past: times of files, and of Dagster's runs and events."""
    for path in storage.rglob("*"):
        if not path.is_symlink():
            status = path.stat()
            os.utime(path, (status.st_atime - seconds, status.st_mtime - seconds))
    with sqlite3.connect(home / "history" / "runs.db") as runs:
        runs.execute("UPDATE runs SET start_time = start_time - ?, end_time = end_time - ?", (seconds, seconds))
        for column in ("create_timestamp", "update_timestamp"):
            runs.execute(f"UPDATE runs SET {column} = datetime({column}, ?)", (f"-{seconds} seconds",))


def size(folder: Path) -> float:
    """Megabytes of the files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def measure(storage: Path, home: Path, instance: dg.DagsterInstance) -> dict[str, float]:
    """What has grown."""
    observed = [run.run_id for run in instance.get_runs(dg.RunsFilter(job_name="observe_sources"), limit=5)]
    return {
        "runs": len(instance.get_runs()),
        "Dagster, MB": size(home),
        "an observation, KB": 1e3
        * max((home / "history" / "runs" / f"{run}.db").stat().st_size / 1e6 for run in observed),
        "policies": len(list((storage / "training" / "policy").iterdir())),
        "storage, MB": size(storage),
        "of it samples, KB": 1e3 * size(storage / "samples"),
        "registry, MB": size(storage / "registry"),
        "decisions": len(list((storage / "registry" / "decisions").iterdir())),
    }


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_year_does_not_fill_the_disk(tmp_path: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(TrainingInterpreter, "run", answer)
    storage, home = tmp_path / "storage", tmp_path / "home"
    written, quarters, retained = Written(project_of(0, storage, instance)), [], []
    for week in range(WEEKS):
        written.project = project = project_of(week, storage, instance)
        assert scheduled(project, "weekly_retrain") == {}
        assert project.run("models/base", "benchmarks/suite", *TARGETS, *(BASE if week == 0 else ())).success
        written.base = project.data_version("models/base")
        train(written, week)
        assert project.run(*POLICY, *OUTPUTS).success
        for _ in range(OBSERVATIONS):
            assert project.run_job("observe_sources").success
        began = time.process_time()
        assert project.run_job(
            "retention", **scheduled(project, "weekly_retention")["resources"]["luffy"]["config"]
        ).success
        retained.append(time.process_time() - began)
        if (week + 1) % (WEEKS // 4) == 0:
            quarters.append(measure(storage, home, instance) | {"retention, CPU s": max(retained[-WEEKS // 4 :])})
            print("| week |", " | ".join(quarters[-1]), "|")
            print("|", week + 1, "|", " | ".join(f"{value:,.1f}" for value in quarters[-1].values()), "|", flush=True)
        grow_older(storage, home, WEEK)
    second, last = quarters[1], quarters[-1]
    assert last["runs"] <= second["runs"] + 2
    assert last["policies"] <= second["policies"] + 2
    for name in ("storage, MB", "of it samples, KB", "Dagster, MB"):
        assert last[name] < 1.25 * second[name], name
    assert last["decisions"] == WEEKS and last["registry, MB"] < 5  # every decision is kept
