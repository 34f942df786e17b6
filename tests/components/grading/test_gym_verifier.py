"""Reasoning Gym's own scorers, for tasks of several kinds."""

import json

import pytest

from grading.verifiers.spec import open_verifier, parse_spec

reasoning_gym = pytest.importorskip("reasoning_gym", reason="make gym installs it")


@pytest.mark.parametrize(
    "task", ["basic_arithmetic", "propositional_logic", "spell_backward", "shortest_path", "mini_sudoku"]
)
def test_the_scorer_of_a_task_grades(task: str) -> None:
    entry = json.loads(json.dumps(reasoning_gym.create_dataset(task, size=1, seed=7)[0]))
    gold = entry["answer"] or "none"
    with open_verifier(parse_spec({"type": "gym", "threshold": 0.9}, "test"), workers=1) as verifier:
        fields = {"entry": json.dumps(entry)}
        assert verifier.gold_problem(gold, fields) is None and verifier.gold_problem(gold, {}) is not None
        if entry["answer"]:
            assert verifier.verify(f"<answer>{gold}</answer>", gold, fields=fields, thinking=False).solved
        wrong = verifier.verify("<answer>no such thing</answer>", gold, fields=fields, thinking=False)
        assert not wrong.solved and str(wrong.verdict) in ("wrong", "partial")
        missing = verifier.verify("<answer>1</answer>", gold, thinking=False)
        assert str(missing.verdict) == "error" and "no field 'entry'" in missing.reason
