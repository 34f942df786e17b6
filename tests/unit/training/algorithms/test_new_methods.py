"""The methods of 2026: the signal of a group, with the values that the original code computes."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from core.errors import InputError
from training.algorithms.samples import Samples, Signal
from training.methods import method_of, resolved
from training.verl_hooks.reward import compute_score

LENGTH = 4


def signal_of(values: dict[str, Any], scores: list[float], prefixes: list[int], step: int = 0, **rows: Any) -> Signal:
    """The signal of a method for one group of samples, of which the first tokens of each are off-policy."""
    count = len(scores)
    mask = torch.ones(count, LENGTH)
    rewards = torch.zeros(count, LENGTH)
    rewards[:, -1] = torch.tensor(scores)
    fields = {
        "response_mask": mask,
        "old_log_probs": torch.zeros(count, LENGTH),
        "rollout_log_probs": torch.zeros(count, LENGTH),
        "prefix_length": torch.tensor(prefixes),
        "solved": torch.tensor(scores) == 1,
    }
    samples = Samples(
        TensorDict(fields | rows, batch_size=count), np.array(["g"] * count), torch.ones(count).bool(), limit=LENGTH
    )
    return method_of(resolved(values)).signal(samples, rewards, step)


def test_gdpo_compares_the_rewards_that_the_reward_function_returns() -> None:
    method = method_of(resolved({"type": "on_policy", "advantage": {"rewards": {"form": 1.0}}}))
    rows = {name: torch.zeros(2, LENGTH) for name in ("old_log_probs", "rollout_log_probs")}
    rows |= {"response_mask": torch.ones(2, LENGTH), "prefix_length": torch.zeros(2)}
    samples = Samples(
        TensorDict(rows, batch_size=2),
        np.array(["g"] * 2),
        torch.ones(2).bool(),
        rewards={"form": torch.tensor([1.0, 0])},
    )
    signal = method.signal(samples, torch.zeros(2, LENGTH), 0)
    assert signal.metrics["reward/part/form"] == 0.5
    assert signal.advantages[:, 0].tolist() == pytest.approx([0.5**0.5, -(0.5**0.5)], rel=1e-4)
    with pytest.raises(InputError, match=r"rewards\.form: .* returns no such number, but score"):
        method.signal(replace(samples, rewards={"score": torch.ones(2)}), torch.zeros(2, LENGTH), 0)


def test_a_weighted_verifier_returns_its_parts() -> None:
    parts = [{"verifier": {"type": "math"}, "weight": 3}, {"verifier": {"type": "exact", "answer": "boxed"}}]
    specs = json.dumps({"s": {"type": "weighted", "verifiers": parts}})
    graded = compute_score("s", "<think>t</think>\\boxed{1.0}", "1", verifiers=specs)
    assert {name: graded[name] for name in ("math", "exact", "score")} == {"math": 1.0, "exact": 0.0, "score": 0.75}
    cut = compute_score("s", "<think>t", "1", verifiers=specs)
    assert {name: cut[name] for name in ("math", "exact", "score")} == {"math": 0.0, "exact": 0.0, "score": 0.0}


def test_prefix_rft_learns_a_prefix_as_an_own_sample() -> None:
    signal = signal_of({"type": "prefix_rft"}, [1.0, 1.0, 0.0, 0.0, 0.0], [3, 0, 0, 0, 0])
    assert signal.advantages[0].tolist() == [0.75, 0.75, 0.75, 1.0]
    assert signal.advantages[1:, 0].tolist() == [0.75, -0.25, -0.25, -0.25]
    assert "policy" not in signal.weights


@pytest.mark.parametrize(("step", "expected"), [(0, 0.9), (25, 0.95), (50, 1.0)])
def test_rlsd_becomes_grpo(step: int, expected: float) -> None:
    teacher = {"teacher_log_probs": torch.full((2, LENGTH), -0.5)}
    signal = signal_of({"type": "rlsd", "advantage": {"use_std": False}}, [1.0, 0.0], [0, 0], step, **teacher)
    assert signal.advantages[0].tolist() == pytest.approx([0.5 * expected] * LENGTH)
    assert signal.advantages[1].tolist() == pytest.approx([-0.5 * (2 - expected)] * LENGTH)
