"""Rollout correction: compare the rollout engine's log-probabilities with the actor's.

vLLM samples a token with one probability and the actor recomputes another. ``w = exp(old_log_prob - rollout_log_prob)``
is their ratio; each type decides which tokens to keep and how to weigh their loss. Only the loss is scaled: the PPO
ratio and its gradient are untouched, and rejected tokens stay in every denominator.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Literal, Self

from jaxtyping import Bool, Float, Shaped
from pydantic import Field, model_validator

from training.algorithms.off_policy import EXPONENT_LIMIT, bounded_exp
from training.algorithms.options import NotNegative, Options, contradiction
from training.algorithms.tensors import as_mask, require_floating, require_matrix, require_shape, working_precision
from training.later import Tensor, torch

QUANTILES = (0.05, 0.5, 0.95)
# Quantiles come from at most this many evenly spaced tokens: sorting all of them costs more than a loss.
QUANTILE_TOKENS = 16384

Weights = tuple[Float[Tensor, "batch length"], Bool[Tensor, "batch length"]]


class Uncorrected(Options):
    """No correction: all weights are 1."""

    type: Literal["none"] = "none"


class Correction(Options):
    """How the mismatch of the rollout engine and the actor is corrected; `rollout_correction` has the types."""

    type: Literal["tis", "icepop", "seq-mask-tis", "reinforce_pro", "geo-mask", "seq-tis", "seq-mis"]
    low: NotNegative = 0.5  # lower end of the band in which a ratio is kept or to which it is clamped
    high: NotNegative = 5.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low > self.high:
            raise contradiction("correction.low", self.low, "correction.high", self.high, "the band is empty")
        return self


class NegativeMask(Options):
    """A wrong response that the policy would hardly sample any more is no part of the loss; `keeps_negative`."""

    type: Literal["negative-mask"] = "negative-mask"
    negative_kl: NotNegative


AnyCorrection = Annotated[Uncorrected | Correction | NegativeMask, Field(discriminator="type")]


class Mismatch:
    """``log w`` of a batch, 0 outside the ``on_policy`` tokens (valid and not off-policy), and derived values."""

    def __init__(self, log_ratio: Float[Tensor, "batch length"], on_policy: Bool[Tensor, "batch length"]) -> None:
        self.log_ratio = log_ratio
        self.on_policy = on_policy

    @cached_property
    def ratio(self) -> Float[Tensor, "batch length"]:
        """``w``, which stops at ``exp(EXPONENT_LIMIT)``."""
        return bounded_exp(self.log_ratio)

    @cached_property
    def sequence_ratio(self) -> Float[Tensor, "batch 1"]:
        """``W``: the product of ``w`` over the row's on-policy tokens."""
        return bounded_exp(self.log_ratio.sum(dim=-1, keepdim=True))

    @cached_property
    def sequence_mean(self) -> Float[Tensor, "batch 1"]:
        """Geometric mean of ``w`` over the row's on-policy tokens; 1 for a row without any."""
        tokens = self.on_policy.sum(dim=-1, keepdim=True).clamp(min=1)
        return bounded_exp(self.log_ratio.sum(dim=-1, keepdim=True) / tokens)

    @cached_property
    def prefix_is(self) -> Float[Tensor, "batch length"]:
        """Geometric mean of ``w`` over the on-policy tokens up to each position: ``exp(cumsum(log w) / cumsum(1))``.

        It is 1 before the first on-policy token and stays as it is at tokens that do not count.
        """
        positions = self.on_policy.cumsum(dim=-1, dtype=torch.int32).clamp_(min=1)
        return bounded_exp(self.log_ratio.cumsum(dim=-1).div_(positions))


