"""Processes on this machine (Linux): find them, tie them to their parent, end them with all their descendants."""

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil  # every load of the code location imports this module and needs `start_ticks` only

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL_SECONDS = 0.1


def die_with_parent(parent: int, signum: int = signal.SIGTERM) -> None:
    """Ask the kernel to send us ``signum`` when our parent ends; exit at once if ``parent`` has ended already."""
    _prctl(PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent:
        sys.exit(128 + signum)


def adopt_orphans() -> None:
    """Make orphans among our descendants our children, so that `descendants` still finds them."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def descendants(pid: int | None = None) -> "list[psutil.Process]":
    """All living descendants of process ``pid`` (default: of this one), parents first; [] if it is gone."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        return [process for process in psutil.Process(pid).children(recursive=True) if is_alive(process)]
    return []


def is_alive(process: "psutil.Process") -> bool:
    """Whether ``process`` still runs: no other process has taken its id, and it is no zombie."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def stop_descendants(grace: float) -> None:
    """Send TERM to all our descendants, wait ``grace`` seconds, then send KILL until none is alive."""
    _signal_descendants(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while descendants() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        _reap()
    while descendants():
        _signal_descendants(signal.SIGKILL)
        time.sleep(POLL_SECONDS)
        _reap()


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot, or None if it is gone.

    With the id it names a process for good. psutil's start times are wall-clock times: they move when the clock is set.
    """
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _signal_descendants(signum: int) -> None:
    import psutil

    for process in descendants():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signum)


def _reap() -> None:
    """Collect children that have ended, so that adopted orphans do not stay as zombies."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL("libc.so.6", use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) failed")
