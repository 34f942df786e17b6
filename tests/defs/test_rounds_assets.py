"""rounds/*: a teacher is asked about what the last policy did not solve, once, within a budget."""

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from core.files import write_json
from tests.defs.project import Project, message, settings_of
from tests.defs.test_definitions import graph
from tests.defs.test_generated import configured

NAMES = ("traces", "train", "policy", "metrics", "scores", "scorecard")
ENDPOINT = {
    "LUFFY__GENERATE__TEACHER": "teacher@http://127.0.0.1:9/v1",
    "LUFFY__GENERATE__PROBLEMS": "problems.jsonl",
    "LUFFY__ROUNDS__BUDGET_TOKENS": "1000",
}

ALL = [f"What is 2+2+{k}-{k}?" for k in range(10, 22)]


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    """Twelve problems whose answer is what the teacher says."""
    path = tmp_path / "problems.jsonl"
    rows = [{"question": question, "gold": 4} for question in ALL]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def rounds(build: Any, teacher: Any, problems: Path, training_interpreter: Path) -> Any:
    def make(**settings: str) -> Project:
        options = configured(teacher[1], problems, concurrency=1)
        limits = {"benchmarks__limit": "4", "rounds__number": "2", "rounds__budget_tokens": "330"}
        return build(**{**options, **limits, **settings})

    return make


def run(project: Project, *keys: str) -> Any:
    job = project.defs.resolve_job_def("rounds")
    selection = [dg.AssetKey.from_user_string(key) for key in keys]
    return job.execute_in_process(instance=project.instance, asset_selection=selection, raise_on_error=False)


def trained(project: Project, number: int, solved: dict[str, list[int]]) -> None:
    """Leave what the policy of a round leaves: the log of its samples, and where it is."""
    folder = project.storage / "training" / "policy" / str(number)
    (folder / "rollouts").mkdir(parents=True)
    sample = {"input": "", "output": "", "gts": "4", "score": 0.0, "prefix_length": 0, "alone": 1}
    rows = [{**sample, "problem": problem, "solved": one} for problem, right in solved.items() for one in right]
    (folder / "rollouts" / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    policy = {"path": str(folder), "digest": f"policy {number}", "base": "b", "metrics": str(folder / "metrics.jsonl")}
    write_json(policy, project.storage / "references" / "rounds" / str(number) / "policy.json")


def asked_in(project: Project, number: int) -> list[str]:
    table = pq.read_table(project.metadata(f"rounds/{number}/traces")["file"])
    return table["problem"].to_pylist()


def test_rounds_are_assets_that_follow_each_other_if_the_profile_has_them():
    assert not any(key.path[0] == "rounds" for key in graph("embedded").get_all_asset_keys())
    found = graph("embedded", **ENDPOINT, LUFFY__ROUNDS__NUMBER="2")
    keys = {key.to_user_string() for key in found.get_all_asset_keys() if key.path[0] == "rounds"}
    assert keys == {f"rounds/{number}/{name}" for number in (1, 2) for name in NAMES}

    def parents(key: str) -> set[str]:
        return {parent.to_user_string() for parent in found.get(dg.AssetKey.from_user_string(key)).parent_keys}

    assert dg.AssetKey(["targets", "generated"]) not in found.get_all_asset_keys()  # it would ask about everything
    assert parents("rounds/1/policy") == {"rounds/1/train", "models/base"}
    assert parents("rounds/2/policy") == {"rounds/2/train", "rounds/1/policy"}
    assert {"rounds/1/policy", "rounds/1/traces"} < parents("rounds/2/traces")


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"GENERATE__TEACHER": "models/teacher"}, ["must be MODEL@URL of an endpoint", "set generate.teacher"]),
        ({"TRAINING__RECIPE": "sft"}, ["training.recipe=sft draws none", "such as luffy"]),
    ],
)
def test_what_cannot_have_rounds_is_one_message(changes, parts):
    with pytest.raises(InputError) as caught:
        graph("embedded", **{**ENDPOINT, **{f"LUFFY__{name}": value for name, value in changes.items()}})
    assert all(part in str(caught.value) for part in parts), caught.value


