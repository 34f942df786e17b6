"""Run a task as a process on this machine."""

import signal
import subprocess

from core.backends.task import GRACE_SECONDS, Task, start_supervised
from core.machine.processes import adopt_orphans, stop_descendants


class LocalBackend:
    """A process on this machine under `core.backends.supervisor`, which ends with us and all its descendants."""

    queued = False

    def __init__(self, lock: int | None = None) -> None:
        self._lock = lock
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, task: Task) -> None:
        adopt_orphans()
        heirs = [] if self._lock is None else [self._lock]
        self._process = start_supervised(task.module, task.environment, task.folder, task.log, heirs)

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
