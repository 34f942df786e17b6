"""Graded tables made by hand, through the real schemas, and the benchmarks of the paper."""

import pyarrow as pa
import pytest

from core.schemas import GRADED
from evaluation.benchmarks.suite import Benchmark, load_suite


@pytest.fixture(scope="session")
def paper() -> dict[str, Benchmark]:
    return {benchmark.name: benchmark for benchmark in load_suite("paper")}


@pytest.fixture(scope="session")
def graded():
    """A function from {problem: [score or (extracted, score) or verdict of each sample]} to a GRADED table."""

    def make(problems: dict[str, list], benchmark: str = "b", checkpoint: str | None = None) -> pa.Table:
        rows = []
        for problem, samples in problems.items():
            for number, sample in enumerate(samples):
                if isinstance(sample, str):
                    extracted, score, verdict = None, 0.0, sample
                else:
                    extracted, score = sample if isinstance(sample, tuple) else ("7" if sample else "8", float(sample))
                    verdict = "correct" if score >= 1 else "partial" if score else "wrong"
                rows.append(
                    {
                        "benchmark": benchmark,
                        "id": problem,
                        "sample": number,
                        "prompt": f"<user>{problem}=?",
                        "response": f"<think>\n{problem}\n</think>\n\n\\boxed{{{extracted}}}",
                        "tokens": 10 + number,
                        "finish_reason": "length" if verdict == "truncated" else "stop",
                        "seed": number,
                        "gold": "7",
                        "extracted": extracted,
                        "verdict": verdict,
                        "score": score,
                    }
                )
        metadata = {"checkpoint": checkpoint} if checkpoint else None
        return pa.Table.from_pylist(rows, schema=GRADED.with_metadata(metadata))

    return make
