"""Measure what a preparation does again after a change; ``python -m perf.targets changes``.

The source has ten files of generated traces. Each change is made alone, to the same first version, and the folder of
decisions is the one of the first version.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from core.schemas import BENCHMARK
from perf.measurement import Timed
from targets.config import build_config
from targets.prepare import prepare

FILES = 10
PROCESSES = 2
TOKENIZER = Path("training/embedded_model/model")
PLACES = ("harbour", "market", "station", "village", "library", "museum", "garden", "theatre")


def changed_inputs(rows: int) -> None:
    """Print, for each change, the traces that are filtered again and the seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(FILES):
            write_generated(folder / "in" / f"{number}.jsonl", rows // FILES, number)
        _prepare(folder, "first", "everything", {})
        review = folder / "review.csv"
        review.write_text("id,decision,reviewer,note\n0.jsonl:5,refuse,me,\n")
        _prepare(folder, "first", "nothing", {})
        _prepare(folder, "review", "one review", {"review": str(review)})
        _prepare(folder, "keep", "keep=shortest", {"keep": "shortest"})
        _prepare(folder, "near", "near_duplicate=90", {"near_duplicate": 90})
        _prepare(folder, "length", "late: max_target_tokens", {"max_target_tokens": 8000})
        _prepare(folder, "loop", "early: max_repeats", {"max_repeats": 19})
        _prepare(folder, "benchmark", "one more benchmark problem", {}, "What is the sum of all the digits of 2026?")
        other = _other_tokenizer(folder / "tokenizer")
        _prepare(folder, "tokenizer", "tokenizer", {}, tokenizer=other)
        _prepare(folder, "verifier", "verifier", {"source": {"path": str(folder / "in"), "verifier": "exact"}})
        last = folder / "in" / f"{FILES - 1}.jsonl"
        last.rename(folder / "removed.jsonl")
        _prepare(folder, "removed", "one file removed", {})
        (folder / "removed.jsonl").rename(last)
        write_generated(folder / "in" / f"{FILES}.jsonl", rows // FILES, FILES)
        _prepare(folder, "file", "one more file", {})


def _prepare(
    folder: Path, out: str, what: str, settings: Mapping[str, Any], *benchmarks: str, tokenizer: Path = TOKENIZER
) -> None:
    """Prepare with the decisions of the first version, and print what it takes."""
    cache = folder / "decisions"
    if cache.exists() and out != "first":
        cache = shutil.copytree(cache, folder / f"{out}_decisions")
    there = set(cache.glob("??/*.parquet"))
    problems = ("How many primes are there below one hundred?", *benchmarks)
    items = [{"benchmark": "b", "id": str(n), "problem": problem} for n, problem in enumerate(problems)]
    config = build_config({"source": str(folder / "in"), "workers": PROCESSES, **settings})
    table = pa.Table.from_pylist(items, schema=BENCHMARK)
    with Timed() as used:
        began = time.process_time()
        prepare(config, folder / out, tokenizer_json=tokenizer, benchmarks=table, cache=cache)
        main = time.process_time() - began
    again = sum(pq.read_metadata(file).num_rows for file in set(cache.glob("??/*.parquet")) - there)
    figures = f"{used.cpu:9.1f} CPU s, {main:6.1f} of the main process{used.clock:9.1f} s"
    print(f"{what:28}{again:>10,} filtered{figures}", flush=True)
    if out != "first":
        shutil.rmtree(cache)
        shutil.rmtree(folder / out)


def _other_tokenizer(folder: Path) -> Path:
    """Return a tokenizer that splits some texts in another way."""
    shutil.copytree(TOKENIZER, folder)
    file = folder / "tokenizer.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    settings["model"]["merges"] = settings["model"]["merges"][:-1]
    file.write_text(json.dumps(settings), encoding="utf-8")
    return folder


def write_generated(path: Path, rows: int, number: int) -> None:
    """A file of generated traces, all of them different; ``number``: of the file."""
    random = Random(number)
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for row in range(rows):
            many, more, place = random.randint(10, 10**6), random.randint(10, 10**6), random.choice(PLACES)
            problem = (
                f"A shop at the {place} {number} has ${many}$ coins and gets ${more}$ more. How many is that ({row})?"
            )
            steps = [f"{n}: {random.choice(PLACES)} {random.randint(1, 10**6)} is no part of it." for n in range(8)]
            thoughts = "\n".join([*steps, f"{many} and {more} are {many + more}."])
            response = f"<think>\n{thoughts}\n</think>\n\nIt has \\boxed{{{many + more}}} coins."
            file.write(json.dumps({"problem": problem, "answer": str(many + more), "response": response}) + "\n")
