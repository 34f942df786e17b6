"""Rollout correction: compare the rollout engine's log-probabilities with the actor's.

vLLM samples a token with one probability and the actor recomputes another. ``w = exp(old_log_prob - rollout_log_prob)``
is their ratio; each type decides which tokens to keep and how to weigh their loss. Only the loss is scaled: the PPO
ratio and its gradient are untouched, and rejected tokens stay in every denominator.
"""

from typing import Annotated, Literal, Self, get_args

from jaxtyping import Bool, Float, Shaped
from pydantic import Field, model_validator

from training.algorithms.off_policy import EXPONENT_LIMIT, bounded_exp
from training.algorithms.options import NotNegative, Options, contradiction
from training.algorithms.tensors import working_precision
from training.later import Tensor, torch

QUANTILES = (0.05, 0.5, 0.95)
# Quantiles come from at most this many evenly spaced tokens: sorting all of them costs more than a loss.
QUANTILE_TOKENS = 16384
Kind = Literal["tis", "icepop", "seq-mask-tis", "reinforce_pro", "geo-mask", "seq-tis", "seq-mis"]
CORRECTIONS: tuple[Kind, ...] = get_args(Kind)


class Uncorrected(Options):
    """No correction: all weights are 1."""

    type: Literal["none"] = "none"


class Correction(Options):
    """How the mismatch of the rollout engine and the actor is corrected; `rollout_correction` has the types."""

    type: Kind
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
    ``reinforce_pro`` ``low <= exp(mean of log w up to the token) <= high`` (`prefix_means`)         w
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

    """
    with torch.no_grad():
        on_policy = response_mask.bool()
        if off_policy_mask is not None:
            on_policy = on_policy & ~off_policy_mask.bool()
        log_ratio = working_precision(old_log_prob) - working_precision(rollout_log_prob)
        log_ratio = torch.where(on_policy, log_ratio, 0.0)
        means = prefix_means(log_ratio, on_policy)
        weights, keep = _weights(log_ratio, on_policy, means, options)
        metrics = correction_metrics(log_ratio, on_policy, means, keep, response_mask.bool())
        return torch.where(keep, weights, 0.0), keep, metrics


def prefix_means(
    log_ratio: Float[Tensor, "batch length"], on_policy: Bool[Tensor, "batch length"]
) -> Float[Tensor, "batch length"]:
    """Geometric mean of ``w`` over the on-policy tokens up to each position: ``exp(cumsum(log w) / cumsum(1))``.

    It is 1 before the first on-policy token and stays as it is at tokens that do not count.
    """
    positions = on_policy.cumsum(dim=-1, dtype=torch.int32).clamp_(min=1)
    return bounded_exp(log_ratio.cumsum(dim=-1).div_(positions))


def _weights(log_ratio: Tensor, on_policy: Tensor, means: Tensor, options: AnyCorrection) -> tuple[Tensor, Tensor]:
    """Return the weights of the tokens, and those that are kept. ``log_ratio`` is 0 outside of the on-policy tokens."""
    ones = torch.ones_like(log_ratio)
    if not isinstance(options, Correction):
        return ones, torch.ones_like(on_policy)
    low = options.low
    high = options.high
    total = log_ratio.sum(dim=-1, keepdim=True)
    weights, criterion = bounded_exp(log_ratio), None
    match options.type:
        case "tis":
            weights = weights.clamp(low, high)
        case "icepop":
            criterion = weights
        case "seq-mask-tis" | "geo-mask":
            criterion = bounded_exp(total / on_policy.sum(dim=-1, keepdim=True).clamp(min=1))
            weights = ones if options.type == "geo-mask" else weights
        case "reinforce_pro":
            criterion = means
        case "seq-tis":
            weights = bounded_exp(total).clamp(low, high)
        case "seq-mis":
            weights = criterion = bounded_exp(total)
    weights = torch.where(on_policy, weights, 1.0)  # also where the band excludes 1
    if criterion is None:
        return weights, torch.ones_like(on_policy)
    return weights, ((criterion >= low) & (criterion <= high)) | ~on_policy


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


def correction_metrics(
    log_ratio: Float[Tensor, "batch length"],
    on_policy: Bool[Tensor, "batch length"],
    means: Float[Tensor, "batch length"],
    keep: Bool[Tensor, "batch length"],
    valid: Bool[Tensor, "batch length"],
) -> dict[str, float]:
    """Return metrics over the on-policy tokens of a whole step; zeros (ratios and shares: ones) if there are none.

    - ``kept_share``; ``rejected_rows``: share of rows with a rejected token; ``first_rejected_position``: valid tokens
      before their first one, on average, -1 when no row has one
    - ``abs_log_ratio_mean`` and ``abs_log_ratio_max``
    - ``kl``: the mean of ``-log w``, an estimate of the divergence KL(rollout engine || actor) that can be negative;
      ``k3_kl``: the mean of ``w - 1 - log w``, an estimate of the same that cannot
    - ``ess``: the effective sample size ``(sum of w)^2 / (tokens x sum of w^2)``, between 0 and 1
    - ``prefix_is_p05``, ``_p50``, ``_p95``, from at most ``QUANTILE_TOKENS`` evenly spaced tokens
    """
    magnitude = log_ratio.abs()
    tokens = on_policy.sum()
    rows = on_policy.any(dim=-1).sum()
    rejected = on_policy & ~keep
    row_rejected = rejected.any(dim=-1)
    rejected_rows = row_rejected.sum()
    first = (valid & (rejected.cumsum(dim=-1) == 0)).sum(dim=-1)
    sample = means[on_policy]
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
