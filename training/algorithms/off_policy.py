"""The ratio of off-policy tokens, and policy shaping: transform a ratio before it multiplies the advantage.

``f`` of arXiv 2504.14945, equation 5, replaces the importance ratio of off-policy tokens, so that rare tokens get a
larger gradient. Everything is computed from log-probabilities, where ``p / (p + gamma)`` is a sigmoid, so that values
and gradients stay finite at any of them: an exponent stops at ``EXPONENT_LIMIT``.
"""

import math
from typing import Annotated, Literal, Self

from jaxtyping import Bool, Float
from pydantic import Field, model_validator

from training.algorithms.options import NotNegative, Options, Positive, contradiction
from training.algorithms.tensors import working_precision
from training.later import Tensor, torch

GAMMA = 0.1  # of the shaping p / (p + gamma), as LUFFY publishes it
EXPONENT_LIMIT = 20.0  # as verl bounds a log-ratio: exp(20) = 4.9e8, whose square and whose sum over a batch are finite


def bounded_exp(exponent: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return ``exp(min(exponent, EXPONENT_LIMIT))``: finite, with a zero gradient beyond the limit."""
    return torch.exp(exponent.clamp(max=EXPONENT_LIMIT))


class Reshape(Options):
    """A shaping function ``f``; without another one, of a ratio as it is.

    ================ ==========================================================================================
    ``no_reshape``   ``p``
    ``logp``         ``weight log p``
    ``p_logp``       ``p + weight log p``
    ``square_root``  ``sqrt(p)``
    ``pow``          ``p ** exponent``
    ``p_div_p``      ``p / (p + gamma)``, with equation 8 as derivative by the logit
    ``trust_region`` ``p / max(sg(p), alpha)``: log p has the weight ``min(p / alpha, 1)`` (TRAPO, arXiv 2512.17636)
    ================ ==========================================================================================

    >>> PDivP(gamma=0.1).shape(torch.tensor([0.1, 0.9]).log())
    tensor([0.5000, 0.9000])
    """

    def shape(self, log_ratio: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``f(p / phi)`` of off-policy tokens: arXiv 2504.14945, equation 5.

        Args:
            log_ratio: ``log(p / phi)`` in float32 or float64. With the paper's ``phi = 1`` this is ``log_prob``.
        """
        return bounded_exp(log_ratio)

    def shape_ratio(self, log_prob: Float[Tensor, "..."], old_log_prob: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return the shaped PPO ratio of on-policy tokens, of ``exp(log_prob - old_log_prob)`` in the place of ``p``.

        ``p_div_p`` is the ratio of the shaped probabilities, ``[p / (p + gamma)] / [p0 / (p0 + gamma)]``.

        >>> p, p0 = torch.tensor([0.3]).log(), torch.tensor([0.1]).log()
        >>> NoReshape().shape_ratio(p, p0), PDivP(gamma=0.1).shape_ratio(p, p0)
        (tensor([3.]), tensor([1.5000]))
        """
        return self.shape(log_prob - old_log_prob)


class NoReshape(Reshape):
    type: Literal["no_reshape"] = "no_reshape"


class LogP(Reshape):
    type: Literal["logp"] = "logp"
    weight: NotNegative = 1.0

    def shape(self, log_ratio: Tensor) -> Tensor:
        return self.weight * log_ratio


class PLogP(Reshape):
    type: Literal["p_logp"] = "p_logp"
    weight: NotNegative = 1.0

    def shape(self, log_ratio: Tensor) -> Tensor:
        return bounded_exp(log_ratio) + self.weight * log_ratio


class SquareRoot(Reshape):
    type: Literal["square_root"] = "square_root"

    def shape(self, log_ratio: Tensor) -> Tensor:
        return bounded_exp(0.5 * log_ratio)


class Power(Reshape):
    type: Literal["pow"] = "pow"
    exponent: Positive = 0.5

    def shape(self, log_ratio: Tensor) -> Tensor:
        return bounded_exp(self.exponent * log_ratio)


class PDivP(Reshape):
    type: Literal["p_div_p"] = "p_div_p"
    gamma: Positive = GAMMA

    def shape(self, log_ratio: Tensor) -> Tensor:
        return torch.sigmoid(log_ratio - math.log(self.gamma))

    def shape_ratio(self, log_prob: Tensor, old_log_prob: Tensor) -> Tensor:
        shift = math.log(self.gamma)
        logsigmoid = torch.nn.functional.logsigmoid
        return bounded_exp(logsigmoid(log_prob - shift) - logsigmoid(old_log_prob - shift))


class TrustRegion(Reshape):
    """A likelihood, but for tokens that the policy would hardly say.

    >>> log_prob = torch.tensor([0.05, 0.5]).log().requires_grad_()
    >>> ratio = TrustRegion(alpha=0.1).shape(log_prob)
    >>> ratio.sum().backward()
    >>> ratio.detach(), log_prob.grad
    (tensor([0.5000, 1.0000]), tensor([0.5000, 1.0000]))
    """

    type: Literal["trust_region"] = "trust_region"
    alpha: Positive = 0.1

    def shape(self, log_ratio: Tensor) -> Tensor:
        ratio = bounded_exp(log_ratio)
        return ratio / ratio.detach().clamp(min=self.alpha)


AnyReshape = Annotated[NoReshape | LogP | PLogP | SquareRoot | Power | PDivP | TrustRegion, Field(discriminator="type")]


class OffPolicyRatio(Options):
    """The ratio ``f`` that multiplies the advantage of off-policy tokens: shaped, and held between two bounds.

    >>> shaped = OffPolicyRatio(reshape=PDivP(gamma=0.1), max=0.8)
    >>> shaped.ratio(torch.tensor([0.1, 0.9]).log(), None, torch.tensor([True, True]))
    tensor([0.5000, 0.8000])
    """

    reshape: AnyReshape = NoReshape()
    max: Positive | None = None
    min: float | None = None
    phi: Literal["one", "recorded"] = "one"  # recorded: the probability under the policy that wrote the token
    epsilon: NotNegative = 1e-6  # what is added to a recorded phi (arXiv 2504.14945, equation 5)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise contradiction("off_policy.min", self.min, "off_policy.max", self.max, "the minimum is above it")
        return self

    def ratio(
        self,
        log_prob: Float[Tensor, "..."],
        phi: Float[Tensor, "..."] | None,
        off_policy: Bool[Tensor, "..."],
    ) -> Float[Tensor, "..."]:
        """Return ``f``, of ``p / (phi + epsilon)``.

        Args:
            phi: negative where unknown, which means 1; None for the paper's phi = 1.
            off_policy: the tokens that have a phi.
        """
        log_ratio = log_prob
        if phi is not None:
            known = off_policy & (phi >= 0)
            probs = torch.where(known, working_precision(phi), 1.0) + self.epsilon
            log_ratio = log_prob - torch.log(probs.clamp(min=torch.finfo(probs.dtype).tiny))
        ratio = self.reshape.shape(log_ratio)
        if self.max is not None:
            ratio = ratio.clamp(max=self.max)
        return ratio if self.min is None else ratio.clamp(min=self.min)