def rollout_correction(
    old_log_prob: Float[Tensor, "batch length"],
    rollout_log_prob: Float[Tensor, "batch length"],
    response_mask: Shaped[Tensor, "batch length"],
    off_policy_mask: Shaped[Tensor, "batch length"] | None,
    options: AnyCorrection,
) -> tuple[Float[Tensor, "batch length"], Bool[Tensor, "batch length"], dict[str, float]]:
    """Return weights for the token losses, the tokens kept, and the metrics of a step.

    ================= ============================================================================== ==================
    type              keeps a token when                                                             weight
    ================= ============================================================================== ==================
    ``none``          always                                                                         1
    ``tis``           always                                                                         clamp(w, low, high)
    ``icepop``        ``low <= w <= high``                                                           w
    ``seq-mask-tis``  ``low <= exp(mean of log w over the row) <= high``                             w
    ``reinforce_pro`` ``low <= exp(mean of log w up to the token) <= high`` (`Mismatch.prefix_is`)   w
    ``geo-mask``      ``low <= exp(mean of log w over the row) <= high``                             1
    ``seq-tis``       always                                                                         clamp(W, low, high)
    ``seq-mis``       ``low <= W <= high``                                                           W
    ``negative-mask`` always: the loss has it, as it depends on the policy that is being updated     1
    ================= ============================================================================== ==================

    ``W = exp(sum of log w over the row)`` is the ratio of the whole response. Off-policy tokens have no rollout
    probability: they are outside every mean and sum and keep weight 1.

    >>> old = torch.tensor([[0.8, 0.9], [0.1, 0.6]]).log()  # of the actor
    >>> rollout = torch.tensor([[0.8, 0.1], [0.4, 0.3]]).log()  # of vLLM: w is [[1, 9], [0.25, 2]]
    >>> options = Correction(type="reinforce_pro")  # the means up to each token: [[1, 3], [0.25, 0.71]]
    >>> rollout_correction(old, rollout, torch.ones(2, 2), None, options)[0]
    tensor([[1.0000, 9.0000],
            [0.0000, 2.0000]])
    >>> rollout_correction(old, rollout, torch.ones(2, 2), None, Correction(type="icepop"))[0]
    tensor([[1.0000, 0.0000],
            [0.0000, 2.0000]])
    >>> rollout_correction(old, rollout, torch.ones(2, 2), None, Correction(type="seq-tis"))[0]
    tensor([[5.0000, 5.0000],
            [0.5000, 0.5000]])

    Args:
        old_log_prob, rollout_log_prob: Log-probabilities of the actor and of the rollout engine.
        response_mask: bool or 0/1, valid tokens.
        off_policy_mask: bool or 0/1; None for none.

    Returns:
        ``weights`` (float32 or float64, detached; 0 where not kept, so that ``losses * weights`` is the corrected
        loss) and ``keep``; ``metrics`` of `correction_metrics`.

    Raises:
        TypeError: log-probabilities that are not floating point.
        ValueError: another shape.
    """
    with torch.no_grad():
        mismatch = measure_mismatch(old_log_prob, rollout_log_prob, response_mask, off_policy_mask)
        weights, keep = (
            CORRECTIONS[options.type](mismatch, options) if isinstance(options, Correction) else keep_all(mismatch)
        )
        weights = torch.where(keep, weights, 0.0)
        return weights, keep, correction_metrics(mismatch, keep)


def measure_mismatch(
    old_log_prob: Float[Tensor, "batch length"],
    rollout_log_prob: Float[Tensor, "batch length"],
    response_mask: Shaped[Tensor, "batch length"],
    off_policy_mask: Shaped[Tensor, "batch length"] | None = None,
) -> Mismatch:
    """Return the `Mismatch` of a batch; arguments and errors are those of `rollout_correction`."""
    shape = require_floating("old_log_prob", old_log_prob).shape
    require_matrix("old_log_prob", old_log_prob)
    rollout_log_prob = require_floating("rollout_log_prob", rollout_log_prob)
    require_shape("rollout_log_prob", rollout_log_prob, shape, "old_log_prob")
    on_policy = as_mask("response_mask", response_mask)
    require_shape("response_mask", on_policy, shape, "old_log_prob")
    if off_policy_mask is not None:
        off_policy = as_mask("off_policy_mask", off_policy_mask)
        require_shape("off_policy_mask", off_policy, shape, "old_log_prob")
        on_policy = on_policy & ~off_policy
    log_ratio = working_precision(old_log_prob) - working_precision(rollout_log_prob)
    return Mismatch(torch.where(on_policy, log_ratio, 0.0), on_policy)


def keeps_negative(
    log_prob: Float[Tensor, "batch length"],
    rollout_log_prob: Float[Tensor, "batch length"],
    advantages: Float[Tensor, "batch length"],
    on_policy: Bool[Tensor, "batch length"],
    negative_kl: float,
) -> Bool[Tensor, "batch length"]:
    """Return the tokens that DeepSeek-V3.2's mask of off-policy sequences keeps (TRL, ``get_off_policy_mask``).

    A row with ``A < 0`` is dropped if the mean of ``log p_rollout - log p`` over its on-policy tokens, for the policy
    that is being updated, is above ``negative_kl``.

    >>> rollout, log_prob, row = torch.zeros(3, 1), torch.tensor([[-0.5], [-0.5], [-0.05]]), torch.ones(3, 1)
    >>> advantages = torch.tensor([[1.0], [-1.0], [-1.0]])
    >>> keeps_negative(log_prob, rollout, advantages, row.bool(), 0.2).flatten()
    tensor([ True, False,  True])
    """
    moved = torch.where(on_policy, rollout_log_prob - log_prob.detach(), 0.0).sum(dim=-1, keepdim=True)
    moved = moved / on_policy.sum(dim=-1, keepdim=True).clamp(min=1)
    return (advantages >= 0) | (moved <= negative_kl) | ~on_policy


def keep_all(mismatch: Mismatch) -> Weights:
    return torch.ones_like(mismatch.log_ratio), torch.ones_like(mismatch.on_policy)


def tis(mismatch: Mismatch, options: Correction) -> Weights:
    # Tokens that are not on-policy keep weight 1 even when the band excludes 1.
    weights = torch.where(mismatch.on_policy, mismatch.ratio.clamp(options.low, options.high), 1.0)
    return weights, torch.ones_like(mismatch.on_policy)


def icepop(mismatch: Mismatch, options: Correction) -> Weights:
    return _keep_in_band(mismatch.ratio, mismatch, options)


