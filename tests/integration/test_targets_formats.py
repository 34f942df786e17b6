"""Traces in a teacher's own format are kept as they were, and those on benchmark problems are rejected."""

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from preparing import rows, run
from published_files import trace, write_traces

from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.benchmarks.suite import load_suite


@pytest.mark.parametrize("markers", ["im_start", "begin_of_thought", "think"])
def test_traces_end_to_end(tmp_path: Path, tokenizer: Path, markers: str) -> None:
    source = write_traces(tmp_path / "traces.parquet", 200, markers=markers, wrong=30)
    prepared = run(source, tmp_path / "out", tokenizer, workers=2, max_target_tokens=4096, max_prompt_tokens=1024)
    assert (prepared.counts["read"], prepared.counts["kept"]) == (200, 170)
    originals = {f"{source.name}:{k}": row for k, row in enumerate(rows(source))}
    for row in rows(prepared.prepared):
        original = originals[row["extra_info"]["id"]]
        assert row["prompt"][-1]["content"] == original["problem"]
        answer = row["target"][0]["content"].rpartition("</think>")[2].strip()
        assert answer in original["response"]


def test_traces_on_benchmark_problems_come_out_empty(tmp_path: Path, tokenizer: Path, published: Path) -> None:
    names = ("aime24", "amc", "math500", "minerva", "olympiadbench")
    suite = read_suite([benchmark for benchmark in load_suite("paper") if benchmark.name in names], [published])
    problems = random.Random(3).sample(suite.select(["problem", "gold"]).to_pylist(), 300)
    traces = [trace(row["problem"], row["gold"], "I add both numbers.", "begin_of_thought") for row in problems]
    own = pq.read_table(write_traces(tmp_path / "own.parquet", 3, markers="begin_of_thought")).to_pylist()
    source = tmp_path / "traces.parquet"
    pq.write_table(pa.Table.from_pylist([*traces, *own]), source)
    counts = run(source, tmp_path / "out", tokenizer, workers=2, benchmarks=suite).counts
    assert (counts["contaminated"], counts["kept"]) == (300, 3)
    reasons = Counter(row["reason"] for row in rows(tmp_path / "out/rejected.parquet"))
    assert reasons == {"contaminated": 300}
