"""targets/generated: there only if it is configured, one more source of the targets, and nothing is paid for twice."""

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from tests.defs.project import message, settings_of
from tests.defs.test_definitions import definitions, graph

LOCAL = {"LUFFY__GENERATE__TEACHER": "training/embedded_model/model", "LUFFY__GENERATE__PROBLEMS": "problems.jsonl"}
KEYS = ("models/base", "benchmarks/suite", "targets/generated", "targets/prepared", "targets/rejected", "targets/train")
FEW = {"targets__embedded_rows": "40", "benchmarks__limit": "20"}


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    """Twelve problems whose answer is what the teacher says, and one where it is wrong."""
    path = tmp_path / "problems.jsonl"
    rows = [{"question": f"What is 2+2+{k}-{k}?", "gold": 4} for k in range(10, 22)]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"question": "What is 7+8?", "gold": 15}]))
    return path


def configured(teacher: str, problems: Path, **more: Any) -> dict[str, str]:
    options = {"teacher": teacher, "problems": str(problems), "problem_column": "question", "answer_column": "gold"}
    return {f"generate__{name}": json.dumps(value) for name, value in {**options, "max_tokens": 50, **more}.items()}


def accounted(result: Any) -> bool:
    checks = result.get_asset_check_evaluations()
    return [check.passed for check in checks if check.check_name == "every_trace_accounted_for"] == [True]


def test_without_the_section_there_is_no_asset_and_with_it_one_more_source():
    key = dg.AssetKey(["targets", "generated"])
    assert key not in graph("embedded").get_all_asset_keys()
    local = graph("embedded", **LOCAL)
    assert key in local.get(dg.AssetKey(["targets", "prepared"])).parent_keys
    assert local.get(key).tags["luffy/pool"] == "gpu" and not local.get(key).parent_keys
    paid = graph("embedded", **{**LOCAL, "LUFFY__GENERATE__TEACHER": "teacher@https://api.example.org/v1"})
    assert "luffy/pool" not in paid.get(key).tags  # it asks others, and takes no GPU
    assert key in definitions("embedded", **LOCAL).resolve_job_def("prepare_targets").asset_layer.executable_asset_keys


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"TEACHERS": "x"}, ["generate.teachers", "mean teacher?"]),
        ({"BUDGET_TOKENS": "100"}, ["a budget is for endpoints"]),
        ({"TEACHER": "a@http://b/v1", "BUDGET_MONEY": "1"}, ["give the input price and the output price"]),
        ({"TEACHER": "a@http://b/v1", "TEMPLATE": "own"}, ["leave out the template"]),
        ({"ENDPOINT": "{leave_out: [seed]}"}, ["endpoint is for MODEL@URL"]),
        ({"TEACHER": "a@http://me:key@b/v1"}, ["give the key in the variable OPENAI_API_KEY"]),
    ],
)
def test_a_mistake_in_the_section_is_one_message(changes, parts):
    variables = {**LOCAL, **{f"LUFFY__GENERATE__{name}": value for name, value in changes.items()}}
    with pytest.raises(InputError) as caught:
        settings_of(**{name: value for name, value in variables.items() if value is not None})
    assert all(part in str(caught.value) for part in parts), caught.value
    assert "\n" not in str(caught.value)


