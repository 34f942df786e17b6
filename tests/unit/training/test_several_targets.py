"""Samples of a group that start with different targets of their problem: `method.targets=all`."""

from typing import Any

import pytest

from training.algorithms.derived_seeds import prompt_key
from training.methods import method_of, resolved
from training.methods.given import Group, Prompt
from training.verl_hooks.agent_loop import with_target
from training.verl_hooks.batch import OTHERS, PLAN, TARGET_ID
from training.verl_hooks.prompt_trainer import Problems


def row(identifier: str, problem: str, target: str | None, source: str = "own") -> dict[str, Any]:
    return {
        "raw_prompt": [{"role": "user", "content": problem}],
        "target": target and [{"role": "assistant", "content": target}],
        "extra_info": {"id": identifier},
        "data_source": source,
    }


ROWS = [row("a", "1+1", "2"), row("b", "2+2", "4"), row("c", "1+1", "two"), row("d", "1+1", None)]
ROWS += [row("e", "1+1", "2, I think"), row("f", "1+1", "II", source="judged")]


@pytest.mark.parametrize(("name", "expected"), [("a", "ce"), ("c", "ea"), ("e", "ac"), ("b", "")])
def test_the_other_targets_of_a_problem_come_after_the_own_one(name: str, expected: str) -> None:
    nothing_is_encoded: Any = None
    problems = Problems(ROWS, nothing_is_encoded, nothing_is_encoded)  # pyright: ignore[reportArgumentType]  a list
    problem = prompt_key(next(one["raw_prompt"] for one in ROWS if one["extra_info"]["id"] == name))
    assert [other[TARGET_ID] for other in problems.other_targets(problem, name, "own")] == list(expected)


@pytest.mark.parametrize(("targets", "expected"), [("own", [0, 0, 0]), ("all", [0, 1, 0])])
def test_the_samples_of_a_failed_group_share_out_the_targets(targets: str, expected: list[int]) -> None:
    method = method_of(resolved({"type": "luffy", "guide": "failed", "targets": targets, "prefix": {"n": 3}}))
    prompt = Prompt(1, "a", 0, 0, has_target=True, targets=2 if method.all_targets else 1)
    starts = method.draw_more(prompt, Group(dict.fromkeys(range(8), False), 8), 8)
    assert [start.target for start in starts.values()] == expected
    sample = {**ROWS[0], PLAN: {OTHERS: [{"target": ROWS[2]["target"], TARGET_ID: "c"}]}}
    written = [with_target(sample, start)["target"][0]["content"] for start in starts.values()]
    assert written == [("2", "two")[number] for number in expected]
