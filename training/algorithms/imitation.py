"""The supervised loss with the weights of its tokens (SFT, DFT, CHORD-phi), and its weight over the steps (CHORD-mu).

The method ``sft`` minimises it, others add it to the policy loss, and the embedded base model was made with it.
"""

import math
from typing import Annotated, Literal, Self

from jaxtyping import Float, Shaped
from pydantic import Field, model_validator

from training.algorithms.off_policy import GAMMA
from training.algorithms.options import NotNegative, Options, Positive, contradiction
from training.algorithms.tensors import working_precision
from training.later import Tensor, torch

Weight = Literal["one", "p", "p(1-p)", "luffy"]  # of a token, by its probability


class ImitationLoss(Options):
    """A supervised loss on the tokens of targets, and its coefficient over the steps."""

    coef: Positive = 0.1  # of the loss, or the highest of its schedule
    weight: Weight = "one"
    warmup_steps: Annotated[int, Field(ge=0)] = 0  # steps from 0 to coef
    decay_steps: Annotated[int, Field(ge=0)] = 0  # steps from coef to valley; 0: it stays coef
    valley: NotNegative = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.valley and not self.decay_steps:
            keys = "imitation.valley", "imitation.decay_steps"
            raise contradiction(keys[0], self.valley, keys[1], 0, "the coefficient never falls to it")
        return self


def sft_token_loss(
    log_prob: Float[Tensor, "batch length"], mask: Shaped[Tensor, "batch length"], weight: Weight = "one"
) -> Float[Tensor, "batch length"]:
    """Return ``-w log_prob`` at the tokens of ``mask``, 0 elsewhere, before any averaging; `sft_weight` has the ``w``.

    >>> sft_token_loss(torch.tensor([[-1.0, -2.0], [-6.0, -9.0]]), torch.tensor([[1, 1], [1, 0]]))
    tensor([[1., 2.],
            [6., 0.]])

    The trainer divides by the number of these tokens in the whole batch, with ``agg_loss(..., "token-mean", ...)``.

    Args:
        mask: bool or 0/1.
    """
    log_prob, mask = working_precision(log_prob), mask.bool()
    losses = torch.where(mask, -log_prob, 0.0)
    return losses if weight == "one" else losses * sft_weight(torch.where(mask, log_prob, 0.0), weight)


def sft_weight(log_prob: Float[Tensor, "..."], name: Weight) -> Float[Tensor, "..."]:
    """Return the factor ``w(p)`` of ``-log p`` at each token, without gradient.

    The gradient of ``-w log p`` by ``log p`` is ``-w``, so methods differ only in ``w``:

    ============  =================================================================================
    ``one``       1: supervised fine-tuning
    ``p``         p: DFT (arXiv 2508.05629, equation 9), and unshaped off-policy RL with A = 1
    ``p(1-p)``    p (1 - p): CHORD-phi (arXiv 2508.11408), the tokens of which the policy is unsure
    ``luffy``     0.1 p / (p + 0.1)^2: LUFFY's shaping with A = 1 (arXiv 2504.14945, equation 8)
    ============  =================================================================================

    >>> log_prob = torch.tensor([0.1, 0.5, 0.9]).log()
    >>> sft_weight(log_prob, "p(1-p)")
    tensor([0.0900, 0.2500, 0.0900])
    >>> sft_weight(log_prob, "luffy")
    tensor([0.2500, 0.1389, 0.0900])
    """
    log_prob = log_prob.detach()
    match name:
        case "one":
            return torch.ones_like(log_prob)
        case "p":
            return log_prob.exp()
        case "p(1-p)":
            return log_prob.exp() * -torch.expm1(log_prob)
        case "luffy":
            logit = log_prob - math.log(GAMMA)
            return torch.sigmoid(logit) * torch.sigmoid(-logit)


def sft_coefficient(options: ImitationLoss, step: int) -> float:
    """Return the weight of the supervised loss at a step: ``coef``, or mu of CHORD (arXiv 2508.11408, section 4.1).

    It rises from 0 to ``coef`` over ``warmup_steps``, falls along half a cosine to ``valley`` over the following
    ``decay_steps``, and stays there. Without ``decay_steps`` it stays ``coef``.

    >>> chord = ImitationLoss(coef=0.9, valley=0.1, warmup_steps=2, decay_steps=4)
    >>> [round(sft_coefficient(chord, step), 3) for step in range(8)]
    [0.0, 0.45, 0.9, 0.783, 0.5, 0.217, 0.1, 0.1]

    Args:
        step: counted from 0.
    """
    if step < options.warmup_steps:
        return options.coef * step / options.warmup_steps
    if not options.decay_steps:
        return options.coef
    progress = min((step - options.warmup_steps) / options.decay_steps, 1.0)
    return options.valley + (options.coef - options.valley) * 0.5 * (1.0 + math.cos(math.pi * progress))
