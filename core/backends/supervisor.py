"""Run a command so that none of its processes outlives us: ``python -m core.backends.supervisor -- command …``.

Ray and vLLM start processes in sessions of their own, so a signal to a process group misses most of a job. The
supervisor adopts the orphans of the job, dies with its own parent, and ends every descendant when the command ends,
when it receives a signal itself, or when its parent ends.
"""

import argparse
import os
import signal
import subprocess
import sys
import time

from core.cli import private_files
from core.machine.processes import POLL_SECONDS, adopt_orphans, die_with_parent, stop_descendants
from core.machine.temporary_folder import short_temporary_folder

SECONDS_AFTER_THE_END = 1.0  # when the command has ended by itself, only idle helpers of it are left


def supervise(command: list[str], grace: float, *, outlive_parent: bool = False) -> int:
    """Run ``command`` until it ends or we are stopped; its exit status, or 128 + the signal that stopped us."""
    received: list[int] = []
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signum != signal.SIGHUP or signal.getsignal(signum) != signal.SIG_IGN:  # nohup ignores it
            signal.signal(signum, lambda number, _: received.append(number))
    adopt_orphans()
    if not outlive_parent:
        die_with_parent(os.getppid())
    supervisor = os.getpid()
    with short_temporary_folder() as variables:
        # The command dies with us even if we are killed.
        child = subprocess.Popen(
            command,
            env={**os.environ, **variables},
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(supervisor),
        )
        while (status := child.poll()) is None and not received:
            time.sleep(POLL_SECONDS)
        stop_descendants(grace if received else min(grace, SECONDS_AFTER_THE_END))
    if status is None:
        return 128 + received[0]
    return status if status >= 0 else 128 - status


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m core.backends.supervisor",
        description="Run a command so that none of its processes outlives this one.",
    )
    parser.add_argument("--grace", type=float, default=10.0, help="seconds between TERM and KILL (default %(default)s)")
    parser.add_argument("--outlive-parent", action="store_true", help="go on when the parent ends, as a server does")
    parser.add_argument("command", nargs="+", help="the command, after --")
    arguments = parser.parse_args()
    private_files()
    sys.exit(supervise(arguments.command, arguments.grace, outlive_parent=arguments.outlive_parent))


if __name__ == "__main__":
    main()
