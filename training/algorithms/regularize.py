"""What holds a policy: its entropy and its distance from a reference policy. Plain floats, no torch.

The adaptive coefficient of the entropy follows the entropy as the temperature of soft actor-critic does (arXiv
1812.05905, section 5): gradient descent on ``log(coefficient) * (entropy - target)``, so it rises while the policy's
entropy is below the target.
"""

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from training.algorithms.options import NotNegative, Options, Positive, contradiction

# verl's estimators of a divergence, token by token.
Estimator = Literal[
    "kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3", "kl+", "k1+", "abs+", "mse+", "k2+", "low_var_kl+", "k3+"
]


class ConstantEntropy(Options):
    """The entropy bonus of a loss, in nats per token."""

    type: Literal["constant"] = "constant"
    coef: float = 0.001


class AdaptiveEntropy(Options):
    """An entropy bonus with a coefficient that follows the entropy, between ``min`` and ``max``."""

    type: Literal["adaptive"] = "adaptive"
    coef: Positive = 0.001  # in the first step
    target: NotNegative = 0.5  # nats per token
    lr: Positive = 0.05  # change of log(coefficient) per step and nat of difference
    min: Positive = 1e-5
    max: Positive = 0.1

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min > self.max:
            raise contradiction("entropy.min", self.min, "entropy.max", self.max, "the minimum is above the maximum")
        return self


AnyEntropy = Annotated[ConstantEntropy | AdaptiveEntropy, Field(discriminator="type")]


class ReferenceKL(Options):
    """The divergence from the reference policy as a term of the loss."""

    coef: NotNegative = 0.001
    type: Estimator = "low_var_kl"


class FixedRewardKL(Options):
    """The divergence from the reference policy as a part of the reward, token by token."""

    type: Literal["fixed"] = "fixed"
    coef: NotNegative = 0.001
    estimator: Estimator = "kl"


class AdaptiveRewardKL(FixedRewardKL):
    """The same with a coefficient that follows the divergence (arXiv 1909.08593, section 2.2)."""

    type: Literal["adaptive"] = "adaptive"  # pyright: ignore[reportIncompatibleVariableOverride]
    target: Positive = 0.1
    horizon: Annotated[int, Field(ge=1)] = 10000


def _type_of(value: Any) -> str:
    """Return the type of the reward's divergence, which may be left out."""
    return value.get("type", "fixed") if isinstance(value, dict) else getattr(value, "type", "fixed")


AnyRewardKL = Annotated[
    Annotated[FixedRewardKL, Tag("fixed")] | Annotated[AdaptiveRewardKL, Tag("adaptive")], Discriminator(_type_of)
]


def next_entropy_coefficient(coefficient: float, entropy: float, options: AdaptiveEntropy) -> float:
    """Return the coefficient of the next step: ``c exp(-lr (H - target))``, held within ``[options.min, options.max]``.

    >>> round(next_entropy_coefficient(0.01, 0.3, AdaptiveEntropy(target=0.5, lr=0.5)), 4)  # 0.01 exp(0.1)
    0.0111

    Args:
        coefficient: ``c`` of this step, positive.
        entropy: ``H``, the mean token entropy of this step in nats.

    Raises:
        ValueError: ``coefficient`` is not positive or ``entropy`` not finite.
    """
    if not coefficient > 0:
        raise ValueError(f"coefficient: expected a positive number, got {coefficient}")
    if not math.isfinite(entropy):
        raise ValueError(f"entropy: expected a finite number of nats, got {entropy}")
    moved = math.log(coefficient) - options.lr * (entropy - options.target)
    return math.exp(min(max(moved, math.log(options.min)), math.log(options.max)))
