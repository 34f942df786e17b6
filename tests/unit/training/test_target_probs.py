"""The teacher's log-probabilities, from a row of the targets to the loss."""

from typing import Any

import pytest
import torch
from updates import update_loss

from training.algorithms.aggregate import Reduce
from training.algorithms.off_policy import NoReshape, OffPolicyRatio, PDivP, Reshape
from training.methods.luffy import Luffy
from training.verl_hooks.agent_loop import OffPolicyOutput

PHI = (0.5, 1e-6)  # the teacher's probabilities of two off-policy tokens
P = (0.4, 2e-6)  # the policy's


def nested(*rows: Any) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.as_tensor(row) for row in rows], layout=torch.jagged)


def policy_loss(**off: Any) -> tuple[float, torch.Tensor]:
    """The sum of the token losses of two off-policy tokens (A = 1) and an on-policy one (A = 0), and its gradient."""
    data = {
        "prompts": nested([5], [5]),
        "responses": nested([7, 8], [9]),
        "response_mask": nested([1, 1], [1]),
        "old_log_probs": nested([-1.0, -1.0], [-1.0]),
        "advantages": nested([1.0, 1.0], [0.0]),
        "rollout_is_weights": nested([1.0, 1.0], [1.0]),
        "prefix_length": torch.tensor([2, 0]),
        "phi": nested(torch.tensor(PHI).log(), [0.0]),
    }
    log_prob = torch.tensor([*P, 1.0, 0.3, 1.0]).log().requires_grad_()
    output = {"log_probs": torch.nested.nested_tensor_from_jagged(log_prob, torch.tensor([0, 3, 5]))}
    ratio = OffPolicyRatio(**off)
    if ratio.phi == "one":
        del data["phi"]
    method = Luffy(off_policy=ratio, reduce=Reduce(type="token-mean"))
    loss, _ = update_loss(method, output, data, [2, 1], [2, 0], limit=2, batch_num_tokens=1)
    loss.backward()
    assert log_prob.grad is not None
    return loss.item(), log_prob.grad[:2]


@pytest.mark.parametrize("reshape", [NoReshape(), PDivP()])
def test_the_ratio_to_the_teacher_is_shaped(reshape: Reshape) -> None:
    ratios = torch.tensor(P, dtype=torch.float64).requires_grad_()
    ratio = ratios / (torch.tensor(PHI, dtype=torch.float64) + 1e-6)
    shaped = ratio if isinstance(reshape, NoReshape) else ratio / (ratio + 0.1)
    expected = -shaped.sum()
    (gradient,) = torch.autograd.grad(expected, ratios)
    loss, ours = policy_loss(phi="recorded", reshape=reshape)
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    torch.testing.assert_close(ours, (gradient * torch.tensor(P)).float(), rtol=1e-5, atol=0)  # d/dlog p = p d/dp


def test_a_sample_carries_them_for_its_prefix() -> None:
    fields: dict[str, Any] = {"prompt_ids": [1], "response_ids": [2, 3, 4], "response_mask": [1] * 3, "num_turns": 2}
    fields |= {"metrics": {}, "requests": 1, "versions": [-1, -1, 0]}
    sample = OffPolicyOutput(**fields, prefix_length=2, off_policy_log_probs=[-0.5, -0.25]).as_dict()
    assert sample["off_policy_log_probs"].tolist() == [-0.5, -0.25, 0.0]
    on_policy = OffPolicyOutput(**fields, prefix_length=0, off_policy_log_probs=[]).as_dict()
    assert on_policy["off_policy_log_probs"].tolist() == [0.0] * 3
    assert "off_policy_log_probs" not in OffPolicyOutput(**fields, prefix_length=2).as_dict()
