"""Take the storage from a preparation for `perf.deployments.faults`: a full disk, or a store that is gone."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from core.arithmetic import problems
from core.code_digest import PROJECT
from perf.deployments.deployment import clean_environment, free_port, wait_for_port

WAIT_SECONDS = 900.0  # before these programs give up
COMMAND = [sys.executable, "-m", "pipelines.cli.luffy", "run", "--select", "+key:targets/train"]
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


def full_disk(folder: Path) -> Row:
    """Prepare targets on a disk of 2 MB, which is not enough, and again on one of 200 MB."""
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=True)
    try:
        variables = {"LUFFY__STORAGE__ROOT": str(disk / "storage"), "DAGSTER_HOME": str(folder / "disk-home")}
        variables["LUFFY__TARGETS__EMBEDDED_ROWS"] = "4000"
        seconds, message = _failing_run(variables)
        assert "No space left on device" in message, message
        halves = [str(path) for path in disk.rglob("*.tmp")]
        subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
        _run(variables)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    what = "the run fails with what to do; with room, the same command completes"
    return Row("the storage's disk is full", what, seconds, "nothing", ", ".join(halves) or "nothing")


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
        seconds, message = _failing_run(variables, lambda: bool(list(reading.glob(".*.tmp"))), server.kill)
        server.wait()
        halves = [str(path) for path in reading.glob(".*.tmp")]
        server = serve()
        _run(variables)
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


def _run(variables: dict[str, str]) -> None:
    subprocess.run(COMMAND, cwd=PROJECT, env=clean_environment(**variables), check=True, capture_output=True)


def _failing_run(
    variables: dict[str, str], when: Callable[[], bool] = lambda: True, strike: Callable[[], None] = lambda: None
) -> tuple[float, str]:
    """Prepare targets, and ``strike`` ``when`` it is time; the seconds until the command has failed, and its errors."""
    run = subprocess.Popen(
        COMMAND, cwd=PROJECT, env=clean_environment(**variables), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
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
