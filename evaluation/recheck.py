"""Check a run that somebody else recorded.

Grading its responses again finds a forged verdict, and making the run again finds a forged response or policy.
"""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from core.errors import InputError
from core.schemas import SAMPLE
from evaluation.recorded_run import RecordedRun
from evaluation.sample_tables import problem_digests
from grading.graded_table import Verifiers, grade_table

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 5  # differences in a text
COMPARED = ("prompt", "response", "seed")  # what two recordings of one run share


class Difference(NamedTuple):
    """What a record says, and what was found in its place."""

    what: str
    recorded: str
    found: str

    def __str__(self) -> str:
        return f"{self.what}: recorded {self.recorded}, found {self.found}"


def recheck_verdicts(run: RecordedRun, suite: "pa.Table", verifiers: Verifiers) -> list[Difference]:
    """The samples whose recorded verdict or score is not what grading gives them.

    Raises:
        InputError: the run was scored on other problems than those of ``suite``.
    """
    present = problem_digests(suite)
    if others := [name for name, digest in run.problems.items() if present.get(name) != digest]:
        names = ", ".join(others)
        raise InputError(f"problems of {names}: they are not those of the suite; give the suite that scored the run")
    found: list[Difference] = []
    for table in run.tables.values():
        rules = {"thinking": None, "truncated": "zero"} | _rules(table)
        again = grade_table(table.select(SAMPLE.names), suite, verifiers, **rules)
        for recorded, graded in zip(table.to_pylist(), again.to_pylist(), strict=True):
            if (recorded["verdict"], recorded["score"]) != (graded["verdict"], graded["score"]):
                what = f"{recorded['benchmark']} {recorded['id']} sample {recorded['sample']}"
                found.append(Difference(what, _verdict(recorded), _verdict(graded)))
    return found


def compare_runs(run: RecordedRun, remade: RecordedRun) -> list[Difference]:
    """What ``remade`` has in another way: targets, base model, settings, files, policy, and each sample.

    Raises:
        InputError: they are runs of other recipes, settings or inputs, so nothing follows from a difference.
    """
    first, second = run.manifest, remade.manifest
    if first.request != second.request:
        names = [name for name, value in dict(first.request).items() if value != getattr(second.request, name)]
        raise InputError(f"{', '.join(names)}: the runs differ in what was asked for; make the run again as recorded")
    found = []
    if first.checkpoint_digest != second.checkpoint_digest:
        found.append(Difference("policy", first.checkpoint_digest, second.checkpoint_digest))
    return [*found, *_samples_that_differ(run, remade)]


def report(kind: str, differences: list[Difference], of: int) -> str:
    """How many of ``of`` checks differ, and the first of them."""
    lines = [f"{kind}: {len(differences)} of {of:,} differ", *(f"  {item}" for item in differences[:SHOWN])]
    return "\n".join(lines)


def samples(run: RecordedRun) -> int:
    """The number of samples of a run."""
    return sum(table.num_rows for table in run.tables.values())


def _samples_that_differ(run: RecordedRun, remade: RecordedRun) -> Iterator[Difference]:
    rows: list[dict[tuple[str, str, int], dict[str, Any]]] = [{}, {}]
    for one, by_key in zip((run, remade), rows, strict=True):
        for table in one.tables.values():
            by_key |= {(row["benchmark"], row["id"], row["sample"]): row for row in table.to_pylist()}
    for key in sorted({*rows[0], *rows[1]}):
        texts = [" | ".join(str(one[key][name]) for name in COMPARED) if key in one else "nothing" for one in rows]
        if texts[0] != texts[1]:
            benchmark, problem, sample = key
            yield Difference(f"{benchmark} {problem} sample {sample}", *(f"{text!r:.120}" for text in texts))


def _rules(table: "pa.Table") -> dict[str, Any]:
    """How the samples were graded, as the table says."""
    recorded = json.loads((table.schema.metadata or {}).get(b"grading", b"{}"))
    return {name: recorded[name] for name in ("thinking", "truncated") if name in recorded}


def _verdict(row: dict[str, object]) -> str:
    return f"{row['verdict']} ({row['score']:g})"
