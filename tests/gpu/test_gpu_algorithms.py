"""The formulas on a CUDA device: everything stays there, and the numbers are those of the CPU."""

from typing import Any

import pytest
import torch

from training.algorithms import (
    compute_grpo_outcome_advantage_split,
    compute_sft_pure_loss,
    compute_token_on_off_policy_loss,
)
from training.algorithms.advantage import GroupAdvantage, apply_prefix_weights, group_advantage
from training.algorithms.aggregate import LOSS_AGG_MODES, BatchSize, agg_loss
from training.algorithms.correction import CORRECTIONS, Correction, rollout_correction
from training.algorithms.tensors import mask_of_prefix

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
ROWS, LENGTH = 32, 257


def batch() -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, LENGTH, (ROWS, 1), generator=draw)
    old = -2 * torch.rand(ROWS, LENGTH, generator=draw)
    return {
        "old": old,
        "new": old + 0.1 * torch.randn(ROWS, LENGTH, generator=draw),
        "rollout": old + 0.2 * torch.randn(ROWS, LENGTH, generator=draw),
        "advantages": torch.randn(ROWS, 1, generator=draw).expand(ROWS, LENGTH).clone(),
        "mask": torch.arange(LENGTH) < lengths,
        "prefix_length": torch.randint(0, 50, (ROWS,), generator=draw) * (torch.arange(ROWS) % 4 == 0),
        "scores": torch.randint(0, 2, (ROWS,), generator=draw).float(),
    }


def computed(device: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Every formula on ``device``, keyed by name."""
    data = {
        name: value.to(device, dtype if value.is_floating_point() else value.dtype) for name, value in batch().items()
    }
    mask, index = data["mask"], [row // 8 for row in range(ROWS)]
    off_policy_mask = mask_of_prefix(data["prefix_length"], mask)
    on_policy = data["prefix_length"] == 0
    rewards = torch.zeros_like(data["old"])
    rewards[:, 0] = data["scores"]
    values: dict[str, Any] = {"off_policy_mask": off_policy_mask.float()}
    values["split"], _ = compute_grpo_outcome_advantage_split(rewards, mask, index, on_policy)
    values["all_samples"] = group_advantage(data["scores"], index, on_policy, GroupAdvantage())
    values["weighed"] = apply_prefix_weights(data["advantages"], off_policy_mask, 0.5, 2.0)
    for kind in CORRECTIONS:
        options = Correction.model_validate({"type": kind, "low": 0.8, "high": 1.2})
        values[kind], _, _ = rollout_correction(data["old"], data["rollout"], mask, off_policy_mask, options)
    new = data["new"].requires_grad_()
    for reshape in ("p_div_p_0.1", "logp", "square_root"):
        loss = compute_token_on_off_policy_loss(
            data["old"], new, data["advantages"], mask, 0.2, 2.0, off_policy_mask, off_cliprange=None,
            off_policy_reshape=reshape,
        )  # fmt: skip
        (gradient,) = torch.autograd.grad(loss["pg_loss"], new)
        values |= {f"{reshape} loss": loss["pg_loss"], f"{reshape} gradient": gradient}
    size = BatchSize(tokens=mask.sum(), sequences=ROWS, response_length=LENGTH)
    for mode in LOSS_AGG_MODES:
        values[mode] = agg_loss(new, mask, mode, size)
    values["sft"] = compute_sft_pure_loss(new, mask)
    return values


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_the_device_computes_what_the_cpu_does(dtype: torch.dtype, tolerance: float) -> None:
    here, there = computed("cpu", dtype), computed("cuda", dtype)
    for name, value in there.items():
        assert value.device.type == "cuda", name
        torch.testing.assert_close(value.cpu(), here[name], rtol=tolerance, atol=tolerance, msg=lambda m, n=name: n + m)
