"""The attempts at a task, and the lock of its folder.

Attempt N leaves three files in its folder: ``N.log`` (its output), ``N.jsonl`` (its records) and ``N.json`` (its
`AttemptRecord`).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from core.errors import InputError, validated
from core.files import read_object, write_json
from core.model.lineage_file import Moment
from core.text.patterns import compile_quick_pattern

LOG_TAIL_LINES = 30
TAIL_BYTES = 1 << 16
LOCK_SECONDS = 60.0  # how long another command in the same folder may take to end
COLOUR = compile_quick_pattern(r"\x1b\[[0-9;]*m")
EARLIER = "earlier"  # folder of attempts that count no more


class AttemptRecord(BaseModel):
    """The start and the end of an attempt; if its process was killed, only the start is known."""

    model_config = ConfigDict(frozen=True)

    started: Moment
    ended: Moment | None = None
    status: int | None = None  # None: it was stopped
    reason: str = ""
    code: Mapping[str, Any] | None = None  # the code that it ran, if its command says so


class Attempt:
    """The files of attempt ``number`` in ``folder``."""

    def __init__(self, folder: Path, number: int) -> None:
        self.number = number
        self.log = folder / f"{number:04}.log"
        self.records = folder / f"{number:04}.jsonl"
        self.record = folder / f"{number:04}.json"

    def begin(self, code: Mapping[str, Any] | None = None) -> None:
        """Record the start, with the ``code`` that runs."""
        write_json(AttemptRecord(started=_now(), code=code).model_dump(), self.record)

    def end(self, status: int | None, reason: str) -> None:
        """Record the end."""
        ended = {"ended": _now(), "status": status, "reason": reason}
        write_json(self.read_record().model_copy(update=ended).model_dump(), self.record)

    def read_record(self) -> AttemptRecord:
        """Return the content of the file `record`; InputError if it is damaged."""
        try:
            return validated(AttemptRecord, read_object(self.record), f"{self.record}: ")
        except InputError as error:
            raise InputError(f"{error}; remove the file, and the attempt does not count") from error

    def seconds(self) -> float:
        """Return how long it ran; if it was killed, until its last output."""
        record = self.read_record()
        if record.ended:
            last = datetime.fromisoformat(record.ended).timestamp()
        else:
            last = max(file.stat().st_mtime for file in (self.record, self.log, self.records) if file.exists())
        return max(0.0, last - datetime.fromisoformat(record.started).timestamp())

    def last_lines(self) -> str:
        """Return the end of the log, for people, without colour codes; "" if there is none."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
        return "\n".join(COLOUR.sub("", line) for line in text.splitlines()[-LOG_TAIL_LINES:])


def attempts(folder: Path) -> list[Attempt]:
    """Return the attempts in ``folder``, first to last."""
    return [Attempt(folder, int(file.stem)) for file in sorted(folder.glob("[0-9]*.json"))]


def next_attempt(folder: Path) -> Attempt:
    """Return the attempt after those in ``folder``; no number comes again, because jobs of clusters are named by it."""
    ended = [*attempts(folder), *attempts(folder / EARLIER)]
    return Attempt(folder, 1 + max((attempt.number for attempt in ended), default=0))


@contextmanager
def hold(folder: Path, what: str, say: Callable[[str], object]) -> Iterator[None]:
    """Hold ``folder`` as long as the block lasts; ``say`` gets a line if another command, a ``what``, holds it.

    Raises:
        InputError: it still does so after `LOCK_SECONDS`.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        say(f"waiting up to {LOCK_SECONDS:g} s: another {what} in {folder} runs or is ending")
        try:
            lock.acquire(timeout=LOCK_SECONDS, poll_interval=0.5)
        except Timeout:
            raise InputError(
                f"{folder}: another {what} runs in it: wait for it, or give --out another folder"
            ) from None
    try:
        yield
    finally:
        lock.release()


def _now() -> str:
    return datetime.now(UTC).isoformat()
