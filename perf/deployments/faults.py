"""End the parts of a deployment in the middle of a training: ``.venv/bin/python -m perf.deployments.faults``.

It prints the table of docs/operations.md. One training goes through all faults of processes, one after the other, and
has to end with every step. Needs Postgres (`perf.deployments.deployment`), root for the full disks and for another host
name, and for the lost store a folder that ``pip install --target FOLDER s3fs 'moto[server]'`` has filled.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import psutil

from assets.shared.interpreter_process import RUN_VARIABLE
from perf.deployments.deployment import Deployment, Postgres, postgres, under_host_name
from perf.deployments.storage_faults import WAIT_SECONDS, Row, disk_filled_by_others, full_disk, lost_store, wait_until

STEPS = 160  # of about a second
AWAY_SECONDS = 30.0  # of Postgres
GOAL_SECONDS = 300.0
PARTS = ("models/base", "benchmarks/suite", "targets/prepared", "targets/rejected", "targets/train")
Reply = TypeVar("Reply")


def settings(steps: int) -> dict[str, str]:
    """Variables of the environment that set up a small training of this many steps."""
    overrides = (
        "data.train_batch_size=4",
        "data.max_prompt_length=64",
        "data.max_response_length=144",
        "actor_rollout_ref.rollout.n=4",
        "trainer.save_freq=5",
        f"trainer.total_training_steps={steps}",
    )
    return {
        "LUFFY__TARGETS__EMBEDDED_ROWS": "2000",
        "LUFFY__BENCHMARKS__LIMIT": "8",
        "LUFFY__TRAINING__OVERRIDES": json.dumps(overrides),
    }


@dataclass
class Subject:
    """A deployment in which a training is under way."""

    deployment: Deployment
    database: Postgres
    ended: set[str] = field(default_factory=set)  # runs that a fault has ended
    others: set[str] = field(default_factory=set)  # runs of no training

    @property
    def run(self) -> str:
        """The newest run that trains."""
        return next(run for run in _patiently(self.deployment.runs) if run not in self.others)

    def steps(self) -> list[tuple[int, int]]:
        """Attempt and step of each record of the training."""
        files = sorted(self.deployment.storage.glob("training/policy/*/attempts/*.jsonl"))
        lines = [(int(file.stem), line) for file in files for line in file.read_text().splitlines(keepends=True)]
        return [(attempt, json.loads(line)["step"]) for attempt, line in lines if line.endswith("\n")]

    def wait_for_steps(self, more: int) -> None:
        """Wait until the training has made this many more steps."""
        now = len(self.steps())
        wait_until(lambda: len(self.steps()) >= now + more)

    def process(self, words: str) -> psutil.Process:
        """Return the first process of the run whose command line begins with ``words`` after its interpreter."""
        named = [process for process in marked(self.run) if words in " ".join(process.cmdline()[1:4])]
        return min(named, key=lambda process: process.create_time())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--s3-packages", type=Path, help="folder with s3fs and moto's server, for the lost store")
    packages = parser.parse_args().s3_packages
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, lambda number, _: sys.exit(128 + number))  # after the deployment has been stopped
    sys.stdout.write(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    sys.stdout.write("| fault | what goes on | seconds | lost | left |\n|---|---|--:|---|---|\n")
    measured = []
    for row in rows(packages):
        sys.stdout.write(row.markdown() + "\n")
        sys.stdout.flush()
        measured.append(row)
    assert all(row.seconds < GOAL_SECONDS and row.left == "nothing" for row in measured)


def rows(packages: Path | None) -> Iterator[Row]:
    """Yield the rows of the table, each as soon as it is measured."""
    with tempfile.TemporaryDirectory(prefix="luffy-faults-") as folder:
        with training(Path(folder)) as subject:
            for fault in (webserver_killed, daemon_killed, postgres_away):
                yield fault(subject)
            for above, what in enumerate(("training", "step", "run")):
                yield process_killed(subject, f"the {what}'s process killed", above)
            for fault in (terminated, code_server_killed, code_server_replaced):
                yield fault(subject)
            finish(subject)
        if packages:
            yield lost_store(Path(folder), packages.absolute())
        if os.geteuid() == 0:
            yield full_disk(Path(folder))
            yield disk_filled_by_others(Path(folder), settings(20))


@contextmanager
def training(folder: Path) -> Iterator[Subject]:
    """Yield a deployment that has begun to train."""
    with postgres() as database:
        deployment = Deployment(folder, database, settings(STEPS))
        try:
            deployment.start()
            prepared = deployment.launch(*PARTS)
            deployment.wait(lambda runs: runs.get(prepared) == "SUCCESS")
            begun = deployment.launch("training/policy")
            subject = Subject(deployment, database)
            deployment.wait(lambda runs: runs[begun] == "STARTED" and len(subject.steps()) >= 3)
            yield subject
        finally:
            deployment.stop()


def webserver_killed(subject: Subject) -> Row:
    before, began = len(subject.steps()), time.monotonic()
    subject.deployment.kill("webserver")
    subject.deployment.start("webserver")
    subject.deployment.runs()
    seconds = time.monotonic() - began
    wait_until(lambda: len(subject.steps()) > before)
    return Row("webserver killed, started again", "the training goes on; the UI answers again", seconds, "nothing")


def daemon_killed(subject: Subject) -> Row:
    before, began = len(subject.steps()), time.monotonic()
    subject.deployment.kill("daemon")
    queued = subject.deployment.launch("benchmarks/suite")
    subject.others.add(queued)
    subject.deployment.start("daemon")
    subject.deployment.wait(lambda runs: runs[queued] == "SUCCESS", subject.ended)
    seconds = time.monotonic() - began
    wait_until(lambda: len(subject.steps()) > before)
    return Row(
        "daemon killed, a run queued, started again",
        "the training goes on; the queued run has ended",
        seconds,
        "nothing",
    )


def postgres_away(subject: Subject) -> Row:
    subject.database.stop()
    before = len(subject.steps())
    time.sleep(AWAY_SECONDS)
    made = len(subject.steps()) - before
    subject.database.start()
    began = time.monotonic()
    reached = subject.steps()[-1][1]
    wait_until(lambda: _observed(subject) >= reached)
    seconds = time.monotonic() - began
    return Row(
        f"Postgres away for {AWAY_SECONDS:.0f} s",
        f"steps made meanwhile: {made}; its curves are complete (after the return)",
        seconds,
        "nothing",
    )


def process_killed(subject: Subject, fault: str, above: int) -> Row:
    """Kill the process of the training, or the one that is so many generations ``above`` it."""
    process = subject.process("training --request")
    for _ in range(above):
        process = process.parent()
        assert process is not None
    return _resumed(subject, fault, process.kill)


def terminated(subject: Subject) -> Row:
    def strike() -> None:
        run = subject.run
        subject.deployment.terminate(run)
        subject.ended.add(run)
        wait_until(lambda: _patiently(subject.deployment.runs)[run] == "CANCELED")
        subject.deployment.launch("training/policy")

    return _resumed(subject, "the run terminated, and materialized again", strike, "the new run goes on")


def code_server_killed(subject: Subject) -> Row:
    queued = ""

    def strike() -> None:
        nonlocal queued
        subject.deployment.kill("daemon")
        queued = subject.deployment.launch("benchmarks/suite")
        subject.others.add(queued)
        subject.deployment.kill("code")
        subject.deployment.start("daemon")
        time.sleep(AWAY_SECONDS)
        subject.deployment.start("code")

    row = _resumed(
        subject, f"the code server killed with its runs, a run queued, back after {AWAY_SECONDS:.0f} s", strike
    )
    wait_until(lambda: _patiently(subject.deployment.runs)[queued] == "SUCCESS")
    return replace(row, recovered=f"{row.recovered}; the queued run has ended")


def code_server_replaced(subject: Subject) -> Row:
    def strike() -> None:
        subject.deployment.kill("code")
        subject.deployment.code_prefix = under_host_name("another-pod")
        subject.deployment.start("code")

    return _resumed(subject, "the code server replaced by one with another host name", strike)


def _resumed(subject: Subject, fault: str, strike: Callable[[], None], by: str = "the daemon launches it again") -> Row:
    """Strike after three more steps; the row of how the training came back, ``by`` whom unless it is the same run."""
    subject.wait_for_steps(3)
    run, old = subject.run, marked(subject.run)
    attempt, _ = subject.steps()[-1]
    began = time.monotonic()
    strike()
    wait_until(lambda: not set(old) & set(_alive()))
    gone = time.monotonic() - began
    before = max(step for _, step in subject.steps())
    wait_until(lambda: subject.steps()[-1][0] > attempt)
    seconds = time.monotonic() - began
    if subject.run != run:
        subject.ended.add(run)
        assert not marked(run)
    else:
        by = "the same run starts the step again"
    repeated = before + 1 - next(step for number, step in subject.steps() if number > attempt)
    what = f"no process of it after {gone:.0f} s; {by}, from the last checkpoint"
    return Row(fault, what, seconds, f"steps repeated: {repeated}" if repeated else "nothing")


def finish(subject: Subject) -> None:
    """Wait for the policy, and check that it has every step once."""
    wait_until(lambda: subject.deployment.runs()[subject.run] == "SUCCESS")
    (file,) = subject.deployment.storage.glob("training/policy/*/metrics.jsonl")
    steps = [json.loads(line)["step"] for line in file.read_text().splitlines()]
    assert steps == list(range(1, STEPS + 1)), steps
    unfinished = set(subject.deployment.runs().values()) - {"SUCCESS", "FAILURE", "CANCELED"}
    assert not unfinished and not any(marked(run) for run in subject.deployment.runs())
    sys.stdout.write(f"the policy has all {STEPS} steps once\n")


def marked(run: str) -> list[psutil.Process]:
    """Return the processes of the programs that the steps of ``run`` have started: they carry its id."""
    return [process for process in _alive() if (process.info["environ"] or {}).get(RUN_VARIABLE) == run]


def _alive() -> list[psutil.Process]:
    processes = psutil.process_iter(["environ", "status"])
    return [process for process in processes if process.info["status"] != psutil.STATUS_ZOMBIE]


def _observed(subject: Subject) -> int:
    """Return the last step of the training that Dagster has recorded."""
    query = """{ assetOrError(assetKey: {path: ["training", "metrics"]}) { ... on Asset {
        assetObservations(limit: 1) { metadataEntries { label ... on IntMetadataEntry { intValue } } } } } }"""
    observations = _patiently(lambda: subject.deployment.ask(query))["assetOrError"]["assetObservations"]
    return next(e["intValue"] for o in observations for e in o["metadataEntries"] if e["label"] == "step")


def _patiently(ask: Callable[[], Reply]) -> Reply:
    """Return what ``ask`` gives, once the processes that it asks are back."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return ask()
        except (OSError, AssertionError):
            if time.monotonic() > end:
                raise
            time.sleep(1.0)


if __name__ == "__main__":
    main()
