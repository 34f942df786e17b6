"""The mixed-policy loss: PPO on the policy's own tokens, shaped importance sampling on the teacher's (paper eqs. 4, 5).

``mixed_policy_token_loss`` holds the formulas, token by token. The seed's ``compute_token_on_off_policy_loss``
averages it over one batch; the trainer multiplies it by rollout-correction weights and normalises it over the whole
step.
"""

from functools import partial

import torch

from training.algorithms.checks import (
    as_mask,
    require_floating,
    require_matrix,
    require_shape,
    require_tensor,
    working_precision,
)
from training.algorithms.reshape import shape_off_policy, shape_on_policy

Stats = dict[str, tuple[torch.Tensor, torch.Tensor]]
"""Metric name -> (sum, count), scalars: add them over micro-batches and ranks, then divide (``mean_stats``)."""


def mixed_policy_token_loss(
    old_log_prob: torch.Tensor,
    log_prob: torch.Tensor,
    advantages: torch.Tensor,
    eos_mask: torch.Tensor,
    prefix_mask: torch.Tensor,
    *,
    cliprange: float = 0.2,
    clip_upper_bound: float | None = None,
    off_max_clip: float | None = None,
    off_min_clip: float | None = None,
    all_max_clip: float | None = None,
    off_policy_reshape: str = "no_reshape",
    off_policy_reshape_weight: float = 1.0,
    off_policy_reshape_pow_exp: float = 0.5,
    on_policy_reshape: str = "no_reshape",
    on_policy_reshape_weight: float = 1.0,
    on_policy_reshape_pow_exp: float = 0.5,
    target_probs: torch.Tensor | None = None,
    shape_target_ratio: bool = False,
    loss_remove_clip: bool = False,
    use_off_policy_loss: bool = True,
) -> tuple[torch.Tensor, Stats]:
    """Loss of each token before any averaging: ``where(prefix_mask, L_off, L_on)``.

    On-policy (paper eq. 4, its second sum), for ``r`` the shaped ``exp(log_prob - old_log_prob)``:
    ``max(-A r, -A clamp(r, 1 - cliprange, max(clip_upper_bound, 1 + cliprange)))``; only ``-A r`` with
    ``loss_remove_clip`` (paper section 2.4). Off-policy (paper eq. 5): ``-A f`` for ``f`` the shaped
    ``exp(log_prob)``, held between ``off_min_clip`` and ``off_max_clip``; no old policy and no clip. With
    ``target_probs`` (the teacher's phi; negative where unknown, which means 1) ``f = p / (phi + 1e-6)``, shaped only
    with ``shape_target_ratio``, since the reference ignores its reshape there.

    Losses and gradients are finite for log-probabilities in [-1e4, 0], also in tokens of the branch not taken. What
    stands at invalid tokens has no influence, even when it is not finite. Half precisions are computed in float32.

    Args:
        old_log_prob, log_prob, advantages: ``[batch, response_length]``, floating point.
        eos_mask: the same shape, bool or 0/1: valid tokens.
        prefix_mask: the same shape, bool: teacher tokens.
        cliprange: epsilon of PPO.
        clip_upper_bound: a higher upper clip than ``1 + cliprange``; None for none.
        use_off_policy_loss: False gives teacher tokens no loss (they may have the supervised one:
            ``sft_token_loss``).
        all_max_clip: tokens whose probability exceeds it get no loss and leave the count of ``stats["pg_loss"]``.
        target_probs: the same shape, or None for the paper's phi = 1.

    Returns:
        ``losses`` ``[batch, response_length]``, 0 at invalid tokens, and ``stats``: (sum, count) of ``pg_loss`` and of
        the seed's other metrics, without gradient.

    Raises:
        TypeError: ``prefix_mask`` is not bool; a tensor that should be floating point is not.
        ValueError: another shape, an unknown reshape, G <= 0.
    """
    _check(old_log_prob, log_prob, advantages, eos_mask, prefix_mask, target_probs)
    valid = as_mask("eos_mask", eos_mask)
    off_policy = valid & prefix_mask
    # 0 at invalid tokens, so that nothing there reaches a sum or a gradient.
    log_prob = torch.where(valid, working_precision(log_prob), 0.0)
    old_log_prob = torch.where(valid, working_precision(old_log_prob), 0.0)
    loss_per_ratio = torch.where(valid, -working_precision(advantages), 0.0)
    log_ratio = log_prob - old_log_prob

    ratio = shape_on_policy(
        log_prob,
        old_log_prob,
        log_ratio,
        on_policy_reshape,
        weight=on_policy_reshape_weight,
        pow_exp=on_policy_reshape_pow_exp,
    )
    on_losses = loss_per_ratio * ratio
    clipped = None
    if not loss_remove_clip:
        upper = 1.0 + cliprange if clip_upper_bound is None else max(clip_upper_bound, 1.0 + cliprange)
        # Where the clipped loss is the larger one, the ratio is outside the band and the clamp passes no gradient on.
        with torch.no_grad():
            clip_losses = loss_per_ratio * ratio.clamp(1.0 - cliprange, upper)
            clipped = clip_losses > on_losses
        on_losses = torch.where(clipped, clip_losses, on_losses)

    off_shape = partial(
        shape_off_policy,
        reshape=off_policy_reshape,
        weight=off_policy_reshape_weight,
        pow_exp=off_policy_reshape_pow_exp,
    )
    if target_probs is None:
        off_ratio = off_shape(log_prob)
    else:
        known = off_policy & (target_probs >= 0)
        log_phi = torch.log(torch.where(known, working_precision(target_probs), 1.0) + 1e-6)
        off_ratio = off_shape(log_prob - log_phi) if shape_target_ratio else torch.exp(log_prob - log_phi)
    above = below = None
    if off_max_clip is not None:
        above = off_ratio.detach() > off_max_clip
        off_ratio = off_ratio.clamp(max=off_max_clip)
    if off_min_clip is not None:
        below = off_ratio.detach() < off_min_clip
        off_ratio = off_ratio.clamp(min=off_min_clip)

    losses = torch.where(prefix_mask, loss_per_ratio * off_ratio if use_off_policy_loss else 0.0, on_losses)
    with torch.no_grad():
        # Shares in float32 as the reference's, unless a float64 mask asks for more.
        share_dtype = torch.float64 if eos_mask.dtype == torch.float64 else torch.float32
        stats = _token_stats(
            losses, log_prob, old_log_prob, off_ratio, valid, off_policy, clipped, above, below, share_dtype
        )
        if all_max_clip is not None:
            dropped = valid & (log_prob.exp() > all_max_clip)
    if all_max_clip is not None:
        losses = torch.where(dropped, 0.0, losses)
        stats["pg_loss"] = (losses.detach().sum(), stats["pg_loss"][1] - dropped.sum())
    return losses, stats