@pytest.mark.parametrize(
    ("key", "value", "part"),
    [("UNSOLVED_BELOW", "0", "greater than 0"), ("BUDGET_TOKENS", "0", "greater than or equal to 1")],
)
def test_a_mistake_in_the_section_is_one_message(key, value, part):
    with pytest.raises(InputError, match=rf"rounds\.{key.lower()}.*{part}"):
        settings_of(LUFFY_PROFILE="embedded", **{**ENDPOINT, f"LUFFY__ROUNDS__{key}": value})


def test_the_teacher_is_asked_within_the_budget_and_then_about_what_is_unsolved(rounds, teacher):
    state, _ = teacher
    project = rounds()
    result = run(project, "models/base", "benchmarks/suite", "rounds/1/traces", "rounds/1/train")
    assert result.success
    first = project.metadata("rounds/1/traces")
    assert first["tokens of this round"] == 30 * first["asked"] <= 330 and 0 < first["asked"] < 12
    assert first["unsolved"] == first["problems"] == 12
    train = project.metadata("rounds/1/train")
    assert train["targets"] == first["asked"] and train["dagster/row_count"] >= 12

    once = dict(state.asked)
    known = asked_in(project, 1)
    others = sorted({*ALL} - {*known})
    solved = {known[0]: [0, 0], others[0]: [1, 1], others[1]: [0, 0, 0, 0], others[2]: [1, 0, 0, 0, 0]}
    trained(project, 1, solved)
    assert run(project, "rounds/1/traces", "rounds/2/traces", "rounds/2/train").success
    second = project.metadata("rounds/2/traces")
    assert asked_in(project, 2) == [*known, others[1], others[2]]  # what nobody sampled is not known to be unsolved
    assert (second["asked"], second["unsolved"]) == (2, 3)
    assert second["tokens of the rounds so far"] == 30 * len(state.asked)
    assert set(state.asked.values()) == {1} and once.items() <= dict(state.asked).items()
    assert second["policy before"] == "policy 1"


@pytest.mark.parametrize("settings", [{}, {"rounds__budget_tokens_in_all": "300"}])
def test_the_rounds_end_where_nothing_is_unsolved_or_nothing_is_left(rounds, teacher, settings):
    project = rounds(**settings)
    assert run(project, "models/base", "benchmarks/suite", "rounds/1/traces").success
    right = [1] if not settings else [0]
    trained(project, 1, dict.fromkeys(ALL, right))
    result = run(project, "rounds/2/traces", "rounds/2/train", "rounds/2/policy", "rounds/2/scores")
    assert result.success
    skipped = {event.step_key for event in result.all_events if event.event_type_value == "STEP_SKIPPED"}
    assert skipped == {"rounds__2__train", "rounds__2__policy", "rounds__2__scores"}
    assert sum(teacher[0].asked.values()) == project.metadata("rounds/1/traces")["asked"]


def test_a_round_that_was_stopped_asks_nothing_twice_and_takes_no_more(rounds, teacher):
    state, _ = teacher
    project = rounds(rounds__budget_tokens="500")
    state.fails_after = 3
    assert "the account is empty" in message(run(project, "models/base", "benchmarks/suite", "rounds/1/traces"))
    assert state.answered == 3
    state.fails_after = None
    assert run(project, "rounds/1/traces").success
    assert project.metadata("rounds/1/traces")["tokens of this round"] <= 500
    assert sorted(set(state.asked.values())) == [1, 2]  # twice what was not answered
    assert state.answered == project.metadata("rounds/1/traces")["asked"]


def test_a_budget_below_one_answer_is_one_message(rounds):
    project = rounds(rounds__budget_tokens="40")
    result = run(project, "models/base", "benchmarks/suite", "rounds/1/traces")
    assert "rounds.budget_tokens: a budget of 40 tokens does not cover one answer" in message(result)
