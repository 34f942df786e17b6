"""Follow an attempt of a training, and report its events: each step that verl records, warnings, progress, the end.

An event is a mapping with ``event`` (step, alert, progress or done), a ``message`` for people, and its values.
"""

import sys
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from core.backends import monitor
from core.backends.monitor import Attempt
from core.backends.task import Backend, Task
from core.machine.jsonl_tail import send_event
from core.metric_table import REWARD, SFT_LOSS, VALIDATION_SCORE, is_finite
from core.plugins.user_code import UserFunctionError, named_in_errors
from core.progress import after
from training.job.records.metrics_log import merge_attempts, records_in, seconds_of

Report = Callable[[dict[str, Any]], None]
# What the message of a step says.
TOLD = {REWARD: "reward {:.2f}", SFT_LOSS: "loss {:.3f}", VALIDATION_SCORE: "validation {:.2f}"}


def follow(
    attempt: Attempt,
    backend: Backend,
    task: Task,
    *,
    total: int,
    done: int,
    stall_seconds: float,
    report: Report,
    trackers: Sequence[str] = (),
    after_step: Callable[[Mapping[str, Any]], None] | None = None,
    code: Mapping[str, Any] | None = None,
) -> None:
    """Run ``task`` to its end and report each step of ``total``, of which earlier attempts did ``done``.

    ``trackers`` are the `function_path` of functions of the user's. Each is called with a step and its metrics; one
    that fails is reported, and called no more. ``after_step`` is called with the record of a step that was reported.

    What else it does, and raises, is that of `core.backends.monitor.follow`.
    """
    say = partial(progress, report)
    if not attempt.record.exists():
        if done:
            say(f"resuming after step {done} of {total}")
        say("starting Ray, vLLM and the actor")
    seconds: deque[float] = deque(maxlen=10)  # seconds of the last steps
    called = list(trackers)

    def on_step(record: Mapping[str, Any]) -> None:
        seconds.append(seconds_of(record))
        report(_step_event(record, total, seconds))
        for path in [*called]:
            try:
                named_in_errors(path)(record["step"], dict(record["data"]))
            except UserFunctionError as error:
                called.remove(path)
                warn(report, record["step"], f"{error}; this tracker gets no more steps")
        if after_step:
            after_step(record)

    monitor.follow(
        attempt, backend, task, "training", on_record=on_step, say=say, stall_seconds=stall_seconds, code=code
    )


def steps_before(attempt: Attempt, earlier: Sequence[Attempt], done: int) -> list[dict[str, Any]]:
    """Return the steps before those of ``attempt``, which has made some if it still runs."""
    steps = merge_attempts(one.records for one in earlier if one.number < attempt.number)
    first = next((record["step"] for record in records_in(attempt.records)), done + 1)
    return [record for record in steps if record["step"] < first]


def tell(event: dict[str, Any]) -> None:
    """Print the message of an event, and send the event to the Dagster step that started this program, if one did."""
    send_event(event)
    sys.stdout.write(f"training: {event['message']}\n")
    sys.stdout.flush()


def progress(report: Report, message: str) -> None:
    """Report a line about the training as a whole."""
    report({"event": "progress", "message": message})


def warn(report: Report, step: int, text: str) -> None:
    """Report a warning about the training, as of ``step``."""
    report({"event": "alert", "step": step, "message": f"warning: {text}"})


def done(report: Report, policy: Path, *, reused: bool) -> None:
    """Report that the training has ended with ``policy``."""
    message = f"{'reused' if reused else 'wrote'} {policy}"
    report({"event": "done", "policy": str(policy), "reused": reused, "message": message})


def _step_event(record: Mapping[str, Any], total: int, seconds: Collection[float]) -> dict[str, Any]:
    """Return the event of a step; the time left comes from the mean of the last steps."""
    step, metrics = record["step"], record["data"]
    told = [f", {text.format(metrics[name])}" for name, text in TOLD.items() if is_finite(metrics.get(name))]
    left = sum(seconds) / len(seconds) * (total - step)
    message = f"step {step} of {total}{''.join(told)}{after(left)}"
    return {"event": "step", "step": step, "total": total, "metrics": metrics, "message": message}
