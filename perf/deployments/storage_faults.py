"""Take the storage from a run for `perf.deployments.faults`: a full disk, or a store of traces that is gone."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core import PROJECT
from core.arithmetic import problems
from perf.deployments.deployment import clean_environment, free_port, wait_for_port
from training.job.checkpoints import STATE

WAIT_SECONDS = 900.0  # before these programs give up
PREPARATION, TRAINING = (
    [sys.executable, "-m", "pipelines.cli.luffy", "run", "--select", select]
    for select in ("+key:targets/train", "key:training/policy")
)
UPLOAD = """
import sys, s3fs
files = s3fs.S3FileSystem()
files.mkdir("traces")
files.pipe("traces/rows.jsonl", sys.stdin.buffer.read())
"""


@dataclass(frozen=True)
class Row:
    """What became of one fault."""

    fault: str
    recovered: str  # what goes on, and who has to do something
    seconds: float  # from the fault until it goes on
    lost: str
    left: str = "nothing"

    def markdown(self) -> str:
        return f"| {self.fault} | {self.recovered} | {self.seconds:.0f} | {self.lost} | {self.left} |"


@contextmanager
def small_disk(folder: Path, name: str, megabytes: int) -> Iterator[Path]:
    """Yield a disk of this size in memory."""
    disk = folder / name
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def full_disk(folder: Path) -> Row:
    """Prepare targets on a disk of 2 MB, which is not enough, and again on one of 200 MB."""
    with small_disk(folder, "disk", 2) as disk:
        variables = {"LUFFY__STORAGE__ROOT": str(disk / "storage"), "DAGSTER_HOME": str(folder / "disk-home")}
        variables["LUFFY__TARGETS__EMBEDDED_ROWS"] = "4000"
        seconds, message = _failing_run(PREPARATION, variables)
        assert "No space left on device" in message, message
        halves = [str(path) for path in disk.rglob("*.tmp")]
        subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
        _run(PREPARATION, variables)
    what = "the run fails with what to do; with room, the same command completes"
    return Row("the storage's disk is full", what, seconds, "nothing", ", ".join(halves) or "nothing")


def disk_filled_by_others(folder: Path, settings: Mapping[str, str]) -> Row:
    """Fill the storage's disk once a training has a checkpoint, make room when it has failed, and train on."""
    with small_disk(folder, "filled", 400) as disk:
        variables = {"LUFFY__STORAGE__ROOT": str(disk / "storage"), "DAGSTER_HOME": str(folder / "filled-home")}
        variables |= settings
        _run(PREPARATION, variables)

        def fill() -> None:
            with (disk / "others").open("wb", buffering=0) as file:
                file.write(bytes(shutil.disk_usage(disk).free))

        def attempts() -> list[Path]:
            return sorted(disk.glob("storage/training/policy/*/attempts/*.jsonl"))

        def saved() -> bool:
            return bool(list(disk.glob(f"storage/training/policy/*/checkpoints/global_step_*/{STATE}")))

        seconds, message = _failing_run(TRAINING, variables, saved, fill)
        assert "No space left on device" in message, message
        reached = _steps(attempts()[-1])[-1]
        (disk / "others").unlink()
        _run(TRAINING, variables)
        assert len(attempts()) == 2, attempts()
        repeated = reached + 1 - _steps(attempts()[-1])[0]
        (metrics,) = disk.glob("storage/training/policy/*/metrics.jsonl")
        assert _steps(metrics) == list(range(1, _steps(metrics)[-1] + 1)), _steps(metrics)
        halves = [str(path) for path in disk.rglob("*.tmp")]
    what = "the run fails with what to do; with room, the same command goes on from the last checkpoint"
    lost = f"steps repeated: {repeated}" if repeated else "nothing"
    return Row("others fill the storage's disk during a training", what, seconds, lost, ", ".join(halves) or "nothing")


def lost_store(folder: Path, packages: Path) -> Row:
    """Prepare targets from a bucket whose server is killed while they are read, and again when it is back."""
    rows = "\n".join(
        json.dumps({"problem": problem.problem, "answer": problem.answer, "response": problem.trace})
        for problem in problems("train", 20_000, 0)
    )
    variables = {
        "PYTHONPATH": f"{packages}:{PROJECT}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "DAGSTER_HOME": str(folder / "s3-home"),
        "LUFFY__STORAGE__ROOT": str(folder / "s3-storage"),
        "LUFFY__TARGETS__SOURCE": "s3://traces/rows.jsonl",
    }
    port = free_port()
    variables["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"

    def serve() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "moto.server", "-p", str(port)]
        with (folder / "s3.log").open("ab") as log:
            server = subprocess.Popen(command, env=clean_environment(**variables), stdout=log, stderr=log)
        wait_for_port(port, server, folder / "s3.log")
        subprocess.run(
            [sys.executable, "-c", UPLOAD], env=clean_environment(**variables), input=rows.encode(), check=True
        )
        return server

    server = serve()
    reading = folder / "s3-storage" / "targets" / "prepared"
    try:
        seconds, message = _failing_run(PREPARATION, variables, lambda: bool(list(reading.glob(".*.tmp"))), server.kill)
        server.wait()
        halves = [str(path) for path in reading.glob(".*.tmp")]
        server = serve()
        _run(PREPARATION, variables)
    finally:
        server.kill()
        server.wait()
    assert "s3://traces" in message, message
    what = "the run fails and names the source; when the store is back, the same command completes"
    return Row(
        "the store of the traces (S3) is gone while they are read",
        what,
        seconds,
        "nothing",
        ", ".join(halves) or "nothing",
    )


def _steps(file: Path) -> list[int]:
    return [json.loads(line)["step"] for line in file.read_text().splitlines()]


def _run(command: Sequence[str], variables: Mapping[str, str]) -> None:
    subprocess.run(command, cwd=PROJECT, env=clean_environment(**variables), check=True, capture_output=True)


def _failing_run(
    command: Sequence[str],
    variables: Mapping[str, str],
    when: Callable[[], bool] = lambda: True,
    strike: Callable[[], None] = lambda: None,
) -> tuple[float, str]:
    """Strike a command ``when`` it is time; return the seconds until it has failed, and its errors."""
    run = subprocess.Popen(
        command, cwd=PROJECT, env=clean_environment(**variables), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    wait_until(lambda: when() or run.poll() is not None)
    began = time.monotonic()
    strike()
    _, errors = run.communicate(timeout=WAIT_SECONDS)
    assert run.returncode == 1, errors.decode()
    return time.monotonic() - began, errors.decode()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until ``condition`` holds; AssertionError after `WAIT_SECONDS`."""
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end, f"not so after {WAIT_SECONDS:.0f} s"
        time.sleep(0.5)
