"""Measure how hard problems are for a model: its solve rate on each, with the interval."""

import json
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.errors import InputError
from core.model.episodes import final_turn
from core.model.prompts import must_end_thoughts
from core.parquet import read_table
from core.schemas import ENTRIES_KEY, FIELDS
from evaluation.benchmarks.suite import Benchmark, Source
from evaluation.generation.teacher_traces import CHAT, TRACE
from evaluation.statistics.intervals import wilson
from grading.row_fields import row_fields
from grading.verdict import Verdict
from grading.verifiers.verifier import Item, Verifier

BINS = 10
ADVICE = "give a file that luffy evaluate traces wrote"

DIFFICULTY = pa.schema(
    [
        ("problem", pa.string()),
        ("solved", pa.int32()),
        ("samples", pa.int32()),
        ("pass_rate", pa.float64()),
        ("low", pa.float64()),  # lower end of the 95% Wilson interval
        ("high", pa.float64()),
        ("model", pa.string()),
    ]
)


def measure_difficulty(samples: Path, verifier: Verifier, data_source: str, *, thinking: bool = True) -> pa.Table:
    """Return the DIFFICULTY table of a TRACE file, a row per problem in the file's order.

    A problem that is there several times counts once: its copies have the same samples, which are right if any copy's
    gold answer says so.
    With ``thinking`` an answer counts only after ``</think>``. A sample that was cut at the token limit solves nothing.
    The verifier gets ``data_source``.
    """
    columns = [
        TRACE.field(name)
        for name in ("problem", "answer", "sample", "teacher", "generation", "finish_reason", "response")
    ]
    optional = (FIELDS.name, CHAT.name, "response")
    rows = read_table(samples, pa.schema([*columns, CHAT, FIELDS]), ADVICE, optional=optional).to_pylist()
    if not rows:
        raise InputError(f"{samples}: no samples; {ADVICE}")
    if len(teachers := dict.fromkeys(row["teacher"] for row in rows)) > 1:
        raise InputError(
            f"{samples}: samples of several models ({', '.join(map(str, teachers))}); measure each in a separate file"
        )
    right = [verdict == Verdict.CORRECT for verdict in verdicts_of(rows, verifier, data_source, thinking=thinking)]
    drawn = ((row["problem"], (row["generation"], row["sample"], _answer(row))) for row in rows)
    return pass_rates(((*sample, solved) for sample, solved in zip(drawn, right, strict=True)), rows[0]["teacher"])


def verdicts_of(
    rows: Sequence[Mapping[str, Any]], verifier: Verifier, data_source: str, *, thinking: bool = True
) -> list[str]:
    """Return the verdict on each row of a TRACE file; a response cut at the token limit counts as no answer.

    Of a chat, the last turn is read, which needs ``</think>`` only if it thinks.
    """
    items: dict[bool, list[Item]] = {True: [], False: []}
    needs_end = []
    for row in rows:
        answer = _answer(row)
        fields = row_fields(data_source, row["problem"], row.get(FIELDS.name))
        thinks = thinking and must_end_thoughts(answer, is_episode=bool(row.get(CHAT.name)))
        needs_end.append(thinks)
        cut = row["finish_reason"] == "length"
        items[thinks].append(Item(answer, row["answer"], fields, cut))
    grades = {thinks: iter(verifier.verify_many(asked, thinking=thinks)) for thinks, asked in items.items()}
    return [next(grades[thinks]).verdict.value for thinks in needs_end]


def _answer(row: Mapping[str, Any]) -> str:
    """Return what a row of a TRACE file answers: its response, or the last turn of its chat."""
    if row.get(CHAT.name):
        _question, *turns = row[CHAT.name]
        return final_turn(turns)
    return row["response"] or ""


def as_suite(problems: pa.Table, samples: int) -> pa.Table:
    """Turn the BENCHMARK rows ``problems`` into a suite from which a model draws ``samples`` per problem."""
    (name,) = problems["benchmark"].unique().to_pylist()
    origin = (Source(file=name),)  # it has no meaning, because the rows are here
    entry = Benchmark(name=name, group="evals", title="Problems of the sources", samples=samples, sources=origin)
    return problems.replace_schema_metadata({ENTRIES_KEY: json.dumps([entry.model_dump(mode="json")])})


def graded_difficulty(graded: pa.Table, suite: pa.Table, model: str) -> pa.Table:
    """Return the DIFFICULTY table of the GRADED samples that ``model`` drew for the problems of ``suite``."""
    problems = dict(zip(suite["id"].to_pylist(), suite["problem"].to_pylist(), strict=True))
    rows = graded.select(["id", "sample", "verdict"]).to_pylist()
    outcomes = ((problems[row["id"]], row["sample"], row["verdict"] == Verdict.CORRECT) for row in rows)
    return pass_rates(outcomes, model)


def pass_rates(outcomes: Iterable[tuple[str, Hashable, bool]], model: str) -> pa.Table:
    """Return the DIFFICULTY table of samples: of each its problem, what tells it from others, and whether it is right.

    A sample that is there several times counts once, and is right if it is so anywhere.
    """
    drawn: dict[str, dict[Hashable, bool]] = defaultdict(dict)
    for problem, sample, right in outcomes:
        drawn[problem][sample] = right or drawn[problem].get(sample, False)
    rows = []
    for problem, samples in drawn.items():
        solved = sum(samples.values())
        rate = solved / len(samples)
        values = (problem, solved, len(samples), rate, *wilson(rate, len(samples)), model)
        rows.append(dict(zip(DIFFICULTY.names, values, strict=True)))
    return pa.Table.from_pylist(rows, schema=DIFFICULTY)


def histogram(table: pa.Table) -> dict[str, int]:
    """Return the number of problems by pass rate, lowest first."""
    bins = Counter(min(int(rate * BINS), BINS - 1) for rate in table["pass_rate"].to_pylist())
    return {f"{k / BINS:4.0%} to {(k + 1) / BINS:4.0%}": bins[k] for k in range(BINS)}


def histogram_text(table: pa.Table) -> str:
    """Return the `histogram` as lines for the terminal."""
    bins = histogram(table)
    widest = max(bins.values())
    return "\n".join(f"{name} {n:>8,}  {'#' * round(40 * n / widest)}".rstrip() for name, n in bins.items())