def compute_token_on_off_policy_loss(
    old_log_prob,
    log_prob,
    advantages,
    eos_mask,
    cliprange,
    clip_upper_bound,
    prefix_mask,
    off_cliprange,
    off_normalize=False,
    off_abs_cliprange=None,
    off_max_clip=None,
    off_min_clip=None,
    all_max_clip=None,
    off_policy_reshape="no_reshape",
    off_policy_reshape_weight=1.0,
    off_policy_reshape_pow_exp=0.5,
    on_policy_reshape="no_reshape",
    on_policy_reshape_weight=1.0,
    on_policy_reshape_pow_exp=0.5,
    target_probs=None,
    loss_remove_token_mean=False,
    loss_remove_clip=False,
    *,
    shape_target_ratio=False,
):
    """The mixed-policy loss of one batch and its metrics, as seed 004 names them.

    Formulas, shapes, dtypes and errors: ``mixed_policy_token_loss``. Here: ``pg_loss`` is the mean over valid tokens,
    or with
    ``loss_remove_token_mean`` the sum divided by ``response_length``. ``off_cliprange``, ``off_normalize`` and
    ``off_abs_cliprange`` are accepted and unused, as in the seed. Means over no token are 0 (nan in the reference).

    Returns:
        A dict of scalars: ``pg_loss`` with its gradient; detached ``off_pg_loss``, ``on_pg_loss``, ``off_pg_clipfrac``
            (0),
        ``on_pg_clipfrac`` and ``ppo_kl`` (both over all valid tokens), ``off_policy_prob``, ``on_policy_prob``,
        ``off_ratio_mean``, ``off_ratio_max_clip_frac``, ``off_ratio_min_clip_frac``.
    """
    losses, stats = mixed_policy_token_loss(
        old_log_prob,
        log_prob,
        advantages,
        eos_mask,
        prefix_mask,
        cliprange=cliprange,
        clip_upper_bound=clip_upper_bound,
        off_max_clip=off_max_clip,
        off_min_clip=off_min_clip,
        all_max_clip=all_max_clip,
        off_policy_reshape=off_policy_reshape,
        off_policy_reshape_weight=off_policy_reshape_weight,
        off_policy_reshape_pow_exp=off_policy_reshape_pow_exp,
        on_policy_reshape=on_policy_reshape,
        on_policy_reshape_weight=on_policy_reshape_weight,
        on_policy_reshape_pow_exp=on_policy_reshape_pow_exp,
        target_probs=target_probs,
        shape_target_ratio=shape_target_ratio,
        loss_remove_clip=loss_remove_clip,
    )
    kept = stats.pop("pg_loss")[1]
    pg_loss = losses.sum() / (losses.shape[-1] if loss_remove_token_mean else kept.clamp(min=1))
    return {"pg_loss": pg_loss, **mean_stats(stats)}


