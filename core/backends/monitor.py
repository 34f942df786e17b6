"""Follow one attempt at a task: start it or take it over, pass on its records, and explain why it ended.

Attempt N leaves three files in its folder: ``N.log`` (its output), ``N.jsonl`` (its records) and ``N.json`` (its
`AttemptRecord`).
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict

from core.backends.task import Backend, Task
from core.errors import InputError, TaskFailed, stopped, validated
from core.files import read_object, write_json
from core.machine.jsonl_tail import RecordFile
from core.text.patterns import compile_quick_pattern

POLL_SECONDS = 0.5
LOG_TAIL_LINES = 30
TAIL_BYTES = 1 << 20  # a log may hold days of output; this much of its end is searched for the reason
LOCK_SECONDS = 60.0  # how long the processes of a killed command may take to end
ERROR = compile_quick_pattern(r"\b(?:[A-Z]\w*(?:Error|Exception)|InputError)\b: ")
# Errors that only follow from another one, which the log has further up.
CONSEQUENCE = compile_quick_pattern(r"no materializable trajectories|above, says why")
COLOUR = compile_quick_pattern(r"\x1b\[[0-9;]*m")
OF_WORKER = compile_quick_pattern(r"\(\w+ pid=\d+")  # what Ray puts before a line of one of its workers
OF_WORKER_PREFIX = compile_quick_pattern(r"^\(\w+ pid=\d+[^)]*\)\s*")
COMPLAINT = "error: "  # what a line of our own programs starts with that says what is wrong with the input
EARLIER = "earlier"  # folder of attempts that count no more
BAD_INPUT = 2  # the exit status that goes with it


def _moment(text: str) -> str:
    datetime.fromisoformat(text)
    return text


Moment = Annotated[str, AfterValidator(_moment)]  # ISO 8601


class AttemptRecord(BaseModel):
    """The start and the end of an attempt; if its command was killed, only the start is known."""

    model_config = ConfigDict(frozen=True)

    started: Moment
    ended: Moment | None = None
    status: int | None = None  # None: it was stopped, for example because it made no step
    reason: str = ""
    code: Mapping[str, Any] | None = None  # the code that it ran, if its command says so


class Attempt:
    """The files of attempt ``number`` in ``folder``."""

    def __init__(self, folder: Path, number: int) -> None:
        self.number = number
        self.log = folder / f"{number:04}.log"
        self.records = folder / f"{number:04}.jsonl"
        self.record = folder / f"{number:04}.json"

    def read_record(self) -> AttemptRecord:
        """Return the content of the file `record`; InputError if it is damaged."""
        try:
            return validated(AttemptRecord, read_object(self.record), f"{self.record}: ")
        except InputError as error:
            raise InputError(f"{error}; remove the file, and the attempt does not count") from error

    def seconds(self) -> float:
        """Return how long it ran; if its command was killed, until its last output."""
        record = self.read_record()
        if record.ended:
            last = datetime.fromisoformat(record.ended).timestamp()
        else:
            last = max(file.stat().st_mtime for file in (self.record, self.log, self.records) if file.exists())
        return max(0.0, last - datetime.fromisoformat(record.started).timestamp())


def attempts(folder: Path) -> list[Attempt]:
    """Return the attempts in ``folder``, first to last."""
    return [Attempt(folder, int(file.stem)) for file in sorted(folder.glob("[0-9]*.json"))]


def next_attempt(folder: Path) -> Attempt:
    """Return the attempt after those in ``folder``; no number comes again, because jobs of clusters are named by it."""
    ended = [*attempts(folder), *attempts(folder / EARLIER)]
    return Attempt(folder, 1 + max((attempt.number for attempt in ended), default=0))


@contextmanager
def hold(folder: Path, what: str, say: Callable[[str], None]) -> Iterator[int]:
    """Hold ``folder``; yields a file descriptor with which a process that inherits it holds the folder, too.

    ``say`` gets a line if another command, a ``what``, holds the folder.

    Raises:
        InputError: it still does so after `LOCK_SECONDS`.
    """
    from filelock import lock_descriptor

    folder.mkdir(parents=True, exist_ok=True)
    # A descriptor and no FileLock: that would free the folder while heirs of the lock are alive.
    with (folder / ".lock").open("w") as file:
        deadline = None
        while not lock_descriptor(file.fileno(), blocking=False):
            if deadline is None:
                deadline = time.monotonic() + LOCK_SECONDS
                say(f"waiting up to {LOCK_SECONDS:g} s: another {what} in {folder} runs or is ending")
            elif time.monotonic() > deadline:
                raise InputError(f"{folder}: another {what} runs in it: wait for it, or give --out another folder")
            time.sleep(0.5)
        yield file.fileno()


def follow(
    attempt: Attempt,
    backend: Backend,
    task: Task,
    what: str,
    *,
    on_record: Callable[[dict[str, Any]], None],
    say: Callable[[str], None],
    stall_seconds: float | None = None,
    code: Mapping[str, Any] | None = None,
) -> None:
    """Run ``task``, a ``what``, to its end and pass on each of its records; a new attempt's record has ``code``.

    If the attempt has a record, ``backend`` has taken over its running task; otherwise the task is started. However
    this function ends, nothing of the task is alive afterwards.

    Raises:
        TaskFailed: the task ended with an error, or wrote no record for ``stall_seconds``.
        InputError: the task ended with the status of a mistake in its input, and with a line that says which.
    """
    status: int | None = None
    reason = f"the {what} command was stopped"
    try:
        if attempt.record.exists():
            say(f"following {task.name}, which still runs")
        else:
            write_json(AttemptRecord(started=_now(), code=code).model_dump(), attempt.record)
            backend.start(task)
        status, reason = _watch(attempt, backend, what, stall_seconds, on_record)
    finally:
        backend.stop()
        ended = {"ended": _now(), "status": status, "reason": reason}
        write_json(attempt.read_record().model_copy(update=ended).model_dump(), attempt.record)
    if status == BAD_INPUT and reason.startswith(COMPLAINT):
        raise InputError(reason.removeprefix(COMPLAINT))
    if status != 0:
        raise TaskFailed(f"{reason}\nthe whole log: {attempt.log}")


def _watch(
    attempt: Attempt,
    backend: Backend,
    what: str,
    stall_seconds: float | None,
    on_record: Callable[[dict[str, Any]], None],
) -> tuple[int | None, str]:
    """Follow the task until it ends or stalls; its exit status (None: stalled) and, unless that is 0, the reason."""
    records = RecordFile(attempt.records)
    moved = time.monotonic()
    while True:
        status = backend.poll()
        if backend.queued:
            moved = time.monotonic()
        for record in records.new_records():
            moved = time.monotonic()
            on_record(record)
        if status is not None:
            return status, "" if status == 0 else reason_of(attempt.log, status, what)
        if stall_seconds is not None and time.monotonic() - moved > stall_seconds:
            last = "\n".join(log_lines(attempt.log)[-LOG_TAIL_LINES:])
            return None, f"{what} made no step for {stall_seconds:g} s (run.stall_seconds); its last lines:\n{last}"
        time.sleep(POLL_SECONDS)


def log_lines(log: Path) -> list[str]:
    """Return the last lines of a log without colour codes; [] if it was never written."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_BYTES))
        text = file.read().decode(errors="replace")
    return [COLOUR.sub("", line) for line in text.splitlines()]


