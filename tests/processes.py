"""Processes in tests: which run, and that they end."""

import contextlib
import time
from collections.abc import Callable, Collection
from typing import Any

import psutil

from core.machine import processes


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


def wait_gone(pids: Collection[int], seconds: float) -> None:
    wait_until(lambda: not any(map(alive, pids)), seconds)