def mean_stats(stats: Stats) -> dict[str, torch.Tensor]:
    """Divide each sum of ``stats`` by its count; 0 where nothing was counted."""
    return {name: total / count.clamp(min=1) for name, (total, count) in stats.items()}


def _token_stats(
    losses: torch.Tensor,
    log_prob: torch.Tensor,
    old_log_prob: torch.Tensor,
    off_ratio: torch.Tensor,
    valid: torch.Tensor,
    off_policy: torch.Tensor,
    clipped: torch.Tensor | None,
    above: torch.Tensor | None,
    below: torch.Tensor | None,
    share_dtype: torch.dtype,
) -> Stats:
    """The (sum, count) pairs; every [batch, response_length] tensor is read once for each sum."""
    off = off_policy.to(losses.dtype).flatten()
    on = (valid ^ off_policy).to(losses.dtype).flatten()
    n_valid, n_off = valid.sum(), off_policy.sum()
    n_on = n_valid - n_off
    flat_losses = losses.detach().flatten()

    def share(selected: torch.Tensor | None, among: torch.Tensor) -> torch.Tensor:
        if selected is None:
            return torch.zeros((), dtype=share_dtype, device=losses.device)
        return (selected & among).sum().to(share_dtype)

    off_loss, on_loss = flat_losses.dot(off), flat_losses.dot(on)
    return {
        "pg_loss": (off_loss + on_loss, n_valid),
        "off_pg_loss": (off_loss, n_off),
        "on_pg_loss": (on_loss, n_on),
        "off_pg_clipfrac": (share(None, off_policy), n_off),
        "on_pg_clipfrac": (share(clipped, valid), n_valid),
        "ppo_kl": ((old_log_prob - log_prob).sum(), n_valid),
        "off_policy_prob": (log_prob.exp().flatten().dot(off), n_off),
        # Of the policy that sampled the tokens: that is how the reference defines it.
        "on_policy_prob": (old_log_prob.exp().flatten().dot(on), n_on),
        "off_ratio_mean": (off_ratio.detach().flatten().dot(off), n_off),
        "off_ratio_max_clip_frac": (share(above, off_policy), n_off),
        "off_ratio_min_clip_frac": (share(below, off_policy), n_off),
    }


def _check(
    old_log_prob: torch.Tensor,
    log_prob: torch.Tensor,
    advantages: torch.Tensor,
    eos_mask: torch.Tensor,
    prefix_mask: torch.Tensor,
    target_probs: torch.Tensor | None,
) -> None:
    require_matrix("log_prob", require_floating("log_prob", log_prob))
    for name, value in (("old_log_prob", old_log_prob), ("advantages", advantages), ("target_probs", target_probs)):
        if value is not None or name != "target_probs":
            require_shape(name, require_floating(name, value), log_prob.shape, "log_prob")
    for name, value in (("eos_mask", eos_mask), ("prefix_mask", prefix_mask)):
        require_shape(name, require_tensor(name, value), log_prob.shape, "log_prob")
    if prefix_mask.dtype != torch.bool:
        raise TypeError(f"prefix_mask: expected dtype torch.bool, got {prefix_mask.dtype}; use prefix_mask.bool()")
