"""Processes in tests: which run, that they end, and what they are started with."""

import contextlib
import os
import socket
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import psutil

from core.machine import processes

NOBODY = 65534  # a user without rights


def alive(pid: int) -> bool:
    since = processes.start_ticks(pid)
    return since is not None and processes.Process(pid, since).is_alive()


def children(pid: int) -> list[int]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return [child.pid for child in psutil.Process(pid).children()]
    return []


def descendants(pid: int) -> list[int]:
    return [process.pid for process in processes.descendants(pid)]


def wait_until(condition: Callable[[], Any], seconds: float) -> Any:
    """What ``condition`` gives once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not so after {seconds} s"
        time.sleep(0.1)
    return found


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def clean_environment() -> dict[str, str]:
    """The variables of this process without those of this project, of Dagster, and of the terminal (by xdist)."""
    others = ("LUFFY", "DAGSTER", "COLUMNS", "LINES")
    return {name: value for name, value in os.environ.items() if not name.startswith(others)}


def wait_gone(pids: Collection[int], seconds: float) -> None:
    wait_until(lambda: not any(map(alive, pids)), seconds)


@contextlib.contextmanager
def without_rights(mode: int) -> Iterator[Path]:
    """A folder of these rights, which hold for this process: root lays its own aside for as long."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "locked"
        folder.mkdir()
        is_root = os.geteuid() == 0
        if is_root:
            os.chmod(parent, 0o755)
            os.chown(folder, NOBODY, NOBODY)
        folder.chmod(mode)
        try:
            if is_root:
                os.setresuid(NOBODY, NOBODY, 0)
            yield folder
        finally:
            if is_root:
                os.setresuid(0, 0, 0)
            folder.chmod(0o700)
