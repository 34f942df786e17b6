"""method.guide and data.order train for real: a batch has groups with and without off-policy samples."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from training_inputs import write_targets
from training_runs import Training

from core.model.lineage_file import read_manifest


def outcomes(samples: list[dict[str, Any]]) -> dict[str, list[tuple[bool, bool]]]:
    """Of each prompt its samples: whether each is right, and whether it is on-policy."""
    groups = defaultdict(list)
    for sample in samples:
        groups[sample["input"]].append((sample["score"] == 1, sample["prefix_length"] == 0))
    return groups


def guided(samples: list[dict[str, Any]]) -> set[str]:
    return {prompt for prompt, group in outcomes(samples).items() if not all(on_policy for _, on_policy in group)}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("rollouts", ["sync", "colocate_async"])
def test_only_problems_below_the_bound_are_guided_and_the_easiest_come_first(rollouts: str, tmp_path: Path) -> None:
    table = pq.read_table(write_targets(tmp_path / "train.parquet", 8))
    rates = [0.0, 1.0, 0.5, 0.75, 0.25, 1.0, 0.125, 0.875]
    pq.write_table(table.append_column("pass_rate", pa.array(rates)), tmp_path / "train.parquet")
    rules = {"method__guide": "pass_rate<0.8", "data__order": "easy_first", "rollouts__type": rollouts}
    run = Training(tmp_path / "run", tmp_path / "train.parquet", **rules)
    assert run.end() == 0, run.said
    first, second = (record["data"] for record in run.metrics())
    assert [len(guided(run.rollouts(step))) for step in (1, 2)] == [1, 4]
    assert [data["batch/off_policy_prompts"] for data in (first, second)] == [1, 4]
    assert [data["groups/off_policy"] for data in (first, second)] == [0.25, 1]
    assert [data["batch/generation_requests"] for data in (first, second)] == [15, 12]
    assert 0 < first["batch/off_policy_tokens"] < second["batch/off_policy_tokens"]
    questions = [row[0]["content"] for row in pq.read_table(tmp_path / "train.parquet")["prompt"].to_pylist()]
    easiest = {question for question, rate in zip(questions, rates, strict=True) if rate >= 0.75}
    assert {prompt.split("\n")[1] for prompt in outcomes(run.rollouts(1))} == easiest
    assert read_manifest(tmp_path / "run" / "policy").config["method"]["guide"] == "pass_rate<0.8"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_prompt_that_an_on_policy_sample_solved_is_guided_no_more(tmp_path: Path) -> None:
    """The base model solves short sums sometimes; each of the two steps sees all four problems."""
    targets = write_targets(tmp_path / "train.parquet", 4, split="short")
    run = Training(tmp_path / "run", targets, method__guide="until_solved")
    assert run.end() == 0, run.said
    first, second = outcomes(run.rollouts(1)), guided(run.rollouts(2))
    solved = {prompt for prompt, group in first.items() if (True, True) in group}
    assert guided(run.rollouts(1)) == set(first) and len(solved) > 0
    assert second == set(first) - solved
    states = [tmp_path / "run" / "checkpoints" / f"global_step_{step}" / "method.json" for step in (1, 2)]
    after = [set(json.loads(state.read_text())["solved"]) for state in states]
    assert len(after[0]) == len(solved) and after[0] <= after[1]
