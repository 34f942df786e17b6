"""Run a command so that none of its processes outlives us: ``python -m core.backends.supervisor -- command …``.

Ray and vLLM start processes in new sessions, so a signal to a process group misses most of a job. The
supervisor adopts the orphans of the job, dies with its own parent, and ends every descendant when the command ends,
when it receives a signal itself, or when its parent ends: first the command, which may then say what it leaves.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from core.cli import private_files
from core.errors import stopped
from core.machine.processes import POLL_SECONDS, adopt_orphans, die_with_parent, stop_descendants
from core.machine.temporary_folder import short_temporary_folder

SUPERVISOR = "LUFFY_SUPERVISOR"  # variable: the id of the process that supervises a command
SECONDS_AFTER_THE_END = 1.0  # when the command has ended by itself, only idle helpers of it are left


def supervise(command: list[str], grace: float, parent: int | None) -> int:
    """Run ``command`` until it ends, we are stopped, or process ``parent`` ends; its exit status, or 128 + a signal."""
    received: list[int] = []
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signum != signal.SIGHUP or signal.getsignal(signum) != signal.SIG_IGN:  # nohup ignores it
            signal.signal(signum, lambda number, _: received.append(number))
    adopt_orphans()
    if parent is not None:
        die_with_parent(parent)
    supervisor = os.getpid()
    with short_temporary_folder() as variables:
        # The command dies with us even if we are killed.
        child = subprocess.Popen(
            command,
            env={**os.environ, **variables, SUPERVISOR: str(supervisor)},
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(supervisor),
        )
        while (status := child.poll()) is None and not received:
            time.sleep(POLL_SECONDS)
        if received:
            child.terminate()
            with suppress(subprocess.TimeoutExpired):
                child.wait(grace)
        stop_descendants(min(grace, SECONDS_AFTER_THE_END))
    if received:
        return 128 + received[0]
    assert status is not None
    if status < 0:
        sys.stderr.write(f"error: {_name(command)} {stopped(status)}\n")
    return status if status >= 0 else 128 - status


def is_supervised() -> bool:
    """Return whether a supervisor started this process."""
    return os.environ.get(SUPERVISOR) == str(os.getppid())


def under_supervisor(command: Sequence[str]) -> list[str]:
    """Return the command line that runs ``command`` under a supervisor."""
    return [sys.executable, "-P", "-m", "core.backends.supervisor", "--", *command]


def _name(command: Sequence[str]) -> str:
    """Return what to call a command: its module, or else its program."""
    return command[command.index("-m") + 1] if "-m" in command else command[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m core.backends.supervisor",
        description="Run a command so that none of its processes outlives this one.",
    )
    parser.add_argument("--grace", type=float, default=10.0, help="seconds between TERM and KILL (default %(default)s)")
    parser.add_argument("--outlive-parent", action="store_true", help="go on when the parent ends, as a server does")
    parser.add_argument("--parent", type=int, default=os.getppid(), help="its parent, which may be gone by now")
    parser.add_argument("command", nargs="+", help="the command, after --")
    arguments = parser.parse_args()
    private_files()
    sys.exit(supervise(arguments.command, arguments.grace, None if arguments.outlive_parent else arguments.parent))


if __name__ == "__main__":
    main()
