"""Run one of our programs as a job of a Ray cluster or of Slurm: submit it, follow its events, and find it again.

A command submits its own request with the backend ``local``. The job runs on if the command is killed, and the same
command takes it over. Paths have to be the same on every node; the events of the job come back through a file.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from core.backends import Place, build_backend
from core.backends.attempts import Attempt, attempts, hold, next_attempt
from core.backends.task import Backend, Task, base_environment
from core.commands import Command
from core.errors import InputError, TaskFailed, stopped
from core.machine.jsonl_tail import EVENTS_FILE, FAILED, RecordFile

POLL_SECONDS = 0.5
BAD_INPUT = 2  # the exit status of a mistake in the input
# Variables of ours that decide what is computed, or where models come from.
PASSED_ON = ("HF_HUB_OFFLINE", "VLLM_USE_V2_MODEL_RUNNER")


def run_elsewhere(
    module: tuple[str, ...],
    request: Command,
    place: Place,
    folder: Path,
    name: str,
    *,
    what: str,
    report: Callable[[dict[str, Any]], None],
    say: Callable[[str], object],
) -> None:
    """Run ``python -m module`` with ``request`` as a job to its end, or take over the job of an earlier command.

    Args:
        module: the program and its command.
        request: the work of the job, as the job is to do it: locally.
        place: where it runs.
        folder: where the request, the log and the events of the job are; one job at a time.
        name: what equal jobs have in common.
        what: the kind of work, for messages.
        report: receives the job's events.
        say: receives a line about the job.

    Raises:
        InputError: the cluster does not take the job, or the job finds a mistake in its input.
        TaskFailed: the job failed.
    """
    backend = build_backend(place)
    with hold(folder, what, say):
        file = request.write(folder.resolve() / f"request-{name}.json")
        task = partial(_task, f"luffy-{name}", (*module, "--request", str(file)))
        earlier = attempts(folder)
        if runs := bool(earlier and backend.reattach(task(earlier[-1]))):
            attempt = earlier[-1]
            say(f"following {task(attempt).name}, which still runs")
        else:
            attempt = next_attempt(folder)
            attempt.begin()
        status, reason = None, f"the {what} command was stopped"
        try:
            if not runs:
                backend.start(task(attempt))
            status, failure = _follow(attempt, backend, report)
            reason = "" if status == 0 else failure or f"{what} {stopped(status) or f'ended with status {status}'}"
        finally:
            backend.stop()
            attempt.end(status, reason)
    if status == BAD_INPUT and failure:
        raise InputError(failure)
    if status != 0:
        raise TaskFailed(f"{reason}\nits log, {attempt.log}, ends so:\n{attempt.last_lines()}")


def _follow(attempt: Attempt, backend: Backend, report: Callable[[dict[str, Any]], None]) -> tuple[int, str]:
    """Report the events of a job until it ends; its exit status, and the error that it told last."""
    events, failure = RecordFile(attempt.records), ""
    while True:
        status = backend.poll()
        for event in events.new_records():
            if event["event"] == FAILED:
                failure = event["message"]
            else:
                report(event)
        if status is not None:
            return status, failure
        time.sleep(POLL_SECONDS)


def _task(name: str, module: tuple[str, ...], attempt: Attempt) -> Task:
    """Return the process of an attempt."""
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return Task(
        name=f"{name}-{attempt.number}",
        module=module,
        environment={**base_environment(), EVENTS_FILE: str(attempt.records.resolve()), **passed_on},
        log=attempt.log,
        folder=Path.cwd(),
    )
