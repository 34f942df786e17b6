"""A recorded run of somebody else's: a forged verdict, score, response, curve and policy are found."""

import json
from pathlib import Path

import manifests
import pyarrow as pa
import pytest

from core.errors import InputError
from core.files import write_table
from core.schemas import GRADED
from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.benchmarks.suite import load_suite
from evaluation.sample_tables import problem_digests
from grading.graded_table import Verifiers, grade_table
from research.recheck import compare_runs, recheck_verdicts, steps_that_agree
from research.recorded_run import RecordedRun

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


def differences(run: RecordedRun, remade: RecordedRun) -> dict[str, int]:
    return {check.kind: len(check.differences) for check in compare_runs(run, remade) if check.differences}


def test_what_grading_does_not_give_is_found(run: RecordedRun, suite: pa.Table, tmp_path: Path) -> None:
    pytest.importorskip("dagster", reason="luffy runs in the orchestration interpreter")
    file = tmp_path / "suite.parquet"
    write_table(suite, file)
    assert recheck_verdicts(run, file).differences == []
    changed = forged(forged(run, 3, verdict="correct", score=1.0), 0, extracted="8")
    check = recheck_verdicts(changed, file)
    assert ["correct" in found.recorded for found in check.differences].count(True) == 2
    assert str(check).startswith("verdicts: 2 of 4 differ\n  sums ")


def test_a_forged_response_is_found_by_making_the_run_again(run: RecordedRun) -> None:
    changed = forged(run, 3, response="<think>\n\n</think>\n\n\\boxed{4}", extracted="4", verdict="correct", score=1.0)
    assert differences(run, run) == {}
    assert differences(changed, run) == {"responses": 1, "verdicts": 1}
    (found,) = compare_runs(changed, run)[2].differences
    assert "boxed{4}" in found.recorded and "boxed{9}" in found.found


@pytest.mark.parametrize("values", [{"finish_reason": "length"}, {"tokens": 8}, {"seed": 99}, {"prompt": "another"}])
def test_a_forged_fact_of_a_sample_is_found_by_making_the_run_again(
    run: RecordedRun, values: dict[str, object]
) -> None:
    assert differences(forged(run, 0, **values), run) == {"responses": 1}


def test_a_forged_curve_is_found_and_what_the_machine_decides_is_not(run: RecordedRun) -> None:
    def with_rewards(*rewards: float, seconds: float) -> RecordedRun:
        data = [{"reward/on_policy": reward, "timing_s/step": seconds} for reward in rewards]
        records = tuple({"step": step, "data": values} for step, values in enumerate(data, 1))
        return RecordedRun(run.manifest, records, run.problems, run.tables)

    honest, elsewhere = with_rewards(0.1, 0.2, 0.3, seconds=1.0), with_rewards(0.1, 0.2, 0.3, seconds=9.0)
    assert differences(honest, elsewhere) == {} and steps_that_agree(honest, elsewhere) == 3
    rounded = with_rewards(0.1, 0.2001, 0.4, seconds=1.0)
    assert differences(rounded, honest) == {"curves": 2} and steps_that_agree(rounded, honest) == 2
    assert compare_runs(rounded, honest)[1].differences[1] == ("reward/on_policy step 3", "0.4", "0.3")


def test_runs_of_other_settings_and_other_problems_are_refused(run: RecordedRun, tmp_path: Path) -> None:
    request = run.manifest.request.model_copy(update={"seed": 77})
    other = RecordedRun(run.manifest.model_copy(update={"request": request}), (), run.problems, run.tables)
    with pytest.raises(InputError, match="seed: the runs differ in what was asked for"):
        compare_runs(run, other)
    scored = RecordedRun(run.manifest, (), {"sums": "d" * 64}, run.tables)
    with pytest.raises(InputError, match="problems of sums: the runs were scored on others"):
        compare_runs(run, scored)
    write_table(read_suite(load_suite("embedded"), []), tmp_path / "suite.parquet")
    with pytest.raises(InputError, match="problems of sums: they are not in the"):
        recheck_verdicts(run, tmp_path / "suite.parquet")
