"""How hard problems are for a model: the share of its samples that solve each, with its interval."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.errors import InputError
from core.parquet.tables import read_table
from evaluation.generation.traces import TRACE
from evaluation.statistics.intervals import wilson
from grading.grader import Grader, Verdict

BINS = 10
ADVICE = "give a file that python -m evaluation traces wrote"

DIFFICULTY = pa.schema(
    [
        ("problem", pa.string()),
        ("solved", pa.int32()),
        ("samples", pa.int32()),
        ("pass_rate", pa.float64()),
        ("low", pa.float64()),  # of the 95% Wilson interval
        ("high", pa.float64()),
        ("model", pa.string()),
    ]
)


def measure_difficulty(samples: Path, grader: Grader, *, thinking: bool = True) -> pa.Table:
    """The DIFFICULTY table of a TRACE file, a row per problem in the file's order.

    With ``thinking`` an answer counts only after ``</think>``. A sample that was cut at the token limit solves nothing.
    """
    columns = [TRACE.field(name) for name in ("problem", "answer", "response", "teacher", "finish_reason")]
    rows = read_table(samples, pa.schema(columns), ADVICE).to_pylist()
    if not rows:
        raise InputError(f"{samples}: no samples; {ADVICE}")
    drawn = Counter(row["problem"] for row in rows)
    verdicts = verdicts_of(rows, grader, thinking=thinking)
    solved = Counter(row["problem"] for row, verdict in zip(rows, verdicts, strict=True) if verdict == Verdict.CORRECT)
    measured = [_row(problem, solved[problem], count, rows[0]["teacher"]) for problem, count in drawn.items()]
    return pa.Table.from_pylist(measured, schema=DIFFICULTY)


def verdicts_of(rows: Sequence[Mapping[str, Any]], grader: Grader, *, thinking: bool = True) -> list[str]:
    """The verdict on each row of a TRACE file; one that was cut at the token limit is no answer."""
    grades = grader.grade_many(
        [(row["response"], row["answer"], "math") for row in rows],
        thinking=thinking,
        truncated=[row["finish_reason"] == "length" for row in rows],
    )
    return [grade.verdict.value for grade in grades]


def _row(problem: str, solved: int, samples: int, model: str) -> Mapping[str, object]:
    rate = solved / samples
    low, high = wilson(rate, samples)
    values = (problem, solved, samples, rate, low, high, model)
    return dict(zip(DIFFICULTY.names, values, strict=True))


def histogram_text(table: pa.Table) -> str:
    """The number of problems by pass rate, as lines for the terminal."""
    bins = Counter(min(int(rate * BINS), BINS - 1) for rate in table["pass_rate"].to_pylist())
    widest = max(bins.values())
    return "\n".join(
        f"{k / BINS:4.0%} to {(k + 1) / BINS:4.0%} {bins[k]:>8,}  {'#' * round(40 * bins[k] / widest)}".rstrip()
        for k in range(BINS)
    )
