"""Leave out accepted traces by their lengths, and by what files of the settings say about them.

- ``difficulty``: pass rates of the base model, a row per problem, from ``luffy evaluate difficulty``. A problem
  is found by its text, as duplicates are: blanks, case and math delimiters do not matter.
- ``review``: reviewers' decisions on single traces, from the page of ``luffy targets browse``. A row has an id, a
  decision, a reviewer and a note. ``refuse`` rejects the trace, and a duplicate of it can take its place. ``keep``
  overrules no filter, because a target that no one can verify would be rewarded wrongly: it is counted where a filter
  disagrees.
- ``ledger``: the verdicts of an earlier training on its targets.

The lengths are cached with the decisions of the filters, so that no trace is filtered again for another limit.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from core.errors import InputError, first_line
from core.files import digest_bytes
from core.ledger_verdicts import LEARNED_FILE, VERDICTS
from core.parquet import read_table
from core.schemas import LEARNED
from targets.select.dedupe import key_of, problem_digest
from targets.settings import TargetSettings
from targets.trace import Rejection, Trace

if TYPE_CHECKING:
    import pyarrow as pa

RATES_ADVICE = "give the file that luffy evaluate difficulty wrote"
LEDGER_ADVICE = f"give the folder of a training run that has {LEARNED_FILE}, or that file"
REVIEW_COLUMNS = ("id", "decision", "reviewer", "note")
KEEP, REFUSE = "keep", "refuse"


@dataclass(frozen=True)
class Exclusions:
    """What decides about an accepted trace besides its duplicates: the settings, and what their files say."""

    config: TargetSettings
    difficulty: "Difficulty"
    review: "Review"
    learned: "Learned"

    @classmethod
    def read(cls, config: TargetSettings) -> "Exclusions":
        """Read the files; InputError for one that cannot be read or holds something else."""
        return cls(
            config,
            read_difficulty(config.difficulty, config.pass_rate),
            read_review(config.review),
            read_learned(config.ledger, config.ledger_drop),
        )

    def digests(self) -> dict[str, str]:
        """Of what each file decides, under names for the metadata of the result."""
        digests = {"review_digest": self.review.digest, "difficulty_digest": self.difficulty.digest}
        return digests | ({"ledger_digest": self.learned.digest} if self.learned.digest else {})

    def apply(self, trace: Trace) -> None:
        """Reject ``trace`` for its lengths, its pass rate, by a reviewer, or by an earlier training."""
        if not trace.reasons:
            for rejection in self._over_lengths(trace):
                trace.reject(rejection)
        if not trace.reasons and (rejection := self.difficulty.rejection(trace.text_key)):
            trace.reject(rejection)
        if (detail := self.review.refused.get(trace.id)) is not None:
            trace.reject(Rejection("review", detail))
        if not trace.reasons and (verdict := self.learned.dropped.get(trace.id)):
            trace.reject(Rejection("ledger", f"{verdict}: {VERDICTS[verdict]}"))

    def rejects(self, keys: "pa.Table") -> np.ndarray:
        """Whether `apply` rejects each of the accepted traces with these columns of `core.schemas.DECISION`."""
        rejects = keys["prompt_tokens"].to_numpy() > self.config.max_prompt_tokens
        rejects |= keys["target_tokens"].to_numpy() > self.config.max_target_tokens
        if self.config.require_log_probs:
            rejects |= ~keys["has_log_probs"].to_numpy()
        if self.difficulty.bounds:
            problems = keys["text_key"].to_pylist()
            rejects |= np.array([self.difficulty.rejection(key) is not None for key in problems], bool)
        if against := {**self.review.refused, **self.learned.dropped}:
            rejects |= np.array([identity in against for identity in keys["id"].to_pylist()], bool)
        return rejects

    def _over_lengths(self, trace: Trace) -> Iterator[Rejection]:
        if (tokens := trace.prompt_tokens or 0) > (limit := self.config.max_prompt_tokens):
            yield Rejection("prompt_too_long", f"{tokens} tokens (limit {limit})")
        if (tokens := trace.target_tokens or 0) > (limit := self.config.max_target_tokens):
            yield Rejection("target_too_long", f"{tokens} tokens (limit {limit})")
        if self.config.require_log_probs and not trace.has_log_probs:
            detail = "the source has none, or they are of other tokens than those that the policy is trained on"
            yield Rejection("no_log_probs", detail)


@dataclass(frozen=True)
class Difficulty:
    """Pass rates by the `text_key` of a problem, and the bounds between which it becomes a target (None: all do)."""

    rates: Mapping[int, float] = field(default_factory=dict)
    bounds: tuple[float, float] | None = None
    digest: str = ""

    def rejection(self, problem: int | None) -> Rejection | None:
        """Why a problem is left out: its rate is not known, or not within the bounds. None for one that fits."""
        rate = None if problem is None else self.rates.get(problem)
        if self.bounds is None or (rate is not None and self.bounds[0] <= rate <= self.bounds[1]):
            return None
        if rate is None:
            return Rejection("pass_rate", "the pass rate of the problem is not known")
        low, high = self.bounds
        return Rejection("pass_rate", f"solved in {rate:.0%} of the samples (pass_rate: {low:g} to {high:g})")


def read_difficulty(path: str | None, bounds: list[float] | None) -> Difficulty:
    """The pass rates in a file; InputError if it cannot be read or holds something else."""
    if path is None:
        if bounds is not None:
            raise InputError(
                "pass_rate needs the pass rates of the problems: give their file with difficulty, or measure them with "
                "targets/difficulty (section difficulty of the profile)"
            )
        return Difficulty()
    import pyarrow as pa

    file = Path(path)
    table = read_table(file, pa.schema([("problem", pa.string()), ("pass_rate", pa.float64())]), RATES_ADVICE)
    rates = {}
    for number, row in enumerate(table.to_pylist(), start=1):
        if row["problem"] is None or row["pass_rate"] is None or not 0 <= row["pass_rate"] <= 1:
            raise InputError(f"{file}: row {number}: pass_rate {row['pass_rate']}: expected 0 to 1; {RATES_ADVICE}")
        rates[problem_digest(row["problem"])] = row["pass_rate"]
    digest = digest_bytes(repr(sorted(rates.items())).encode())
    by_key = {key_of(problem): rate for problem, rate in rates.items()}
    return Difficulty(by_key, None if bounds is None else (bounds[0], bounds[1]), digest)


@dataclass(frozen=True)
class Review:
    """Decisions by the id of a trace; none by default. ``digest``: sha256 of the decisions and their notes."""

    refused: Mapping[str, str] = field(default_factory=dict)  # id -> who refused it, and why
    kept: frozenset[str] = frozenset()
    digest: str = ""
    path: Path | None = None

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
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"review {file}: {error.strerror}; give the review.csv of the browser page") from error
    except UnicodeDecodeError as error:
        raise InputError(f"review {file}: not UTF-8 at byte {error.start}: save it as UTF-8") from error
    decisions: dict[str, list[str]] = {}
    lines: dict[str, int] = {}
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        if missing := [name for name in REVIEW_COLUMNS if name not in header]:
            expected = ",".join(REVIEW_COLUMNS)
            raise InputError(f"review {file}: line 1: no column {', '.join(missing)}: expected the header {expected}")
        for row in reader:
            if not row:
                continue
            line = reader.line_num
            identity, decision, *who = _review_values(row, header, f"review {file}: line {line}")
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
        {name: _review_detail(who, note) for name, (decision, who, note) in decisions.items() if decision == REFUSE},
        frozenset(name for name, (decision, *_) in decisions.items() if decision == KEEP),
        digest_bytes(repr(sorted(decisions.items())).encode()),
        file,
    )


def _review_values(row: list[str], header: list[str], where: str) -> list[str]:
    if len(row) != len(header):
        raise InputError(f"{where}: {len(row)} values, expected {len(header)}: put values with commas in quotes")
    values = dict(zip(header, row, strict=True))
    if not values["id"]:
        raise InputError(f"{where}: no id: expected a trace's, as the browser page writes it")
    decision = values["decision"].strip().lower()
    if decision not in (KEEP, REFUSE):
        raise InputError(f"{where}: decision {values['decision']!r:.80}: expected {KEEP} or {REFUSE}")
    return [values["id"], decision, values["reviewer"], values["note"]]


def _review_detail(reviewer: str, note: str) -> str:
    return ": ".join(filter(None, (reviewer.strip(), note.strip())))


@dataclass(frozen=True)
class Learned:
    """The verdicts of traces that are left out, by id; none by default."""

    dropped: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""


def learned_file(path: str | Path) -> Path:
    """The table of a run's folder, or ``path`` if it is that file."""
    return Path(path) / LEARNED_FILE if Path(path).is_dir() else Path(path)


def read_learned(path: str | None, drop: Sequence[str]) -> Learned:
    """The verdicts ``drop`` of the run or file at ``path``; InputError if it cannot be read or holds something else."""
    if path is None:
        return Learned()
    import pyarrow as pa

    file = learned_file(path)
    table = read_table(file, pa.schema([LEARNED.field("target"), LEARNED.field("verdict")]), LEDGER_ADVICE)
    dropped = {}
    for number, row in enumerate(table.to_pylist(), start=1):
        if row["verdict"] not in VERDICTS:
            expected = ", ".join(VERDICTS)
            raise InputError(f"{file}: row {number}: verdict {row['verdict']!r}: expected {expected}; {LEDGER_ADVICE}")
        if row["verdict"] in drop:
            dropped[row["target"]] = row["verdict"]
    return Learned(dropped, digest_bytes(repr(sorted(dropped.items())).encode()))
