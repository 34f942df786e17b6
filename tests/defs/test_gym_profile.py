"""The profile gym: tasks of Reasoning Gym become targets and benchmarks, which the tasks' own scorers grade."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from core.schemas import SAMPLE
from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.benchmarks.suite import Benchmark
from grading.contamination import overlaps
from grading.graded_table import Verifiers, grade_table
from grading.gym_tasks import read_entries
from targets.prepare import prepare
from targets.problems import read_problems
from targets.read.worked_solutions import STEPS
from targets.settings import build_config
from tests.defs.project import settings_of

pytest.importorskip("reasoning_gym", reason="make gym installs it")

TOKENIZER = Path(__file__).resolve().parents[2] / "training" / "embedded_model" / "model"


def test_its_tasks_become_its_targets_and_its_benchmarks(tmp_path: Path) -> None:
    settings = settings_of(LUFFY_PROFILE="gym")
    suite = read_suite(settings.suite.entries(), [])
    prepared = prepare(settings.targets, tmp_path, benchmarks=suite, tokenizer_json=TOKENIZER)
    assert prepared.counts == {"read": 192, "kept": 192}
    rows = pq.read_table(prepared.prepared).to_pylist()
    assert {row["data_source"] for row in rows} == STEPS.keys() and len({row["ability"] for row in rows}) == 6
    assert {row["reward_model"]["style"] for row in rows} == {"gym"}
    asked = {row["prompt"][-1]["content"] for row in rows}
    assert len(asked) == 192 and not asked & {row["prompt"][-1]["content"] for row in suite.to_pylist()}
    measured = read_problems(settings.targets, TOKENIZER, limit=6)
    for table in (suite, measured):
        graded = answered_by_gold(table)
        assert set(graded["verdict"].to_pylist()) == {"correct"}, graded["reason"].to_pylist()


def answered_by_gold(suite: pa.Table) -> pa.Table:
    """The grades of responses that give the gold answers of one benchmark after the other."""
    fixed = {"sample": 0, "prompt": "p", "tokens": 1, "finish_reason": "stop", "seed": 0}
    tables = []
    with Verifiers(workers=1) as verifiers:
        for name in suite["benchmark"].unique().to_pylist():
            rows = [row for row in suite.to_pylist() if row["benchmark"] == name]
            response = "<think>\nhm\n</think>\n\n<answer>{}</answer>"
            samples = [
                fixed | {"benchmark": name, "id": row["id"], "response": response.format(row["gold"])} for row in rows
            ]
            tables.append(grade_table(pa.Table.from_pylist(samples, schema=SAMPLE), suite, verifiers))
    return pa.concat_tables(table.replace_schema_metadata() for table in tables)


def gym_benchmark(**changes: Any) -> Benchmark:
    fields = {"name": "sums", "group": "evals", "title": "Sums", "generator": "gym:chain_sum", "size": 4}
    return Benchmark.model_validate(fields | changes)


def test_problems_from_a_template_contaminate_only_if_they_are_equal() -> None:
    suite = read_suite([gym_benchmark()], [])
    assert json.loads(suite["fields"][0].as_py())["entry"]["answer"] == suite["gold"][0].as_py()
    problem = suite["problem"][0].as_py()
    other = next(e["question"] for e in read_entries("chain_sum", {"size": 9, "seed": 3}) if e["question"] != problem)
    equal, alike = overlaps([problem, other], suite)
    assert equal is not None and alike is None
    assert overlaps([other], suite.replace_schema_metadata())  # of any other benchmark they would be too much alike


def test_any_task_is_a_source_and_one_may_be_read_twice(tmp_path: Path) -> None:
    sources = [
        {"path": "gym:gcd", "options": {"size": 3}},
        {"path": "gym:gcd", "name": "large", "options": {"size": 3, "max_value": 9000}},
    ]
    prepared = prepare(build_config({"source": sources, "workers": 1}), tmp_path, tokenizer_json=TOKENIZER)
    assert prepared.counts == {"read": 6, "kept": 6}
    rows = pq.read_table(prepared.prepared).to_pylist()
    assert [row["data_source"] for row in rows] == ["gcd"] * 3 + ["large"] * 3
    assert "The answer is" in rows[0]["target"][0]["content"]


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("chain_sun", {}, "gym:chain_sun: no task of this name in reasoning-gym; did you mean gym:chain_sum?"),
        ("chain_sum", {"max_words": 7}, "gym:chain_sum: options .*max_words"),
        ("chain_sum", {"min_terms": 9, "max_terms": 2}, "gym:chain_sum: options .*max_terms must be"),
    ],
)
def test_a_task_or_an_option_that_does_not_exist_is_one_message(
    task: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_entries(task, {"size": 1, "seed": 0, **options})