def test_paid_traces_are_verified_prepared_and_reused(build, teacher, problems, training_interpreter):
    state, name = teacher
    endpoint = {"max_tokens_key": "max_completion_tokens", "extra_body": {"reasoning_effort": "low"}}
    project = build(**FEW, **configured(name, problems, samples=2, input_price=1, output_price=2, endpoint=endpoint))
    result = project.run(*KEYS)
    assert result.success and accounted(result)
    generated, prepared = project.metadata("targets/generated"), project.metadata("targets/prepared")
    assert (generated["dagster/row_count"], generated["problems"], generated["cache hits"]) == (26, 13, 0)
    assert (generated["tokens paid for this time"], generated["cost this time"]) == (26 * 30, 26 * 40 / 1e6)
    assert state.requests[0]["max_completion_tokens"] == 50 and state.requests[0]["reasoning_effort"] == "low"
    assert generated["lineage"]["extra_body"] == {"reasoning_effort": "low"}
    assert generated["teacher"] == name and generated["verified, %"] == pytest.approx(2400 / 26, abs=0.1)
    assert "| wrong | 2 |" in generated["verdicts"] and generated["lineage"]["temperature"] == 0.6
    table = pq.read_table(project.metadata("targets/train")["file"])
    rows = {row["extra_info"]["id"]: row["extra_info"] | {"metadata": row["metadata"]} for row in table.to_pylist()}
    ours = [row for identity, row in rows.items() if identity.startswith("generated.parquet:")]
    generations = json.loads(table.schema.metadata[b"generations"])  # which lineage.json takes over
    assert json.loads(generations[generated["generation"]]) == generated["lineage"]
    assert ours and len(rows) - len(ours) == 40
    for row in ours:
        lineage = row["metadata"]
        assert (lineage["teacher"], lineage["generation"]) == ("teacher", generated["generation"])
        assert row["id"] == f"generated.parquet:{2 * (int(lineage['generation_problem']) - 1)}"
        assert lineage["generation_sample"] == "0"  # one trace of each problem is kept
    rejected = pq.read_table(project.metadata("targets/rejected")["file"]).to_pylist()
    assert len(rejected) + len(rows) == 40 + 26
    assert sum(row["reason"] == "wrong" for row in rejected) == 2
    assert "| teacher | teacher | 26 |" in prepared["licenses, teachers and other metadata"]
    assert "generation_sample" not in prepared["licenses, teachers and other metadata"]
    lineage = prepared["dagster/column_lineage"].deps_by_column["target"]
    assert {dep.asset_key.to_user_string() for dep in lineage} == {"targets/source", "targets/generated"}

    before, asked = project.files(), dict(state.asked)
    assert project.run(*KEYS).success
    assert project.metadata("targets/generated")["reused"] is True
    assert project.metadata("targets/generated")["cost this time"] == 0
    assert project.metadata("targets/prepared")["reused"] is True
    assert project.files() == before and state.asked == asked


@pytest.mark.slow
def test_a_budget_goes_on_where_it_ended_and_every_trace_is_accounted_for(
    build, teacher, problems, tmp_path, training_interpreter
):
    state, name = teacher
    nothing = build(**FEW, **configured(name, problems, budget_tokens=10)).run("targets/generated")
    assert "the budget ends before the first trace; raise generate.budget_tokens" in message(nothing)
    assert not state.asked
    limited = configured(name, problems, budget_tokens=400, concurrency=1)
    more = tmp_path / "more.jsonl"
    good = "<think>\nNine and nine.\n</think>\n\nIt is \\boxed{18}."
    more.write_text(json.dumps({"problem": "How much is 9+9, all told?", "answer": "18", "response": good}))
    sources = [{"path": "generated", "license": "CC0-1.0", "cap": 5}, "embedded", {"path": str(more), "license": "MIT"}]
    review = tmp_path / "review.csv"
    review.write_text("id,decision,reviewer,note\nmore.jsonl:0,refuse,Ada,no\n")
    settings = {**FEW, "targets__source": json.dumps(sources), "targets__review": str(review)}
    project = build(**settings, **limited)
    result = project.run(*KEYS)
    assert result.success and accounted(result)
    part = project.metadata("targets/generated")
    assert part["dagster/row_count"] == len(state.asked) == 13 - part["traces that the budget left out"] < 13
    while part["traces that the budget left out"]:
        assert project.run("targets/generated").success
        again = project.metadata("targets/generated")
        assert again["dagster/row_count"] > again["cache hits"] == part["dagster/row_count"]
        part = again
    result = project.run(*KEYS)
    assert result.success and accounted(result)
    assert set(state.asked.values()) == {1} and len(state.asked) == 13
    reasons = project.metadata("targets/rejected")["reasons"]
    assert "| review | 1 |" in reasons and "| wrong | 1 |" in reasons and "| over_source_cap | " in reasons
    assert (
        "| license | CC0-1.0 | 13 | 5 |"
        in project.metadata("targets/prepared")["licenses, teachers and other metadata"]
    )


def test_what_is_missing_is_one_message(build, tmp_path, training_interpreter):
    gone = configured("training/embedded_model/model", tmp_path / "none.jsonl")
    assert "none.jsonl: no such file" in message(build(**FEW, **gone).run("targets/generated"))
    named = build(**FEW, targets__source="[embedded, generated]").run(*(key for key in KEYS if "generated" not in key))
    assert "source generated: no traces of a teacher: configure the section generate" in message(named)
