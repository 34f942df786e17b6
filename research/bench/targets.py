"""Measure the preparation of targets: rows per second, compared with the usual way, and memory at several sizes.

The usual way is ``datasets.map`` (two processes) with a Python function that tokenizes a response and calls math-verify
on it. Ours is ``luffy targets`` with two workers, including reading, duplicates, filters and writing.
"""

import json
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from core.cli import say
from research.bench.measure import MODEL, Used, prepare

PROCESSES = 2
PLACES = ("harbour", "market", "station", "village", "library", "museum", "garden", "theatre")


def speed(source: Path) -> None:
    """Print rows per second and per CPU second of both ways.

    Args:
        source: a parquet file of traces with the columns `problem`, `response` and `answer`.
    """
    import pyarrow.parquet as pq

    rows = pq.read_metadata(source).num_rows
    with tempfile.TemporaryDirectory() as name:
        with Used() as ours:
            prepare(source, Path(name) / "ours", "--set", f"targets.workers={PROCESSES}")
        with Used() as usual:
            _usual_way(source, Path(name) / "usual.parquet")
    for title, used in (("luffy targets", ours), ("datasets.map and math-verify", usual)):
        say(f"{title:30} {rows / used.seconds:8.0f} rows/s {rows / used.cpu:8.0f} rows per CPU s")


def memory(rows: int) -> None:
    """Print peak memory, speed and CPU seconds of a preparation of ``rows`` generated traces."""
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "traces.jsonl"
        write_traces(source, rows)
        with Used() as used:
            prepare(source, Path(name) / "out", "--set", f"targets.workers={PROCESSES}")
    say(f"{rows:>9,} rows: {rows / used.seconds:6.0f} rows/s, {used.cpu:,.0f} CPU s, peak {used.peak / 2**20:,.0f} MiB")


def write_traces(file: Path, rows: int, seed: int = 0) -> None:
    """Write ``rows`` different short traces as JSON lines; the same seed gives the same bytes."""
    rng = Random(seed)
    with file.open("w", encoding="utf-8") as out:
        for number in range(rows):
            first, second, place = rng.randrange(10, 10_000), rng.randrange(10, 10_000), rng.choice(PLACES)
            answer = str(first + second)
            problem = f"There are {first} people at the {place} and {second} more come. How many is {number} of them?"
            steps = f"At first {first}. Then {second} more, so {first} + {second} = {answer}."
            response = f"<think>\n{steps}\n</think>\n\nThe answer is \\boxed{{{answer}}}."
            out.write(json.dumps({"problem": problem, "answer": answer, "response": response}) + "\n")


def _usual_way(source: Path, out: Path) -> None:
    import datasets

    datasets.disable_progress_bars()
    mapped = datasets.Dataset.from_parquet(str(source)).map(_usual_row, num_proc=PROCESSES)
    mapped.filter(lambda row: row["correct"], num_proc=PROCESSES).to_parquet(out)


def _usual_row(row: dict[str, Any]) -> dict[str, Any]:
    from math_verify import parse, verify

    correct = verify(parse(f"\\boxed{{{row['answer']}}}"), parse(row["response"]))
    return {"tokens": len(_tokenizer().encode(row["response"]).ids), "correct": bool(correct)}


@cache
def _tokenizer() -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(MODEL / "tokenizer.json"))
