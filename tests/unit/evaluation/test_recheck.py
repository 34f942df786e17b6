"""A recorded run of somebody else's: a forged verdict, response and policy are found."""

import json
from pathlib import Path

import manifests
import pyarrow as pa
import pytest

from core.code_digest import PROJECT
from core.errors import InputError
from core.schemas import GRADED
from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.benchmarks.suite import load_suite
from evaluation.recheck import compare_runs, recheck_verdicts, report
from evaluation.recorded_run import RecordedRun
from evaluation.sample_tables import problem_digests
from grading.graded_table import Verifiers, grade_table

SUITE = """
benchmarks:
  - name: sums
    group: evals
    title: Sums
    sources: [{file: sums.jsonl, columns: {problem: problem, gold: answer}}]
"""


@pytest.fixture
def suite(tmp_path: Path) -> pa.Table:
    rows = [{"problem": f"{n}+1=?", "answer": str(n + 1)} for n in range(4)]
    (tmp_path / "sums.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "sums.yaml").write_text(SUITE)
    return read_suite(load_suite(tmp_path / "sums.yaml"), [tmp_path])


@pytest.fixture
def run(suite: pa.Table) -> RecordedRun:
    """Two right responses and two wrong ones."""
    rows = [
        {
            "benchmark": "sums",
            "id": problem["id"],
            "sample": 0,
            "prompt": problem["problem"],
            "response": f"<think>\n\n</think>\n\n\\boxed{{{n + 1 if n < 2 else 9}}}",
            "tokens": 9,
            "finish_reason": "stop",
            "seed": n,
        }
        for n, problem in enumerate(suite.to_pylist())
    ]
    samples = pa.Table.from_pylist(rows, schema=pa.schema(list(GRADED)[:8]))
    with Verifiers(1, 5.0) as verifiers:
        graded = grade_table(samples, suite, verifiers, thinking=True)
    return RecordedRun(manifests.manifest(), (), problem_digests(suite), {"sums": graded})


def forged(run: RecordedRun, row: int, **values: object) -> RecordedRun:
    rows = run.tables["sums"].to_pylist()
    rows[row] |= values
    return RecordedRun(
        run.manifest, run.metrics, run.problems, {"sums": pa.Table.from_pylist(rows, run.tables["sums"].schema)}
    )


def test_an_honest_run_is_confirmed_and_a_forged_verdict_is_found(run: RecordedRun, suite: pa.Table) -> None:
    with Verifiers(1, 5.0) as verifiers:
        assert recheck_verdicts(run, suite, verifiers) == []
        (found,) = recheck_verdicts(forged(run, 3, verdict="correct", score=1.0), suite, verifiers)
    assert (found.recorded, found.found) == ("correct (1)", "wrong (0)")
    assert report("verdicts", [found], 4) == f"verdicts: 1 of 4 differ\n  {found}"


def test_a_forged_response_is_found_by_making_the_run_again(run: RecordedRun, suite: pa.Table) -> None:
    changed = forged(run, 3, response="<think>\n\n</think>\n\n\\boxed{4}", verdict="correct", score=1.0)
    with Verifiers(1, 5.0) as verifiers:
        assert recheck_verdicts(changed, suite, verifiers) == []  # the response is right, but the policy never gave it
    assert compare_runs(run, run) == []
    (found,) = compare_runs(changed, run)
    assert "boxed{4}" in found.recorded and "boxed{9}" in found.found


def test_another_policy_is_found(run: RecordedRun) -> None:
    other = run.manifest.model_copy(update={"checkpoint_digest": "f" * 64})
    (found,) = compare_runs(run, RecordedRun(other, (), run.problems, run.tables))
    assert found.what == "policy"


def test_runs_of_other_settings_and_other_problems_are_refused(run: RecordedRun, tmp_path: Path) -> None:
    request = run.manifest.request.model_copy(update={"seed": 77})
    other = RecordedRun(run.manifest.model_copy(update={"request": request}), (), run.problems, run.tables)
    with pytest.raises(InputError, match="seed: the runs differ in what was asked for"):
        compare_runs(run, other)
    shipped = read_suite(load_suite("embedded"), [PROJECT])
    with Verifiers(1, 5.0) as verifiers, pytest.raises(InputError, match="problems of sums: they are not those of the"):
        recheck_verdicts(run, shipped, verifiers)
