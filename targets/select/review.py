"""Apply reviewers' decisions on single traces from ``review.csv``, which ``python -m targets browse`` writes.

A row has an id, a decision, a reviewer and a note. ``refuse`` rejects the trace, and a duplicate of it can take its
place. ``keep`` overrules no filter, because a target that no one can verify would be rewarded wrongly: it is counted
where a filter disagrees.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import InputError, first_line
from core.files import digest_bytes
from targets.trace import Rejection, Trace

COLUMNS = ("id", "decision", "reviewer", "note")
KEEP, REFUSE = "keep", "refuse"
LARGEST = 64 << 20  # bytes of a file


@dataclass(frozen=True)
class Review:
    """Decisions by the id of a trace; none by default. ``digest``: sha256 of the decisions and their notes."""

    refused: Mapping[str, str] = field(default_factory=dict)  # id -> who refused it, and why
    kept: frozenset[str] = frozenset()
    digest: str = ""
    path: Path | None = None

    def apply(self, trace: Trace) -> None:
        """Reject ``trace`` if a reviewer refused it."""
        if (detail := self.refused.get(trace.id)) is not None:
            trace.reject(Rejection("review", detail))

    def check_ids(self, read: int, unread: Iterable[str]) -> None:
        """Raise InputError if a decision is about none of the ``read`` traces, as ``unread`` ids are."""
        if ids := sorted(unread):
            more = f" and {len(ids) - 1:,} more" if len(ids) > 1 else ""
            raise InputError(
                f"review {self.path}: {ids[0]!r:.200}{more}: none of the {read:,} traces has this id; give the sources "
                "that were reviewed, or remove these rows"
            )


def read_review(path: str | None) -> Review:
    """The decisions in a file; InputError with the line of the first mistake in it."""
    if path is None:
        return Review()
    file = Path(path)
    try:
        data = file.read_bytes() if file.stat().st_size <= LARGEST else None
    except OSError as error:
        raise InputError(f"review {file}: {error.strerror}; give the review.csv of the browser page") from error
    if data is None:
        raise InputError(f"review {file}: over {LARGEST >> 20} MiB; give the review.csv of the browser page")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"review {file}: not UTF-8 at byte {error.start}: save it as UTF-8") from error
    decisions: dict[str, list[str]] = {}
    lines: dict[str, int] = {}
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        if missing := [name for name in COLUMNS if name not in header]:
            expected = ",".join(COLUMNS)
            raise InputError(f"review {file}: line 1: no column {', '.join(missing)}: expected the header {expected}")
        for row in reader:
            if not row:
                continue
            line = reader.line_num
            identity, decision, *who = _values(row, header, f"review {file}: line {line}")
            if identity in lines:
                raise InputError(
                    f"review {file}: line {line}: {identity!r:.200} has a decision in line {lines[identity]} already: "
                    "leave one of them"
                )
            lines[identity], decisions[identity] = line, [decision, *who]
    except csv.Error as error:
        raise InputError(
            f"review {file}: line {reader.line_num}: not CSV ({first_line(error)}): save it as comma-separated values"
        ) from error
    return Review(
        {name: _detail(who, note) for name, (decision, who, note) in decisions.items() if decision == REFUSE},
        frozenset(name for name, (decision, *_) in decisions.items() if decision == KEEP),
        digest_bytes(repr(sorted(decisions.items())).encode()),
        file,
    )


def _values(row: list[str], header: list[str], where: str) -> list[str]:
    """The values of `COLUMNS` in ``row``."""
    if len(row) != len(header):
        raise InputError(f"{where}: {len(row)} values, expected {len(header)}: put values with commas in quotes")
    values = dict(zip(header, row, strict=True))
    if not values["id"]:
        raise InputError(f"{where}: no id: expected that of a trace, as the browser page writes it")
    decision = values["decision"].strip().lower()
    if decision not in (KEEP, REFUSE):
        raise InputError(f"{where}: decision {values['decision']!r:.80}: expected {KEEP} or {REFUSE}")
    return [values["id"], decision, values["reviewer"], values["note"]]


def _detail(reviewer: str, note: str) -> str:
    return ": ".join(filter(None, (reviewer.strip(), note.strip())))
