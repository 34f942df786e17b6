"""Run a task as a job of a Ray cluster."""

import shlex
import signal
import sys
import time

from core.backends.task import Task
from core.errors import InputError, first_line

UNREACHABLE_SECONDS = 120.0  # give up after this time without an answer of the Ray dashboard


class RayJobBackend:
    """A Ray Job, submitted under the task's name, so that a restarted command finds it."""

    def __init__(self, address: str) -> None:
        from ray.exceptions import AuthenticationError
        from ray.job_submission import JobSubmissionClient

        try:
            self._client = JobSubmissionClient(address)
        except AuthenticationError as error:
            raise InputError(
                f"ray_address={address}: the cluster rejected the token: set RAY_AUTH_MODE=token and "
                "RAY_AUTH_TOKEN_PATH, or RAY_AUTH_TOKEN, to the cluster's"
            ) from error
        except (OSError, RuntimeError, ValueError, KeyError) as error:  # also the answer of another web server
            raise InputError(f"ray_address={address}: no Ray dashboard answers there ({first_line(error)})") from error
        self._address, self._name, self.queued = address, "", False
        self._last_answer = time.monotonic()

    def start(self, task: Task) -> None:
        # No environment of the job: its driver gives the workers one, and Ray refuses two of the same variable.
        variables = [f"{name}={value}" for name, value in task.environment.items()]
        command = shlex.join(["env", *variables, sys.executable, "-P", "-m", *task.module])
        # The log goes into the run's folder, like that of a local task.
        entrypoint = (
            f"cd {shlex.quote(str(task.folder))} && exec {command} > {shlex.quote(str(task.log.resolve()))} 2>&1"
        )
        deadline = time.monotonic() + UNREACHABLE_SECONDS
        while True:
            try:
                self._client.submit_job(entrypoint=entrypoint, submission_id=task.name)
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
                    f"ray_address={self._address}: no answer for {UNREACHABLE_SECONDS:.0f} s ({error}); the job "
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
