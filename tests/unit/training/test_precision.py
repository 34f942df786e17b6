"""What half precision leaves of the numbers that are learned from: verl's fused head, its autocast, and our sums."""

import pytest
import torch
from torch import Tensor
from unit.training.test_hybrid_loss import made
from updates import update_loss
from verl.utils.experimental.torch_functional import FusedLinearForPPO

from training.algorithms.aggregate import LOSS_AGG_MODES, BatchSize, agg_loss, agg_mean

TOKENS = 600
ENTROPIES = torch.linspace(0.5, 2.0, TOKENS + 1).bfloat16()


def entropy_loss(entropies: Tensor) -> float:
    def nested(row: Tensor) -> Tensor:
        return torch.nested.as_nested_tensor([row], layout=torch.jagged)

    ones = nested(torch.ones(TOKENS))
    data = dict.fromkeys(("responses", "response_mask", "advantages", "rollout_is_weights"), ones)
    data |= {"prompts": nested(torch.ones(1)), "old_log_probs": nested(torch.zeros(TOKENS))}
    data["prefix_length"] = torch.tensor([0])
    output = {"log_probs": nested(torch.zeros(TOKENS + 1)), "entropy": nested(entropies)}
    with torch.autocast("cpu", dtype=torch.bfloat16):  # verl computes the loss in it
        _, metrics = update_loss(made("on_policy"), output, data, [TOKENS], [0], limit=TOKENS)
    return float(metrics["entropy_loss"].aggregate())


def test_entropies_of_the_fused_head_are_summed_in_single_precision() -> None:
    """A bfloat16 sum of 600 of them moves in steps of 4."""
    assert entropy_loss(ENTROPIES) == pytest.approx(float(ENTROPIES[:-1].double().mean()), rel=1e-6)


@pytest.mark.parametrize("mode", LOSS_AGG_MODES)
def test_autocast_changes_no_sum(mode: str) -> None:
    mask = torch.arange(8 * 500).reshape(8, 500) % 7 > 1
    losses, tokens = torch.linspace(-1e-3, 2e-3, 4000).reshape(8, 500), int(mask.sum())
    size = BatchSize(tokens, 8, tokens, 8, 500)
    plain = [reduce(losses, mask, mode, size) for reduce in (agg_loss, agg_mean)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert [reduce(losses, mask, mode, size) for reduce in (agg_loss, agg_mean)] == plain


def test_the_noise_of_the_fused_head_is_below_the_alarm() -> None:
    """Half precision moves a log-probability by 0.015 in the mean, and a difference of 0.05 is taken for a fault."""
    torch.manual_seed(0)
    hidden = torch.randn(256, 256).bfloat16().float()
    head = (torch.randn(4096, 256) / 4).bfloat16().float()  # logits with a deviation of 4
    tokens = torch.distributions.Categorical(logits=hidden @ head.T).sample()

    def fused(dtype: torch.dtype) -> list[Tensor]:
        leaves = [tensor.to(dtype).clone().requires_grad_() for tensor in (hidden, head)]
        log_probs, entropies = FusedLinearForPPO()(*leaves, tokens)
        (log_probs.sum() / len(tokens)).backward()
        return [log_probs.detach(), entropies.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]

    exact, half = fused(torch.float32), [value.float() for value in fused(torch.bfloat16)]
    assert 0.003 < (half[0] - exact[0]).abs().mean() < 0.02
    assert (half[1] - exact[1]).abs().mean() < 0.02
    assert all((a - b).norm() < 0.02 * b.norm() for a, b in zip(half[2:], exact[2:], strict=True))
