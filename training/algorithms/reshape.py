"""Policy shaping: what the probability ratio becomes before it multiplies the advantage (paper section 2.3; seed 004).

``f`` of paper eq. 5 replaces the importance ratio of teacher tokens, so that rare tokens get a larger gradient.
Everything is computed from log-probabilities, where ``p / (p + gamma)`` is a sigmoid, so that values and gradients stay
finite at any of them: an exponent stops at ``EXPONENT_LIMIT``.
"""

import math

import torch
from torch.nn.functional import logsigmoid

from training.algorithms.names import Reshape, parse_reshape

EXPONENT_LIMIT = 20.0  # as verl bounds a log-ratio: exp(20) = 4.9e8, whose square and whose sum over a batch are finite

__all__ = ["EXPONENT_LIMIT", "parse_reshape", "shape_off_policy", "shape_on_policy"]


def bounded_exp(exponent: torch.Tensor) -> torch.Tensor:
    """Return ``exp(min(exponent, EXPONENT_LIMIT))``: finite, with a zero gradient beyond the limit."""
    return torch.exp(exponent.clamp(max=EXPONENT_LIMIT))


def shape_off_policy(
    log_ratio: torch.Tensor, reshape: str | Reshape, *, weight: float = 1.0, pow_exp: float = 0.5
) -> torch.Tensor:
    """Shape the ratio of teacher tokens: ``f(p / phi)`` of paper eq. 5, for ``log_ratio = log(p / phi)``.

    ==============  ===================
    ``no_reshape``  ``p``
    ``logp``        ``weight log p``
    ``p_logp``      ``p + weight log p``
    ``square_root`` ``sqrt(p)``
    ``pow``         ``p ** pow_exp``
    ``p_div_p_G``   ``p / (p + G)``, whose derivative by the logit is paper eq. 8
    ==============  ===================

    Args:
        log_ratio: any shape, float32 or float64. With the paper's ``phi = 1`` this is ``log_prob``.
        reshape: a name of the table, where ``G`` is any positive number.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        ValueError: unknown ``reshape``, or ``G <= 0``.
    """
    kind, gamma = parse_reshape(reshape, "off_policy_reshape")
    if kind == "logp":
        return weight * log_ratio
    if kind == "p_logp":
        return bounded_exp(log_ratio) + weight * log_ratio
    if kind == "p_div_p":
        return torch.sigmoid(log_ratio - math.log(gamma))
    return _power(log_ratio, kind, pow_exp)


def shape_on_policy(
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    log_ratio: torch.Tensor,
    reshape: str | Reshape,
    *,
    weight: float = 1.0,
    pow_exp: float = 0.5,
) -> torch.Tensor:
    """Shape the PPO ratio of on-policy tokens: ``r = exp(d)``, for ``d = log_ratio = log_prob - old_log_prob``.

    ==============  ===================
    ``no_reshape``  ``exp(d)``
    ``logp``        ``d`` (the seed gives it no weight)
    ``p_logp``      ``exp(d) + weight d``
    ``square_root`` ``sqrt(exp(d))``
    ``pow``         ``exp(pow_exp d)``
    ``p_div_p_G``   ``[p / (p + G)] / [p0 / (p0 + G)]``
    ==============  ===================

    Args:
        log_prob, old_log_prob, log_ratio: one shape, float32 or float64.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        ValueError: unknown ``reshape``, or ``G <= 0``.
    """
    kind, gamma = parse_reshape(reshape, "on_policy_reshape")
    if kind == "logp":
        return log_ratio
    if kind == "p_logp":
        return bounded_exp(log_ratio) + weight * log_ratio
    if kind == "p_div_p":
        shift = math.log(gamma)
        return bounded_exp(logsigmoid(log_prob - shift) - logsigmoid(old_log_prob - shift))
    return _power(log_ratio, kind, pow_exp)


def _power(log_ratio: torch.Tensor, kind: str, pow_exp: float) -> torch.Tensor:
    if kind == "no_reshape":
        return bounded_exp(log_ratio)
    return bounded_exp((0.5 if kind == "square_root" else pow_exp) * log_ratio)
