"""Check a run that somebody else recorded.

Grading its responses again finds a forged verdict. Making the run again finds a forged response, curve or policy.
"""

import math
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from core.errors import InputError
from core.files import write_table
from core.metric_table import measures_machine
from core.schemas import SAMPLE
from pipelines.api import Table, grading_record, luffy, problem_digests, read_folder, read_suite_file, score, summarize
from research.recorded_run import RecordedRun

if TYPE_CHECKING:
    import pyarrow as pa

RESPONSES, VERDICTS = "responses", "verdicts"  # kinds of checks
SHOWN = 5  # differences in a text
TOLERANCE = 0.01  # largest relative difference of values in a step that agrees
VERDICT = ("gold", "extracted", "verdict", "score")  # what grading decides
SAMPLED = ("prompt", "response", "tokens", "finish_reason", "seed")  # what sampling decides


class Difference(NamedTuple):
    """What a record says, and what was found in its place."""

    what: str
    recorded: str
    found: str

    def __str__(self) -> str:
        return f"{self.what}: recorded {self.recorded}, found {self.found}"


class Check(NamedTuple):
    """The differences among ``of`` values of one kind."""

    kind: str
    differences: list[Difference]
    of: int

    def __str__(self) -> str:
        """Say how many differ, and show the first of them."""
        first = [f"  {difference}" for difference in self.differences[:SHOWN]]
        return "\n".join([f"{self.kind}: {len(self.differences):,} of {self.of:,} differ", *first])


def recheck_verdicts(run: RecordedRun, suite: Path) -> Check:
    """Grade each response of a run again by ``luffy evaluate grade`` and compare what is recorded of it.

    Raises:
        InputError: the run was scored on other problems than the file ``suite`` has, or a sample of it is missing.
    """
    present = problem_digests(read_suite_file(suite))
    if others := [name for name, digest in run.problems.items() if present.get(name) != digest]:
        names = ", ".join(others)
        raise InputError(f"problems of {names}: they are not in the suite; give the suite that scored the run")
    by_rules: dict[tuple[str, ...], list[str]] = {}
    for name, table in run.tables.items():
        by_rules.setdefault(tuple(_rules(table)), []).append(name)
    again: dict[str, pa.Table] = {}
    for rules, names in by_rules.items():
        with tempfile.TemporaryDirectory() as folder:
            samples, graded = Path(folder, "samples"), Path(folder, "graded")
            for name in names:
                write_table(run.tables[name].select(SAMPLE.names), samples / f"{name}.parquet")
            luffy("evaluate", "grade", "--suite", suite, "--samples", samples, "--out", graded, *rules)
            again |= read_folder(graded, "graded")
    return _compare(VERDICTS, _rows(run.tables, VERDICT), _rows(again, VERDICT))


def compare_runs(run: RecordedRun, remade: RecordedRun) -> list[Check]:
    """Compare a recorded run with another recording of it: policy, curves, responses and verdicts.

    Curves that measure the machine, such as durations, are left out, and those that one of the recordings lacks.

    Raises:
        InputError: they are runs of other recipes, settings or inputs, so nothing follows from a difference.
    """
    first, second = run.manifest, remade.manifest
    if first.request != second.request:
        names = [name for name, value in dict(first.request).items() if value != getattr(second.request, name)]
        raise InputError(f"{', '.join(names)}: the runs differ in what was asked for; make the run again as recorded")
    if others := sorted({name for name, _ in run.problems.items() ^ remade.problems.items()}):
        raise InputError(f"problems of {', '.join(others)}: the runs were scored on others; use the suite of the run")
    compared = _shared_curves(run, remade)
    return [
        _compare("policy", {("policy",): first.checkpoint_digest}, {("policy",): second.checkpoint_digest}),
        _compare("curves", _points(run, compared), _points(remade, compared)),
        _compare(RESPONSES, _rows(run.tables, SAMPLED), _rows(remade.tables, SAMPLED)),
        _compare(VERDICTS, _rows(run.tables, VERDICT), _rows(remade.tables, VERDICT)),
    ]


def steps_that_agree(run: RecordedRun, remade: RecordedRun) -> int:
    """Return the number of first steps in which every curve that `compare_runs` looks at is equal within `TOLERANCE`.

    Two kinds of processor round differently, and the differences grow with the steps until a sample differs.
    """
    names = _shared_curves(run, remade)
    pairs = [(first["data"], second["data"]) for first, second in zip(run.metrics, remade.metrics, strict=False)]
    same = (
        all(math.isclose(a[name], b[name], rel_tol=TOLERANCE) for name in names & a.keys() & b.keys()) for a, b in pairs
    )
    return next((step for step, agrees in enumerate(same) if not agrees), len(pairs))


def score_table(run: RecordedRun, remade: RecordedRun) -> Table:
    """Return the scores of both recordings with their intervals, by benchmark."""
    table = Table(["", "recorded", "made again"])
    for name, graded in run.tables.items():
        summaries = [summarize(graded), summarize(remade.tables[name])]
        table.add(name, *(score(summary.low, summary.mean, summary.high) for summary in summaries))
    return table


def _shared_curves(run: RecordedRun, remade: RecordedRun) -> set[str]:
    """Return the metrics that both recordings have, and that do not measure the machine."""
    first, second = ({name for record in one.metrics for name in record["data"]} for one in (run, remade))
    return {name for name in first & second if not measures_machine(name)}


def _compare(kind: str, recorded: Mapping[tuple[Any, ...], str], found: Mapping[tuple[Any, ...], str]) -> Check:
    keys = sorted({*recorded, *found})
    pairs = ((key, recorded.get(key, "nothing"), found.get(key, "nothing")) for key in keys)
    differences = [Difference(" ".join(map(str, key)), *_around(*pair)) for key, *pair in pairs if pair[0] != pair[1]]
    return Check(kind, differences, len(keys))


def _around(recorded: str, found: str) -> Iterator[str]:
    """Cut two texts down to the place where they differ.

    >>> list(_around("a" * 300 + "1 ...", "a" * 300 + "2 ..."))[1]
    '…aaaaaaaaaaaaaaaaaaaa2 ...'
    """
    at = next((at for at, pair in enumerate(zip(recorded, found, strict=False)) if pair[0] != pair[1]), 0)
    start = at - 20 if at > 60 else 0
    for text in (recorded, found):
        yield f"{'…' if start else ''}{text[start : start + 80]}{'…' if len(text) > start + 80 else ''}"


def _rows(tables: "Mapping[str, pa.Table]", columns: tuple[str, ...]) -> dict[tuple[Any, ...], str]:
    """Return the values of ``columns`` in each sample, as a text by benchmark, problem and sample."""
    return {
        (row["benchmark"], row["id"], "sample", row["sample"]): " | ".join(repr(row[name]) for name in columns)
        for table in tables.values()
        for row in table.to_pylist()
    }


def _points(run: RecordedRun, names: set[str]) -> dict[tuple[Any, ...], str]:
    """Return the values of the metrics ``names``, as texts by metric and step."""
    return {
        (name, "step", record["step"]): repr(value)
        for record in run.metrics
        for name, value in record["data"].items()
        if name in names
    }


def _rules(table: "pa.Table") -> Iterator[str]:
    """Yield the options that grade samples as the table says."""
    rules = grading_record(table)
    if (thinking := rules.get("thinking")) is not None:
        yield "--thinking" if thinking else "--no-thinking"
    yield from ("--truncated", rules.get("truncated", "zero"))
