"""Preparation of real traces: they are kept as they were, and those on benchmark problems are rejected."""

from collections import Counter
from pathlib import Path

from preparing import rows, run

from core.errors import InputError
from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.benchmarks.suite import load_suite


def test_real_traces_end_to_end(tmp_path: Path, tokenizer: Path, shared: Path) -> None:
    settings = {"limit": 300, "max_target_tokens": 32_768, "max_prompt_tokens": 4_096}
    source = shared / "data/traces/math_train_budget_forced.parquet"
    prepared = run(source, tmp_path / "budget", tokenizer, workers=2, **settings)
    assert prepared.counts["read"] == 300
    assert prepared.counts["kept"] > 150
    originals = {f"{source.name}:{k}": row for k, row in enumerate(rows(source))}
    for row in rows(prepared.prepared):
        original = originals[row["extra_info"]["id"]]
        assert row["prompt"][-1]["content"] == original["problem"]
        answer = row["target"][0]["content"].rpartition("</think>")[2].strip()
        assert answer in original["response"]


def test_traces_on_benchmark_problems_come_out_nearly_empty(tmp_path: Path, tokenizer: Path, shared: Path) -> None:
    names = ("aime24", "amc", "math500", "minerva", "olympiadbench")
    suite = [benchmark for benchmark in load_suite("paper") if benchmark.name in names]
    table = read_suite(suite, [shared / "data/luffy", shared / "data/problems"])
    source = shared / "data/traces/skythought_long_cot.parquet"
    try:
        counts = run(source, tmp_path / "out", tokenizer, workers=2, benchmarks=table).counts
    except InputError as error:
        assert "contaminated" in str(error)
        return
    assert counts["contaminated"] > 0.95 * counts["read"]
    assert counts["kept"] < 0.002 * counts["read"]
    reasons = Counter(row["reason"] for row in rows(tmp_path / "out/rejected.parquet"))
    assert reasons.most_common(1)[0][0] == "contaminated"
