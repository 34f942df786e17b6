"""The scores of a teacher, and samples that see the beginning of the target, from a sample to its advantage."""

from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from training.algorithms.samples import Samples, Signal
from training.algorithms.teacher import Teacher
from training.methods.luffy import Luffy
from training.methods.on_policy import OnPolicy
from training.methods.pope import Pope
from training.verl_hooks.agent_loop import OffPolicyOutput

# A group of a target of two tokens and a sample, whose teacher has these log-probabilities; padding is the last token.
OLD = [[-1.0, -1.0, 0.0], [-1.0, -2.0, 0.0]]
TEACHER = [[0.0, 0.0, 0.0], [-1.5, -0.5, 0.0]]


def samples(prefix: list[int], scores: list[float], **more: Any) -> Samples:
    rows, length = len(prefix), 3
    fields: dict[str, torch.Tensor] = {
        "response_mask": torch.tensor([[1, 1, 0]] * rows),
        "old_log_probs": torch.tensor(OLD)[:rows] if rows == 2 else torch.zeros(rows, length),
        "rollout_log_probs": torch.zeros(rows, length),
        "entropy": torch.zeros(rows, length),
        "rollout_versions": torch.zeros(rows, length),
        "prefix_length": torch.tensor(prefix),
        "solved": torch.tensor(scores) == 1,
        "rm_scores": torch.tensor(scores).unsqueeze(-1) * torch.tensor([[0.0, 1.0, 0.0]]),
    }
    data = TensorDict({**fields, **more}, batch_size=rows)  # pyright: ignore[reportArgumentType]
    return Samples(data, np.array(["g"] * rows, dtype=object), torch.ones(rows, dtype=torch.bool))


def advantages(of: Samples, method: OnPolicy) -> Signal:
    return method.signal(of, of.rows["rm_scores"], 0)


@pytest.mark.parametrize(
    ("teacher", "expected"),
    [
        ({"task_rewards": False}, [[0.5, 0.5, 0.0], [-0.5, 1.5, 0.0]]),
        ({}, [[0.5, 0.5, 0.0], [-1.0, 1.0, 0.0]]),
        ({"coef": 0.1, "max_advantage": 1.0}, [[0.5, 0.5, 0.0], [-0.55, -0.4, 0.0]]),
    ],
)
def test_the_policys_tokens_have_the_scores_and_the_target_has_its_own_advantage(
    teacher: dict[str, Any], expected: list[list[float]]
) -> None:
    group = samples([2, 0], [1.0, 0.0], teacher_log_probs=torch.tensor(TEACHER))
    computed = advantages(group, Luffy(teacher=Teacher(**teacher)))
    torch.testing.assert_close(computed.advantages, torch.tensor(expected))
    assert computed.metrics["distillation/kl"] == pytest.approx((0.5 - 1.5) / 2)


def test_samples_that_see_the_target_are_compared_with_each_other() -> None:
    """Two that see it, one of them right; two that do not, both wrong: these teach nothing."""
    group = samples([0] * 4, [1.0, 0.0, 0.0, 0.0], guided=torch.tensor([1, 1, 0, 0]))
    assert advantages(group, Pope()).advantages[:, 0].tolist() == [0.5, -0.5, 0.0, 0.0]
    assert group.on_policy.tolist() == [False, False, True, True]
    assert not group.off_policy_mask.any()  # the policy wrote all of every response
    plain = samples([0] * 4, [1.0, 0.0, 0.0, 0.0])
    assert advantages(plain, OnPolicy()).advantages[:, 0].tolist() == [0.75, -0.25, -0.25, -0.25]


def test_a_sample_carries_its_scores() -> None:
    fields: dict[str, Any] = {"prompt_ids": [1], "response_ids": [2, 3], "response_mask": [1] * 2, "num_turns": 2}
    sample = OffPolicyOutput(**fields, metrics={}, requests=1, versions=[0, 0], prefix_length=0, guided=True)  # pyright: ignore[reportArgumentType]
    assert "teacher_log_probs" not in sample.as_dict()
    sample.teacher_log_probs = [-0.5, -0.25]
    assert sample.as_dict()["teacher_log_probs"].tolist() == [-0.5, -0.25]
    assert sample.as_dict()["guided"].item() == 1
