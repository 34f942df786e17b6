"""What the comparison draws of shaping is what the loss differentiates."""

import pytest
import torch

from research.figures import gradient_weight
from training.algorithms.off_policy import NoReshape, PDivP, Reshape


@pytest.mark.parametrize(("reshape", "gamma"), [(NoReshape(), None), (PDivP(gamma=0.1), 0.1), (PDivP(gamma=0.5), 0.5)])
@pytest.mark.parametrize("logit", [-6.0, -1.0, 0.0, 3.0])
def test_the_drawn_weight_is_the_gradient_by_the_logit(reshape: Reshape, gamma: float | None, logit: float) -> None:
    logits = torch.tensor([logit, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    log_prob = torch.log_softmax(logits, 0)[0]
    reshape.shape(log_prob).backward()
    assert logits.grad is not None
    assert float(logits.grad[0]) == pytest.approx(gradient_weight(float(log_prob.detach().exp()), gamma))
