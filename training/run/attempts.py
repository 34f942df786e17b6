"""One attempt of a training run: start it or take it over, follow its metrics, and say why it ended.

Attempt N leaves three files in the run's ``attempts`` folder: ``N.log`` (its output), ``N.jsonl`` (its step metrics)
and ``N.json`` (its `AttemptRecord`).
"""

import signal
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.files import read_json, write_json
from core.patterns import compile_quick_pattern
from training.run.backends.task import Backend, Task
from training.run.metrics import MetricsFile, seconds_of

POLL_SECONDS = 0.5
LOG_TAIL_LINES = 30
TAIL_BYTES = 1 << 20  # a log may hold days of output; this much of its end is searched for the reason
ERROR = compile_quick_pattern(r"\b(?:[A-Z]\w*(?:Error|Exception)|InputError)\b: ")
COLOUR = compile_quick_pattern(r"\x1b\[[0-9;]*m")
Report = Callable[[dict[str, Any]], None]


class TrainingFailed(RuntimeError):
    """The training process ended with an error; the message holds the reason and where the whole log is."""


@dataclass(frozen=True)
class AttemptRecord:
    """When an attempt started and how it ended; a killed training command leaves only the start."""

    started: str  # ISO 8601
    ended: str | None = None
    status: int | None = None  # None: it was stopped, for example because it made no step
    reason: str = ""


class Attempt:
    """The files of attempt ``number`` in ``folder``."""

    def __init__(self, folder: Path, number: int) -> None:
        self.number = number
        self.log = folder / f"{number:04}.log"
        self.metrics = folder / f"{number:04}.jsonl"
        self.record = folder / f"{number:04}.json"

    def read_record(self) -> AttemptRecord:
        """The content of the file `record`."""
        return AttemptRecord(**read_json(self.record))

    def seconds(self) -> float:
        """How long it ran; if its training command was killed, until its last output."""
        record = self.read_record()
        if record.ended:
            last = datetime.fromisoformat(record.ended).timestamp()
        else:
            last = max(file.stat().st_mtime for file in (self.record, self.log, self.metrics) if file.exists())
        return max(0.0, last - datetime.fromisoformat(record.started).timestamp())


def attempts(folder: Path) -> list[Attempt]:
    """The attempts in ``folder``, first to last."""
    return [Attempt(folder, int(file.stem)) for file in sorted(folder.glob("[0-9]*.json"))]


def follow(
    attempt: Attempt, backend: Backend, task: Task, *, total: int, done: int, stall_seconds: float, report: Report
) -> None:
    """Run ``task`` to its end and report each step of ``total``, of which earlier attempts did ``done``.

    If the attempt has a record, ``backend`` has taken over its running task; otherwise the task is started. However
    this function ends, nothing of the task is alive afterwards.

    Raises:
        TrainingFailed: the task ended with an error, or made no step for ``stall_seconds``.
    """
    status: int | None = None
    reason = "the training command was stopped"
    try:
        if attempt.record.exists():
            report({"event": "progress", "stage": "training", "message": f"following {task.name}, which still runs"})
        else:
            if done:
                report({"event": "progress", "stage": "training", "message": f"resuming after step {done} of {total}"})
            report({"event": "progress", "stage": "training", "message": "starting Ray, vLLM and the actor"})
            write_json(asdict(AttemptRecord(started=_now())), attempt.record)
            backend.start(task)
        status, reason = _watch(attempt, backend, total, stall_seconds, report)
    finally:
        backend.stop()
        record = replace(attempt.read_record(), ended=_now(), status=status, reason=reason)
        write_json(asdict(record), attempt.record)
    if status != 0:
        raise TrainingFailed(f"{reason}\nthe whole log: {attempt.log}")


def _watch(
    attempt: Attempt, backend: Backend, total: int, stall_seconds: float, report: Report
) -> tuple[int | None, str]:
    """Follow the task until it ends or stalls; its exit status (None: stalled) and, unless that is 0, the reason."""
    metrics = MetricsFile(attempt.metrics)
    seconds: deque[float] = deque(maxlen=10)  # of the last steps
    moved = time.monotonic()
    while True:
        status = backend.poll()
        if backend.queued:
            moved = time.monotonic()
        for record in metrics.new_records():
            moved = time.monotonic()
            seconds.append(seconds_of(record))
            report(_step_event(record, total, seconds))
        if status is not None:
            return status, "" if status == 0 else reason_of(attempt.log, status)
        if time.monotonic() - moved > stall_seconds:
            last = "\n".join(log_lines(attempt.log)[-LOG_TAIL_LINES:])
            return None, f"training made no step for {stall_seconds:g} s (run.stall_seconds); its last lines:\n{last}"
        time.sleep(POLL_SECONDS)


def _step_event(record: Mapping[str, Any], total: int, seconds: Collection[float]) -> dict[str, Any]:
    """The event of a step; the time left comes from the mean of the last steps."""
    left = sum(seconds) / len(seconds) * (total - record["step"])
    return {
        "event": "step",
        "step": record["step"],
        "total": total,
        "metrics": record["data"],
        "seconds_left": round(left, 1),
    }


def log_lines(log: Path) -> list[str]:
    """The last lines of a log without colour codes; [] if it was never written."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        text = file.read().decode(errors="replace")
    return [COLOUR.sub("", line) for line in text.splitlines()]


def reason_of(log: Path, status: int) -> str:
    """Why a process ended with ``status``: the signal, or the last error in its log, or its last lines."""
    if status > 128:
        return f"training was stopped by signal {signal.Signals(status - 128).name}"
    lines = log_lines(log)
    named = [number for number, line in enumerate(lines) if ERROR.search(line)]
    if not named:
        return "training failed: " + "\n".join(line.strip() for line in lines[-LOG_TAIL_LINES:])
    # Ray repeats the remote traceback; the last error in it is what the driver saw. The lines below it say which of
    # Ray's processes died.
    last, *below = lines[named[-1] : named[-1] + 5]
    died = [line.split(":", 1)[1].strip() for line in below if line.startswith("\tclass_name:")]
    return "training failed: " + " ".join([last.strip(), *(f"({name})" for name in died)])


def _now() -> str:
    return datetime.now(UTC).isoformat()
