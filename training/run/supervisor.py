"""Run a command so that nothing of it outlives us: ``python -m training.run.supervisor -- command …``.

Ray and vLLM start processes in sessions of their own, so signalling a process group misses most of a job. The
supervisor is a sub-reaper (orphans of the job become its children), dies with its own parent, and on any end (the
command's, a signal's, the parent's) sends TERM to every descendant, waits, then sends KILL until none is left.
Linux only, as are verl and vLLM.
"""

import argparse
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL_SECONDS = 0.1


def prctl(option: int, value: int) -> None:
    """Call prctl(2); OSError if the kernel refuses."""
    libc = ctypes.CDLL("libc.so.6", use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value}) failed")


def die_with_parent(parent: int, signum: int = signal.SIGTERM) -> None:
    """Ask the kernel to signal this process when its parent ends; exit if ``parent`` has ended already."""
    prctl(PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent:
        sys.exit(128 + signum)


def descendants() -> list[int]:
    """Process ids of all living descendants of this process, parents first."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if state != "Z":
            children.setdefault(int(parent), []).append(int(entry.name))
    found, queue = [], [os.getpid()]
    while queue:
        for pid in children.get(queue.pop(), []):
            found.append(pid)
            queue.append(pid)
    return found


def signal_all(signum: int) -> None:
    """Send ``signum`` to every descendant."""
    for pid in descendants():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)


def reap() -> None:
    """Collect children that have ended, so that adopted orphans do not stay as zombies."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def stop_descendants(grace: float) -> None:
    """TERM, ``grace`` seconds, then KILL until no descendant is alive."""
    signal_all(signal.SIGTERM)
    deadline = time.monotonic() + grace
    while descendants() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        reap()
    while descendants():
        signal_all(signal.SIGKILL)
        time.sleep(POLL_SECONDS)
        reap()


def adopt_orphans() -> None:
    """Let orphans among our descendants become our children, so that ``descendants`` still finds them."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def supervise(command: list[str], grace: float) -> int:
    """Run ``command`` to its end or ours; return its exit status, or 128 + the signal that stopped us."""
    parent = os.getppid()
    received: list[int] = []
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda number, _: received.append(number))
    adopt_orphans()
    die_with_parent(parent)
    own = os.getpid()
    # Where we are killed ourselves, the command still hears of it.
    child = subprocess.Popen(command, start_new_session=True, preexec_fn=lambda: die_with_parent(own))
    while (status := child.poll()) is None and not received:
        time.sleep(POLL_SECONDS)
    # A job that ended by itself leaves only idle helpers behind: they get no more than a second to say goodbye.
    stop_descendants(grace if received else min(grace, 1.0))
    if status is None:
        return 128 + received[0]
    return status if status >= 0 else 128 - status


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.run.supervisor", description="Run a command so that nothing of it outlives us."
    )
    parser.add_argument("--grace", type=float, default=10.0, help="seconds between TERM and KILL (default %(default)s)")
    parser.add_argument("command", nargs="+", help="the command, after --")
    arguments = parser.parse_args()
    sys.exit(supervise(arguments.command, arguments.grace))


if __name__ == "__main__":
    main()