def seq_mask_tis(mismatch: Mismatch, options: Correction) -> Weights:
    return _keep_in_band(mismatch.sequence_mean, mismatch, options)


def geo_mask(mismatch: Mismatch, options: Correction) -> Weights:
    _, keep = _keep_in_band(mismatch.sequence_mean, mismatch, options)
    return keep.to(mismatch.log_ratio.dtype), keep


def seq_tis(mismatch: Mismatch, options: Correction) -> Weights:
    weights = torch.where(mismatch.on_policy, mismatch.sequence_ratio.clamp(options.low, options.high), 1.0)
    return weights, torch.ones_like(mismatch.on_policy)


def seq_mis(mismatch: Mismatch, options: Correction) -> Weights:
    _, keep = _keep_in_band(mismatch.sequence_ratio, mismatch, options)
    return torch.where(mismatch.on_policy, mismatch.sequence_ratio, 1.0) * keep, keep


def reinforce_pro(mismatch: Mismatch, options: Correction) -> Weights:
    return _keep_in_band(mismatch.prefix_is, mismatch, options)


def _keep_in_band(criterion: Tensor, mismatch: Mismatch, options: Correction) -> Weights:
    """Return the weight ``w`` where ``criterion`` (broadcast over the tokens) is within the band, 0 elsewhere."""
    keep = ((criterion >= options.low) & (criterion <= options.high)) | ~mismatch.on_policy
    return torch.where(keep, mismatch.ratio, 0.0), keep


CORRECTIONS: Mapping[str, Callable[[Mismatch, Correction], Weights]] = {
    "tis": tis,
    "icepop": icepop,
    "seq-mask-tis": seq_mask_tis,
    "reinforce_pro": reinforce_pro,
    "geo-mask": geo_mask,
    "seq-tis": seq_tis,
    "seq-mis": seq_mis,
}


def correction_metrics(mismatch: Mismatch, keep: Bool[Tensor, "batch length"]) -> dict[str, float]:
    """Return metrics over the on-policy tokens of a whole step; zeros (ratios and shares: ones) if there are none.

    - ``kept_share``; ``rejected_rows``: share of rows with a rejected token; ``first_rejected_position``: mean index
      in the response of their first one, -1 when no row has one
    - ``abs_log_ratio_mean`` and ``abs_log_ratio_max``
    - ``kl``: the mean of ``-log w``, an estimate of the divergence KL(rollout engine || actor) that can be negative;
      ``k3_kl``: the mean of ``w - 1 - log w``, an estimate of the same that cannot
    - ``ess``: the effective sample size ``(sum of w)^2 / (tokens x sum of w^2)``, between 0 and 1
    - ``prefix_is_p05``, ``_p50``, ``_p95``, from at most ``QUANTILE_TOKENS`` evenly spaced tokens
    """
    on_policy, log_ratio = mismatch.on_policy, mismatch.log_ratio
    magnitude = log_ratio.abs()
    tokens, rows = on_policy.sum(), on_policy.any(dim=-1).sum()
    rejected = on_policy & ~keep
    row_rejected = rejected.any(dim=-1)
    rejected_rows = row_rejected.sum()
    # argmax of a bool row: the index of its first True.
    first = rejected.to(torch.uint8).argmax(dim=-1) if rejected.shape[-1] else tokens
    sample = mismatch.prefix_is[on_policy]
    sample = sample[:: max(1, -(-sample.numel() // QUANTILE_TOKENS))]
    at = torch.tensor(QUANTILES, dtype=sample.dtype, device=sample.device)
    metrics = {
        "kept_share": 1.0 - rejected.sum() / tokens.clamp(min=1),
        "abs_log_ratio_mean": magnitude.sum() / tokens.clamp(min=1),
        "kl": -log_ratio.sum() / tokens.clamp(min=1),
        "k3_kl": (torch.expm1(log_ratio.clamp(max=EXPONENT_LIMIT)) - log_ratio).sum() / tokens.clamp(min=1),
        "ess": _effective_sample_share(log_ratio, on_policy),
        "abs_log_ratio_max": magnitude.amax() if magnitude.numel() else magnitude.new_zeros(()),
        "rejected_rows": rejected_rows / rows.clamp(min=1),
        "first_rejected_position": torch.where(
            rejected_rows > 0, (first * row_rejected).sum() / rejected_rows.clamp(min=1), -1.0
        ),
    }
    quantiles = torch.quantile(sample, at) if sample.numel() else torch.ones_like(at)
    metrics |= {f"prefix_is_p{round(100 * q):02d}": value for q, value in zip(QUANTILES, quantiles, strict=True)}
    return dict(zip(metrics, torch.stack(list(metrics.values())).tolist(), strict=True))


def _effective_sample_share(log_ratio: Tensor, on_policy: Tensor) -> Tensor:
    if not on_policy.any():
        return log_ratio.new_ones(())
    # Relative to the largest ratio, which cancels out: the squares of small ratios would be 0.
    ratio = torch.where(on_policy, torch.exp(log_ratio - log_ratio[on_policy].amax()), 0.0)
    return ratio.sum().square() / (on_policy.sum() * ratio.square().sum())
