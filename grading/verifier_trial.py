"""Try a verifier on a file of responses, before anything is prepared or trained with it."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.files import read_json_lines
from core.text.parse import parse_yaml
from grading.answers.gold import number_text
from grading.row_fields import PROBLEM, name_columns, row_fields
from grading.verdict import Grade, Verdict
from grading.verifiers.spec import VerifierSpec, open_verifier, require_fields
from grading.verifiers.verifier import Item

RESPONSE, GOLDS, PROBLEMS = "response", ("gold", "answer"), (PROBLEM, "question")  # keys of a row
SHOWN = 10  # examples of each verdict
LONGEST = 70  # characters of a value in an example


@dataclass(frozen=True)
class Tried:
    """A row of the file by its number from 1, its gold answer, its grade, and the seconds that the grade took."""

    row: int
    gold: str
    grade: Grade
    seconds: float


def read_responses(file: Path, columns: Mapping[str, str] | None = None) -> list[Item]:
    """Read a file with one JSON object per line: ``response``, ``gold`` (or ``answer``), ``problem`` (or ``question``).

    The fields of a row are those that the preparation gives it: the name of the source, which is the file's, the
    problem, and the ``columns``.

    Args:
        columns: what else the verifier reads: {name: column or dotted path}, as `fields` of a source. None: all
            other keys of a row.

    Raises:
        InputError: the file has no rows, or one of them lacks a text as its response, or a text or number as its gold.
    """
    items = []
    for number, row in enumerate(read_json_lines(file), start=1):
        where = f"{file}, row {number}"
        if not isinstance(row, Mapping):
            raise InputError(f"{where}: expected a JSON object, found {type(row).__name__}")
        gold = next((key for key in GOLDS if key in row), GOLDS[0])
        for key, kinds, expected in ((RESPONSE, str, "a text"), (gold, str | int | float, "a text or a number")):
            if not isinstance(row.get(key), kinds) or isinstance(row[key], bool):
                there = f"; it has {', '.join(row)}: name its columns with --mapping" if key not in row else ""
                raise InputError(f"{where}: {key}: expected {expected}, found {type(row.get(key)).__name__}{there}")
        problem = next((row[key] for key in PROBLEMS if key in row), None)
        paths = {key: key for key in row if key not in (RESPONSE, gold)} if columns is None else columns
        more = {name: value for name, path in paths.items() if (value := _value(row, path)) is not None}
        fields = {**row_fields(file.name.partition(".")[0], problem, None), **more}
        text = row[gold] if isinstance(row[gold], str) else number_text(row[gold])
        items.append(Item(row[RESPONSE], text, fields))
    if not items:
        raise InputError(f"{file}: no rows; expected one JSON object with response and gold per line")
    return items


def _value(row: Any, path: str) -> Any:
    """Return the value at a dotted path; None if the row has none."""
    if path in row:
        return row[path]
    for key in path.split("."):
        row = row.get(key) if isinstance(row, Mapping) else None
    return row


def read_columns(text: str | None) -> dict[str, str] | None:
    """Return the columns that ``--fields`` names; InputError if it is neither a list nor a mapping of names."""
    if text is None:
        return None
    value = name_columns(parse_yaml(text, "--fields"))
    if not isinstance(value, dict) or not all(isinstance(part, str) for pair in value.items() for part in pair):
        raise InputError(f"--fields: got {text!r:.80}, expected a list of columns, or a mapping of names to columns")
    return value


def check_fields(spec: VerifierSpec, columns: Mapping[str, str] | None, file: Path) -> None:
    """Raise InputError if the verifier reads a field that is not among the ``columns`` of `read_responses`."""
    try:
        if columns is not None:
            require_fields(spec, columns, f"the file {file}")
    except ValueError as error:
        raise InputError(f"--fields: {error}") from None


def try_verifier(spec: VerifierSpec, items: Sequence[Item], *, thinking: bool, workers: int = 2) -> list[Tried]:
    """Grade ``items`` in their order, ``workers`` at once.

    Raises:
        InputError: what the spec names is missing.
    """
    with open_verifier(spec, workers=workers) as verifier, ThreadPoolExecutor(workers) as threads:

        def grade(numbered: tuple[int, Item]) -> Tried:
            row, item = numbered
            began = time.monotonic()
            if problem := verifier.gold_problem(item.gold, item.fields):
                graded = Grade(Verdict.GOLD_UNPARSED, None, problem)
            else:
                graded = verifier.verify(item.response, item.gold, fields=item.fields, thinking=thinking)
            return Tried(row, item.gold, graded, time.monotonic() - began)

        return list(threads.map(grade, enumerate(items, start=1)))


def describe(tried: Sequence[Tried]) -> Iterator[str]:
    """Yield the lines of a report: the number and examples of each verdict, the mean score and the slowest row."""
    counts = Counter(one.grade.verdict for one in tried)
    mean = sum(one.grade.score or 0.0 for one in tried) / len(tried)
    yield f"{len(tried)} responses, mean score {mean:.3f}: " + ", ".join(
        f"{n} {name}" for name, n in counts.most_common()
    )
    slowest = max(tried, key=lambda one: one.seconds)
    yield f"slowest: row {slowest.row}, {slowest.seconds:.2f} s"
    for verdict, count in counts.most_common():
        yield f"\n{verdict}" + (f", the first {SHOWN} of {count}" if count > SHOWN else "")
        for one in [one for one in tried if one.grade.verdict is verdict][:SHOWN]:
            yield f"  row {one.row}: {', '.join(_said(one))}"


def only_errors(tried: Sequence[Tried]) -> bool:
    """Return whether the verifier failed on every row."""
    return all(one.grade.verdict is Verdict.ERROR for one in tried)


def _said(one: Tried) -> Iterator[str]:
    if one.grade.extracted is not None:
        yield f"answer {_short(one.grade.extracted)}"
    yield f"gold {_short(one.gold)}"
    if one.grade.score not in (0.0, 1.0):
        yield f"score {one.grade.score:.3f}"
    if one.grade.reason:
        yield one.grade.reason


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return repr(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")
