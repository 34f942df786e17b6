"""Where the training process runs: as a supervised process on this machine, or as a job of a Ray cluster or of Slurm.

All write the same log and metrics files into the run's folder, so that a run is followed in the same way.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from core.code import PROJECT
from core.errors import InputError
from core.loopback import single_node_environment
from core.processes import adopt_orphans, stop_descendants

GRACE_SECONDS = 10.0  # from TERM to KILL
UNREACHABLE_SECONDS = 120.0  # we give up when a Ray dashboard has not answered for so long


@dataclass(frozen=True)
class Task:
    """A process to run. ``name`` identifies the attempt of a run, so that a restarted command can find the process."""

    name: str
    module: tuple[str, ...]  # module and arguments, for ``python -m``
    environment: Mapping[str, str]
    log: Path


class Backend(Protocol):
    """Starts one task, tells whether it runs, and ends it."""

    def start(self, task: Task) -> None:
        """Start ``task`` and return at once."""
        ...

    def reattach(self, task: Task) -> bool:
        """Take over ``task`` if an earlier training command started it and it still runs; whether that is so."""
        ...

    def poll(self) -> int | None:
        """The exit status as a shell gives it (128 + the number of a fatal signal), or None while the task runs."""
        ...

    def stop(self) -> None:
        """End the task; afterwards none of its processes is alive."""
        ...

    @property
    def queued(self) -> bool:
        """Whether the task waits for resources, as of the last `poll`."""
        ...


def build_backend(run: Mapping[str, Any], lock: int) -> Backend:
    """The backend that the section ``run`` of the configuration names.

    Args:
        run: the section.
        lock: the file descriptor that holds the run's folder; a process on this machine inherits it.

    Raises:
        InputError: the name is unknown, or the address of the cluster is missing.
    """
    match run["backend"], run["ray_address"]:
        case "local", _:
            return LocalBackend(lock)
        case "ray", None:
            raise InputError("run.backend=ray: run.ray_address is not set: give the dashboard, http://HOST:8265")
        case "ray", address:
            return RayJobBackend(str(address))
        case "slurm", _:
            from training.run.slurm import SlurmBackend

            return SlurmBackend(run["slurm"])
        case name, _:
            raise InputError(f"run.backend: got {name!r}, expected local, ray or slurm")


class LocalBackend:
    """A process on this machine under `training.run.supervisor`: it ends when we end, with all its descendants."""

    queued = False

    def __init__(self, lock: int) -> None:
        self._lock = lock
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, task: Task) -> None:
        command = [sys.executable, "-m", "training.run.supervisor", "--grace", str(GRACE_SECONDS), "--"]
        adopt_orphans()
        with task.log.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, sys.executable, "-m", *task.module],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=PROJECT,
                env={**os.environ, **single_node_environment(), **task.environment},
                pass_fds=[self._lock],
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


class RayJobBackend:
    """A Ray Job, submitted under the task's name, so that a restarted training command finds it."""

    def __init__(self, address: str) -> None:
        from ray.exceptions import AuthenticationError
        from ray.job_submission import JobSubmissionClient

        try:
            self._client = JobSubmissionClient(address)
        except AuthenticationError as error:
            raise InputError(
                f"run.ray_address={address}: the cluster rejected the token: set RAY_AUTH_MODE=token and "
                "RAY_AUTH_TOKEN_PATH, or RAY_AUTH_TOKEN, to the cluster's"
            ) from error
        except (ConnectionError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"run.ray_address={address}: no Ray dashboard answers there ({reason})") from error
        self._address, self._name, self.queued = address, "", False
        self._last_answer = time.monotonic()

    def start(self, task: Task) -> None:
        command = shlex.join([sys.executable, "-m", *task.module])
        # The log goes into the run's folder, like that of a local task.
        entrypoint = f"cd {shlex.quote(str(PROJECT))} && exec {command} > {shlex.quote(str(task.log.resolve()))} 2>&1"
        deadline = time.monotonic() + UNREACHABLE_SECONDS
        while True:
            try:
                self._client.submit_job(
                    entrypoint=entrypoint,
                    submission_id=task.name,
                    runtime_env={"env_vars": dict(task.environment)},
                )
                break
            except RuntimeError as error:
                # A cluster that has just started answers before it can run anything.
                if "No available agent" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(1)
        self._name, self._last_answer = task.name, time.monotonic()

    def reattach(self, task: Task) -> bool:
        statuses = {job.submission_id: job.status for job in self._client.list_jobs()}
        if task.name not in statuses or statuses[task.name].is_terminal():
            return False
        self._name, self._last_answer = task.name, time.monotonic()
        return True

    def poll(self) -> int | None:
        from ray.job_submission import JobStatus

        try:
            info = self._client.get_job_info(self._name)
        except (ConnectionError, RuntimeError) as error:
            if time.monotonic() - self._last_answer > UNREACHABLE_SECONDS:
                raise InputError(
                    f"run.ray_address={self._address}: no answer for {UNREACHABLE_SECONDS:.0f} s ({error}); the job "
                    f"{self._name} may still run: start this command again to follow it"
                ) from error
            return None
        self._last_answer = time.monotonic()
        self.queued = info.status == JobStatus.PENDING
        if not info.status.is_terminal():
            return None
        if info.status == JobStatus.STOPPED:
            return 128 + signal.SIGTERM
        if info.status == JobStatus.SUCCEEDED:
            return 0
        code = info.driver_exit_code or 1
        return 128 - code if code < 0 else code

    def stop(self) -> None:
        if not self._name or self.poll() is not None:
            return
        self._client.stop_job(self._name)
        while self.poll() is None:
            time.sleep(0.5)
