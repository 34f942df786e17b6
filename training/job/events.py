"""What a training tells while it runs: each step that verl records, warnings, progress, the end.

An event is a mapping with ``event`` (step, alert, progress or done), a ``message`` for people, and its values.
"""

import os
import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from core.machine.jsonl_tail import send_event
from core.metric_table import REWARD, SFT_LOSS, VALIDATION_SCORE, is_finite
from core.progress import after

Report = Callable[[dict[str, Any]], None]
# What the message of a step says.
TOLD = {REWARD: "reward {:.2f}", SFT_LOSS: "loss {:.3f}", VALIDATION_SCORE: "validation {:.2f}"}


def tell(event: dict[str, Any]) -> None:
    """Print the message of an event, and send the event to what follows this program, if anything does."""
    send_event(event)
    sys.stdout.flush()
    out = standard_output()
    out.write(f"training: {event['message']}\n")
    out.flush()


@cache
def standard_output() -> TextIO:
    """Return our standard output, where it stays while the process's goes into a log."""
    return os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")


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


def step_event(record: Mapping[str, Any], total: int, seconds: Collection[float]) -> dict[str, Any]:
    """Return the event of a step of ``total``; the time left comes from the mean of the last steps' ``seconds``."""
    step, metrics = record["step"], record["data"]
    told = [f", {text.format(metrics[name])}" for name, text in TOLD.items() if is_finite(metrics.get(name))]
    left = sum(seconds) / len(seconds) * (total - step)
    message = f"step {step} of {total}{''.join(told)}{after(left)}"
    return {"event": "step", "step": step, "total": total, "metrics": metrics, "message": message}
