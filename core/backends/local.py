"""A task as a process on this machine."""

import os
import signal
import subprocess
import sys

from core.backends.task import GRACE_SECONDS, Task
from core.loopback import single_node_environment
from core.processes import adopt_orphans, stop_descendants


class LocalBackend:
    """A process on this machine under `core.backends.supervisor`: it ends when we end, with all its descendants."""

    queued = False

    def __init__(self, lock: int | None = None) -> None:
        self._lock = lock
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, task: Task) -> None:
        command = [sys.executable, "-m", "core.backends.supervisor", "--grace", str(GRACE_SECONDS), "--"]
        adopt_orphans()
        with task.log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, sys.executable, "-m", *task.module],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=task.folder,
                env={**os.environ, **single_node_environment(), **task.environment},
                pass_fds=[] if self._lock is None else [self._lock],
            )

    def reattach(self, task: Task) -> bool:
        return False  # a local task ends with the command that started it

    def poll(self) -> int | None:
        assert self._process is not None
        status = self._process.poll()
        if status is None or status >= 0:
            return status
        # The supervisor itself was killed, so its descendants have become ours.
        stop_descendants(GRACE_SECONDS)
        return 128 - status

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()
