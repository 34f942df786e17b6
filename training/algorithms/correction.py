"""Rollout correction: the rollout engine's log-probabilities against the actor's (seed 003, REINFORCE Pro).

vLLM samples a token with one probability, the actor recomputes another. ``w = exp(old_log_prob - rollout_log_prob)``
is their ratio; each type decides which tokens to keep and how to weigh their loss. Only the loss is scaled: the PPO
ratio and its gradient are untouched, and rejected tokens stay in every denominator.
"""

import torch

from training.algorithms.checks import as_mask, require_floating, require_matrix, require_shape, working_precision
from training.algorithms.names import CORRECTIONS, Correction, require_choice
from training.algorithms.reshape import bounded_exp

QUANTILES = (0.05, 0.5, 0.95)
# Quantiles come from at most this many evenly spaced tokens: sorting all of them costs more than a loss.
QUANTILE_TOKENS = 16384


def rollout_correction(
    old_log_prob: torch.Tensor,
    rollout_log_prob: torch.Tensor,
    mask: torch.Tensor,
    prefix_mask: torch.Tensor | None = None,
    type: Correction = "reinforce_pro",
    low: float = 0.5,
    high: float = 5.0,
) -> tuple[torch.Tensor, torch.Tensor, dict[str, float]]:
    """Weights for the token losses, the tokens kept, and the metrics of a step.

    ================= ============================================================================== ==================
    type              keeps a token when                                                             weight
    ================= ============================================================================== ==================
    ``none``          always                                                                         1
    ``tis``           always                                                                         clamp(w, low, high)
    ``icepop``        ``low <= w <= high``                                                           w
    ``seq-mask-tis``  ``low <= exp(mean of log w over the row) <= high``                             w
    ``reinforce_pro`` ``low <= prefix_is <= high`` at that token, see ``prefix_is_ratios``           w
    ================= ============================================================================== ==================

    ``w`` and its means stop at ``exp(EXPONENT_LIMIT)``. Teacher tokens have no rollout probability: they are outside
    every mean and keep weight 1.

    Args:
        old_log_prob, rollout_log_prob: ``[batch, response_length]``, floating point, of the actor and of the engine.
        mask: the same shape, bool or 0/1: valid tokens.
        prefix_mask: the same shape, bool or 0/1: teacher tokens; None for none.
        low, high: the band, ``0 <= low <= high``.

    Returns:
        ``weights`` (float32 or float64, detached; 0 where not kept, so that ``losses * weights`` is the corrected
        loss) and ``keep`` (bool), both ``[batch, response_length]``; ``metrics`` of ``correction_metrics``.

    Raises:
        TypeError: log-probabilities that are not floating point.
        ValueError: another shape, an unknown type, ``low > high`` or ``low < 0``.
    """
    require_choice("rollout_correction.type", type, CORRECTIONS)
    if not 0 <= low <= high:
        raise ValueError(f"rollout_correction.low and .high: expected 0 <= low <= high, got {low} and {high}")
    with torch.no_grad():
        log_ratio, own = _log_ratio(old_log_prob, rollout_log_prob, mask, prefix_mask)
        weights, keep, prefix_is = correction_weights(log_ratio, own, type, low, high)
        prefix_is = _prefix_is(log_ratio, own) if prefix_is is None else prefix_is
        return weights, keep, correction_metrics(log_ratio, own, keep, prefix_is)


