"""What the comparison draws of shaping is what the loss differentiates."""

import pytest
import torch

from research.figures import gradient_weight
from training.algorithms.options import LossOptions
from training.algorithms.reshape import shape_off_policy


@pytest.mark.parametrize(("reshape", "gamma"), [("no_reshape", None), ("p_div_p_0.1", 0.1), ("p_div_p_0.5", 0.5)])
@pytest.mark.parametrize("logit", [-6.0, -1.0, 0.0, 3.0])
def test_the_drawn_weight_is_the_gradient_by_the_logit(reshape: str, gamma: float | None, logit: float) -> None:
    logits = torch.tensor([logit, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    log_prob = torch.log_softmax(logits, 0)[0]
    shape_off_policy(log_prob, LossOptions(off_policy_reshape=reshape)).backward()
    assert logits.grad is not None
    assert float(logits.grad[0]) == pytest.approx(gradient_weight(float(log_prob.detach().exp()), gamma))
