"""Run `generate` or `traces` as a job of a Ray cluster or of Slurm: submit it, follow it, and find it again.

The command submits its own request with the backend ``local``. The job keeps its samples in the cache and writes its
files, so that both have to be at the same paths on every node; its progress comes back through a file beside them.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from core.backends import build_backend
from core.backends.monitor import LOG_TAIL_LINES, Attempt, attempts, follow, hold, log_lines, next_attempt
from core.backends.task import Task, base_environment
from core.code_digest import SHORT_DIGEST, identity
from core.commands import Command
from core.errors import TaskFailed
from core.machine.jsonl_tail import EVENTS_FILE
from core.shared_settings import InterpreterSettings

SLURM = {"time": 1440}  # minutes, as for a training
# Variables of ours that decide which samples are drawn, or where models come from.
PASSED_ON = ("HF_HUB_OFFLINE", "VLLM_USE_V2_MODEL_RUNNER")


def run_elsewhere(
    command: str,
    request: Command,
    interpreter: InterpreterSettings,
    out: Path,
    report: Callable[[dict[str, Any]], None],
) -> None:
    """Run ``python -m evaluation COMMAND`` as a job to its end, or take over the job of an earlier command.

    Args:
        command: `generate` or `traces`.
        request: The work of the job. Equal requests in the same folder mean the same job.
        interpreter: Where it runs.
        out: the folder that the job writes; its request, log and progress go into ``attempts/`` below.
        report: receives the job's events.

    Raises:
        InputError: the cluster does not take the job, or the job finds a mistake in its input.
        TaskFailed: the job failed.
    """
    backend = build_backend({**interpreter.model_dump(), "slurm": SLURM | interpreter.slurm})
    with hold(out, "evaluation", _say):
        folder = out.resolve() / "attempts"
        folder.mkdir(exist_ok=True)
        here = request.model_copy(update={"interpreter": InterpreterSettings()})
        job = identity(str(Path.cwd()), command, request.model_dump(mode="json"))[:SHORT_DIGEST]
        task = partial(
            _task, job, ("evaluation", command, "--request", str(here.write(folder / f"request-{job}.json")))
        )
        earlier = attempts(folder)
        found = earlier and backend.reattach(task(earlier[-1]))
        attempt = earlier[-1] if found else next_attempt(folder)
        try:
            follow(attempt, backend, task(attempt), "evaluation", on_record=report, say=_say)
        except TaskFailed:
            sys.stderr.write("".join(f"{line}\n" for line in log_lines(attempt.log)[-LOG_TAIL_LINES:]))
            raise


def _task(job: str, module: tuple[str, ...], attempt: Attempt) -> Task:
    """Return the process of an attempt."""
    return Task(
        name=f"luffy-evaluation-{job}-{attempt.number}",
        module=module,
        environment={
            **base_environment(),
            EVENTS_FILE: str(attempt.records),
            **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
        },
        log=attempt.log,
        folder=Path.cwd(),
    )


def _say(message: str) -> None:
    sys.stderr.write(f"evaluation: {message}\n")
