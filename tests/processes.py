"""What the tests of processes share: which are there, whose they are, and that they go."""

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any


def state_and_parent(pid: int) -> tuple[str, int]:
    """("Z" for a zombie, parent's pid); ("", 0) when there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return "", 0
    return fields[0], int(fields[1])


def alive(pid: int) -> bool:
    return state_and_parent(pid)[0] not in ("", "Z")


def children(pid: int) -> list[int]:
    """By each process's own parent: /proc/PID/task/*/children misses those of a thread that is just ending."""
    return [
        int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and state_and_parent(int(p.name))[1] == pid
    ]


def descendants(pid: int) -> list[int]:
    return [below for child in children(pid) for below in (child, *descendants(child))]


def wait_until(condition: Callable[[], Any], seconds: float) -> Any:
    """What ``condition`` gives once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not so after {seconds} s"
        time.sleep(0.1)
    return found


def wait_gone(pids: Collection[int], seconds: float) -> None:
    wait_until(lambda: not any(map(alive, pids)), seconds)
