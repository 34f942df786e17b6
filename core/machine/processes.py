"""Processes on this machine (Linux): find them, tie them to their parent, end them with all their descendants.

psutil's signals are not used: between its look at a process and its signal the id may pass to another process.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Process:
    """A process, identified by its id and start time, because ids are reused."""

    pid: int
    since: int  # clock ticks from boot to its start; psutil's start times move when the clock is set

    def is_alive(self) -> bool:
        """Return whether it still runs; a zombie does not."""
        stat = _stat(self.pid)
        return stat is not None and stat.since == self.since and stat.state not in "ZX"

    def send_signal(self, signum: signal.Signals) -> bool:
        """Signal this process; False, and no process gets the signal, if it has ended."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            # The descriptor stands for whoever has the id now; if that is still us, it stays us.
            if start_ticks(self.pid) != self.since:
                return False
            signal.pidfd_send_signal(descriptor, signum)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True


def running() -> list[Process]:
    """List every visible process of this machine; identify a process here before you read what it does."""
    return [Process(pid, stat.since) for pid, stat in _stats().items()]


def descendants(pid: int | None = None) -> list[Process]:
    """Return all living descendants of process ``pid`` (default: of this one), parents first; [] if it is gone."""
    stats = _stats()
    children: dict[int, list[int]] = defaultdict(list)
    for child, stat in stats.items():
        children[stat.parent].append(child)
    family, ours = [], [os.getpid() if pid is None else pid]
    for parent in ours:
        if parent not in stats or start_ticks(parent) != stats[parent].since:
            continue  # it has ended, so its id may have passed to the parent of other children
        family += [Process(child, stats[child].since) for child in children[parent] if stats[child].state not in "ZX"]
        ours += children[parent]
    return family


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
    """Start time of a process in clock ticks since boot, or None if it is gone."""
    stat = _stat(pid)
    return stat.since if stat else None


@dataclass(frozen=True)
class _Stat:
    parent: int
    since: int
    state: str


def _stat(pid: int) -> _Stat | None:
    """Return what the kernel says of process ``pid`` at one moment; None if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return _Stat(parent=int(fields[1]), since=int(fields[19]), state=fields[0])


def _stats() -> dict[int, _Stat]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    return {pid: stat for pid in pids if (stat := _stat(pid)) is not None}


def _signal_descendants(signum: signal.Signals) -> None:
    for process in descendants():
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