def prefix_is_ratios(
    old_log_prob: torch.Tensor,
    rollout_log_prob: torch.Tensor,
    mask: torch.Tensor,
    prefix_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """Geometric mean of ``w`` over the policy's own tokens up to each position (seed 003, section 3).

    ``exp(cumsum(log w) / cumsum(1))``; arguments and errors as in ``rollout_correction``.

    Returns:
        ``[batch, response_length]``; 1 before the first own token, and standing still at tokens that do not count.
    """
    with torch.no_grad():
        return _prefix_is(*_log_ratio(old_log_prob, rollout_log_prob, mask, prefix_mask))


def correction_weights(
    log_ratio: torch.Tensor, own: torch.Tensor, type: Correction, low: float, high: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """``(weights, keep, prefix_is or None)`` from ``log w``, which is 0 where ``own`` (valid, not teacher) is False."""
    prefix_is = None
    if type == "none":
        return torch.ones_like(log_ratio), torch.ones_like(own), None
    if type == "tis":
        # Tokens that are not the policy's own keep weight 1 even when the band excludes 1.
        weights = torch.where(own, bounded_exp(log_ratio).clamp(low, high), 1.0)
        return weights, torch.ones_like(own), None
    weights = bounded_exp(log_ratio)
    if type == "icepop":
        keep = _in_band(weights, low, high)
    elif type == "seq-mask-tis":
        mean = log_ratio.sum(dim=-1, keepdim=True) / own.sum(dim=-1, keepdim=True).clamp(min=1)
        keep = _in_band(bounded_exp(mean), low, high).expand_as(own)
    else:
        prefix_is = _prefix_is(log_ratio, own)
        keep = _in_band(prefix_is, low, high)
    keep = keep | ~own
    return torch.where(keep, weights, 0.0), keep, prefix_is


def correction_metrics(
    log_ratio: torch.Tensor, own: torch.Tensor, keep: torch.Tensor, prefix_is: torch.Tensor
) -> dict[str, float]:
    """Metrics over the ``own`` tokens; zeros (ratios: ones) when there are none.

    ``kept_share``; ``abs_log_ratio_mean`` and ``_max``; ``prefix_is_p05``, ``_p50``, ``_p95`` (from at most
    ``QUANTILE_TOKENS`` evenly spaced tokens); ``rejected_rows``: share of rows with a rejected token;
    ``first_rejected_position``: the mean index in the response of their first one, -1 when no row has one.
    """
    n_own = own.sum()
    magnitude = log_ratio.abs()
    rejected = own & ~keep
    row_rejected = rejected.any(dim=-1)
    # argmax of a bool row: the index of its first True.
    first = rejected.to(torch.uint8).argmax(dim=-1) if rejected.shape[-1] else n_own
    n_rows, n_rejected_rows = own.any(dim=-1).sum(), row_rejected.sum()
    sample = prefix_is[own]
    sample = sample[:: max(1, -(-sample.numel() // QUANTILE_TOKENS))]
    at = torch.tensor(QUANTILES, dtype=sample.dtype, device=sample.device)
    quantiles = torch.quantile(sample, at) if sample.numel() else torch.ones_like(at)
    largest = magnitude.amax() if magnitude.numel() else magnitude.new_zeros(())
    values = torch.stack(
        [
            1.0 - rejected.sum() / n_own.clamp(min=1),
            magnitude.sum() / n_own.clamp(min=1),
            largest,
            *quantiles,
            n_rejected_rows / n_rows.clamp(min=1),
            torch.where(n_rejected_rows > 0, (first * row_rejected).sum() / n_rejected_rows.clamp(min=1), -1.0),
        ]
    ).tolist()
    names = (
        "kept_share",
        "abs_log_ratio_mean",
        "abs_log_ratio_max",
        *(f"prefix_is_p{round(100 * quantile):02d}" for quantile in QUANTILES),
        "rejected_rows",
        "first_rejected_position",
    )
    return dict(zip(names, values, strict=True))


def _log_ratio(
    old_log_prob: torch.Tensor,
    rollout_log_prob: torch.Tensor,
    mask: torch.Tensor,
    prefix_mask: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``log w``, 0 outside the policy's own tokens, and the mask of those."""
    old_log_prob = require_floating("old_log_prob", old_log_prob)
    require_matrix("old_log_prob", old_log_prob)
    require_shape(
        "rollout_log_prob", require_floating("rollout_log_prob", rollout_log_prob), old_log_prob.shape, "old_log_prob"
    )
    own = as_mask("mask", mask)
    require_shape("mask", own, old_log_prob.shape, "old_log_prob")
    if prefix_mask is not None:
        teacher = as_mask("prefix_mask", prefix_mask)
        require_shape("prefix_mask", teacher, old_log_prob.shape, "old_log_prob")
        own = own & ~teacher
    log_ratio = working_precision(old_log_prob) - working_precision(rollout_log_prob)
    return torch.where(own, log_ratio, 0.0), own


def _prefix_is(log_ratio: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    positions = own.cumsum(dim=-1, dtype=torch.int32).clamp_(min=1)
    return bounded_exp(log_ratio.cumsum(dim=-1).div_(positions))


def _in_band(ratio: torch.Tensor, low: float, high: float) -> torch.Tensor:
    return (ratio >= low) & (ratio <= high)