def reason_of(log: Path, status: int, what: str) -> str:
    """Return why a ``what`` ended with ``status``: the signal, or the last error in its log, or its last lines."""
    if how := stopped(status):
        return f"{what} {how}"
    lines = log_lines(log)
    if status == BAD_INPUT and (complaints := [line for line in lines if line.startswith(COMPLAINT)]):
        return complaints[-1]
    named = [number for number, line in enumerate(lines) if ERROR.search(line)]
    if not named:
        return f"{what} failed: " + "\n".join(line.strip() for line in lines[-LOG_TAIL_LINES:])
    # Ray repeats the remote traceback; the last error in it is what the driver saw, though what its workers logged can
    # come later. The lines below it say which of Ray's processes died.
    at = max((number for number in named if not OF_WORKER.match(lines[number])), default=named[-1])
    if CONSEQUENCE.search(lines[at]):
        causes = [number for number in named if number < at and not CONSEQUENCE.search(lines[number])]
        at = causes[-1] if causes else at
        lines[at] = OF_WORKER_PREFIX.sub("", lines[at])
    last, *below = lines[at : at + 5]
    died = [line.split(":", 1)[1].strip() for line in below if line.startswith("\tclass_name:")]
    return f"{what} failed: " + " ".join([last.strip(), *(f"({name})" for name in died)])


def _now() -> str:
    return datetime.now(UTC).isoformat()
