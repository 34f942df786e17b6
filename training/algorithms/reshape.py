"""Policy shaping: transform the probability ratio before it multiplies the advantage.

``f`` of arXiv 2504.14945, equation 5, replaces the importance ratio of off-policy tokens, so that rare tokens get a
larger gradient. Everything is computed from log-probabilities, where ``p / (p + gamma)`` is a sigmoid, so that values
and gradients stay finite at any of them: an exponent stops at ``EXPONENT_LIMIT``.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from training.algorithms.options import LossOptions
from training.algorithms.registry import RESHAPES

EXPONENT_LIMIT = 20.0  # as verl bounds a log-ratio: exp(20) = 4.9e8, whose square and whose sum over a batch are finite


class Shape(NamedTuple):
    """The parameters of a shaping function: gamma of ``p_div_p``, the weight of ``logp``, the exponent of ``pow``."""

    gamma: float
    weight: float
    pow_exp: float


def shape_off_policy(log_ratio: Float[Tensor, "..."], options: LossOptions) -> Float[Tensor, "..."]:
    """Shape the ratio of off-policy tokens: ``f(p / phi)`` of arXiv 2504.14945, equation 5.

    ==============  ===================
    ``no_reshape``  ``p``
    ``logp``        ``weight log p``
    ``p_logp``      ``p + weight log p``
    ``square_root`` ``sqrt(p)``
    ``pow``         ``p ** pow_exp``
    ``p_div_p``     ``p / (p + gamma)``, whose derivative by the logit is equation 8
    ==============  ===================

    >>> log_prob = torch.tensor([0.1, 0.9]).log()
    >>> shape_off_policy(log_prob, LossOptions(off_policy_reshape="p_div_p", off_policy_reshape_gamma=0.1))
    tensor([0.5000, 0.9000])

    Args:
        log_ratio: ``log(p / phi)`` in float32 or float64. With the paper's ``phi = 1`` this is ``log_prob``.
    """
    weight, exponent = options.off_policy_reshape_weight, options.off_policy_reshape_pow_exp
    shape = Shape(options.off_policy_reshape_gamma, weight, exponent)
    return RESHAPES.function(options.off_policy_reshape)(log_ratio, shape)


def shape_on_policy(
    log_prob: Float[Tensor, "..."], old_log_prob: Float[Tensor, "..."], options: LossOptions
) -> Float[Tensor, "..."]:
    """Shape the PPO ratio of on-policy tokens, ``exp(d)`` for ``d = log_prob - old_log_prob``.

    The shapes are those of `shape_off_policy`, of ``exp(d)`` in the place of ``p``, with two exceptions: ``logp`` is
    ``d`` whatever the weight, and ``p_div_p`` is the ratio of the shaped probabilities, ``[p / (p + gamma)] / [p0 / (p0
    + gamma)]``.

    >>> p, p0 = torch.tensor([0.3]).log(), torch.tensor([0.1]).log()
    >>> shape_on_policy(p, p0, LossOptions()), shape_on_policy(p, p0, LossOptions(on_policy_reshape="p_div_p"))
    (tensor([3.]), tensor([1.5000]))
    """
    name, gamma = options.on_policy_reshape, options.on_policy_reshape_gamma
    if name == "p_div_p":
        shift = math.log(gamma)
        return bounded_exp(logsigmoid(log_prob - shift) - logsigmoid(old_log_prob - shift))
    weight = 1.0 if name == "logp" else options.on_policy_reshape_weight
    return RESHAPES.function(name)(log_prob - old_log_prob, Shape(gamma, weight, options.on_policy_reshape_pow_exp))


def bounded_exp(exponent: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return ``exp(min(exponent, EXPONENT_LIMIT))``: finite, with a zero gradient beyond the limit."""
    return torch.exp(exponent.clamp(max=EXPONENT_LIMIT))


def no_reshape(log_ratio: Tensor, shape: Shape) -> Tensor:
    return bounded_exp(log_ratio)


def logp(log_ratio: Tensor, shape: Shape) -> Tensor:
    return shape.weight * log_ratio


def p_logp(log_ratio: Tensor, shape: Shape) -> Tensor:
    return bounded_exp(log_ratio) + shape.weight * log_ratio


def square_root(log_ratio: Tensor, shape: Shape) -> Tensor:
    return bounded_exp(0.5 * log_ratio)


def power(log_ratio: Tensor, shape: Shape) -> Tensor:
    return bounded_exp(shape.pow_exp * log_ratio)


def p_div_p(log_ratio: Tensor, shape: Shape) -> Tensor:
    return torch.sigmoid(log_ratio - math.log(shape.gamma))
