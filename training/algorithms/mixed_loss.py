"""The mixed-policy loss of a training: PPO on on-policy tokens, shaped importance sampling on off-policy tokens.

The formulas are those of arXiv 2504.14945, equations 4 and 5, token by token. The trainer multiplies the losses by the
weights of the rollout correction and aggregates them over the whole batch.
"""

import math

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from training.algorithms.methods.on_policy import on_policy_loss
from training.algorithms.options import LossOptions
from training.algorithms.reshape import shape_off_policy
from training.algorithms.tensors import (
    as_mask,
    require_bool,
    require_floating,
    require_matrix,
    require_shape,
    working_precision,
)

Stats = dict[str, tuple[Tensor, Tensor]]
"""Metric name -> (sum, count), scalars: add them over micro-batches and ranks, then divide (`mean_stats`)."""


def mixed_policy_token_loss(
    old_log_prob: Float[Tensor, "batch length"],
    log_prob: Float[Tensor, "batch length"],
    advantages: Float[Tensor, "batch length"],
    response_mask: Shaped[Tensor, "batch length"],
    off_policy_mask: Bool[Tensor, "batch length"],
    options: LossOptions,
    target_probs: Float[Tensor, "batch length"] | None = None,
) -> tuple[Float[Tensor, "batch length"], Stats]:
    """Return each token's loss before any averaging: ``L_off`` where ``off_policy_mask``, ``L_on`` elsewhere.

    On-policy tokens (arXiv 2504.14945, equation 4, second sum), with ``r`` for the shaped ``exp(log_prob -
    old_log_prob)``: ``max(-A r, -A clamp(r, 1 - clip_ratio, max(clip_upper_bound, 1 + clip_ratio)))``; only ``-A r``
    with ``loss_remove_clip`` (section 2.4). `on_policy_loss` has the alternatives to PPO. Off-policy tokens
    (equation 5): ``-A f``, with ``f`` for the shaped ``exp(log_prob)`` held between ``off_min_clip`` and
    ``off_max_clip``; there is no old policy and no clip. With ``target_probs`` (the teacher's phi) ``f`` is the shaped
    ``p / (phi + 1e-6)``, or ``p / phi`` with a replay (`MixedPolicyOptions.phi_epsilon`).

    >>> log_prob = torch.tensor([[0.5, 0.2], [0.1, 0.4]]).log()  # the first row is off-policy, A = 1
    >>> old_log_prob = torch.tensor([[1.0, 1.0], [0.1, 0.2]]).log()  # the second is on-policy, A = -1
    >>> advantages, mask = torch.tensor([[1.0, 1.0], [-1.0, -1.0]]), torch.ones(2, 2)
    >>> off_policy_mask = torch.tensor([[True, True], [False, False]])
    >>> options = LossOptions(off_policy_reshape="p_div_p", loss_remove_clip=True)  # recipe luffy
    >>> mixed_policy_token_loss(old_log_prob, log_prob, advantages, mask, off_policy_mask, options)[0]
    tensor([[-0.8333, -0.6667],
            [ 1.0000,  2.0000]])

    Losses and gradients are finite for log-probabilities in [-1e4, 0], also in tokens of the branch not taken. What
    stands at invalid tokens has no influence, even when it is not finite. Half precisions are computed in float32.

    Args:
        response_mask: bool or 0/1, valid tokens.
        target_probs: negative where unknown, which means 1; None for the paper's phi = 1.

    Returns:
        ``losses``, 0 at invalid tokens, and ``stats`` without gradient: (sum, count) of ``pg_loss``, less what
        ``all_max_clip`` drops, and of means over on-policy or off-policy tokens. A ratio that reaches a bound counts
        in ``off_ratio_max_clip_frac`` or ``off_ratio_min_clip_frac``.

    Raises:
        TypeError: ``off_policy_mask`` is not bool; a tensor that should be floating point is not.
        ValueError: another shape.
    """
    require_matrix("log_prob", require_floating("log_prob", log_prob))
    floating = {"old_log_prob": old_log_prob, "advantages": advantages}
    floating |= {} if target_probs is None else {"target_probs": target_probs}
    for name, value in floating.items():
        require_shape(name, require_floating(name, value), log_prob.shape, "log_prob")
    valid = as_mask("response_mask", response_mask)
    require_shape("response_mask", valid, log_prob.shape, "log_prob")
    require_shape("off_policy_mask", require_bool("off_policy_mask", off_policy_mask), log_prob.shape, "log_prob")

    on_policy, off_policy = valid & ~off_policy_mask, valid & off_policy_mask
    # 0 where a token has no part, so that nothing there reaches a sum or a gradient.
    log_prob = torch.where(valid, working_precision(log_prob), 0.0)
    old_log_prob = torch.where(on_policy, working_precision(old_log_prob), 0.0)
    loss_per_ratio = torch.where(valid, -working_precision(advantages), 0.0)

    on_losses, clipped = on_policy_loss(log_prob, old_log_prob, loss_per_ratio, on_policy, options)
    off_ratio = off_policy_ratio(log_prob, target_probs, off_policy, options)
    off_losses = loss_per_ratio * off_ratio if options.use_off_policy_loss else 0.0
    losses = torch.where(off_policy_mask, off_losses, on_losses)

    with torch.no_grad():
        highest = math.inf if options.off_max_clip is None else options.off_max_clip
        lowest = -math.inf if options.off_min_clip is None else options.off_min_clip
        stats = {
            "off_pg_loss": _sum_over(off_policy, losses),
            "on_pg_loss": _sum_over(on_policy, losses),
            "on_pg_clipfrac": _sum_over(on_policy, torch.zeros_like(valid) if clipped is None else clipped),
            "ppo_kl": _sum_over(on_policy, old_log_prob - log_prob),
            "off_policy_prob": _sum_over(off_policy, log_prob.exp()),
            # Of the policy that sampled the tokens, as the original implementation defines it.
            "on_policy_prob": _sum_over(on_policy, old_log_prob.exp()),
            "off_ratio_mean": _sum_over(off_policy, off_ratio),
            "off_ratio_max_clip_frac": _sum_over(off_policy, off_ratio >= highest),
            "off_ratio_min_clip_frac": _sum_over(off_policy, off_ratio <= lowest),
        }
        kept = valid if options.all_max_clip is None else valid & (log_prob.exp() <= options.all_max_clip)
    if options.all_max_clip is not None:
        losses = torch.where(kept, losses, 0.0)
    return losses, {"pg_loss": _sum_over(kept, losses.detach()), **stats}


def mean_stats(stats: Stats) -> dict[str, Tensor]:
    """Divide each sum of ``stats`` by its count; 0 where nothing was counted."""
    return {name: total / count.clamp(min=1) for name, (total, count) in stats.items()}


def off_policy_ratio(log_prob: Tensor, target_probs: Tensor | None, off_policy: Tensor, options: LossOptions) -> Tensor:
    """Return the shaped and bounded ratio ``f`` of off-policy tokens, see `mixed_policy_token_loss`."""
    log_ratio = log_prob
    if target_probs is not None:
        known = off_policy & (target_probs >= 0)
        probs = torch.where(known, working_precision(target_probs), 1.0) + options.phi_epsilon
        log_ratio = log_prob - torch.log(probs.clamp(min=torch.finfo(probs.dtype).tiny))
    ratio = shape_off_policy(log_ratio, options)
    if options.off_max_clip is not None:
        ratio = ratio.clamp(max=options.off_max_clip)
    return ratio if options.off_min_clip is None else ratio.clamp(min=options.off_min_clip)


def _sum_over(tokens: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of ``values`` over ``tokens``, and their number."""
    return torch.where(tokens, values, 0.0).sum(), tokens.sum()
