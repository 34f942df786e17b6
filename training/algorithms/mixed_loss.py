"""The mixed-policy loss: PPO on on-policy tokens, shaped importance sampling on off-policy tokens.

`mixed_policy_token_loss` holds the formulas of arXiv 2504.14945, equations 4 and 5, token by token.
`compute_token_on_off_policy_loss` averages it over one batch, as the original implementation does; the trainer
multiplies it by the weights of the rollout correction and aggregates it over the whole batch.
"""

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
    require_tensor,
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
    shape_target_ratio: bool = True,
    original_stats: bool = False,
) -> tuple[Float[Tensor, "batch length"], Stats]:
    """Loss of each token before any averaging: ``L_off`` where ``off_policy_mask``, ``L_on`` elsewhere.

    On-policy tokens (arXiv 2504.14945, equation 4, second sum), with ``r`` for the shaped ``exp(log_prob -
    old_log_prob)``: ``max(-A r, -A clamp(r, 1 - clip_ratio, max(clip_upper_bound, 1 + clip_ratio)))``; only ``-A r``
    with ``loss_remove_clip`` (section 2.4). `on_policy_loss` has the alternatives to PPO. Off-policy tokens
    (equation 5): ``-A f``, with ``f`` for the shaped ``exp(log_prob)`` held between ``off_min_clip`` and
    ``off_max_clip``; there is no old policy and no clip. With ``target_probs`` (the teacher's phi) ``f`` is the shaped
    ``p / (phi + 1e-6)``; without ``shape_target_ratio`` it is the bare ratio, as in the original implementation, which
    ignores its reshape there.

    >>> log_prob = torch.tensor([[0.5, 0.2], [0.1, 0.4]]).log()  # the first row is off-policy, A = 1
    >>> old_log_prob = torch.tensor([[1.0, 1.0], [0.1, 0.2]]).log()  # the second is on-policy, A = -1
    >>> advantages, mask = torch.tensor([[1.0, 1.0], [-1.0, -1.0]]), torch.ones(2, 2)
    >>> off_policy_mask = torch.tensor([[True, True], [False, False]])
    >>> options = LossOptions(off_policy_reshape="p_div_p_0.1", loss_remove_clip=True)  # recipe luffy
    >>> mixed_policy_token_loss(old_log_prob, log_prob, advantages, mask, off_policy_mask, options)[0]
    tensor([[-0.8333, -0.6667],
            [ 1.0000,  2.0000]])

    Losses and gradients are finite for log-probabilities in [-1e4, 0], also in tokens of the branch not taken. What
    stands at invalid tokens has no influence, even when it is not finite. Half precisions are computed in float32.

    Args:
        response_mask: bool or 0/1, valid tokens.
        target_probs: negative where unknown, which means 1; None for the paper's phi = 1.
        original_stats: ``on_pg_clipfrac`` and ``ppo_kl`` are means over all valid tokens, as in the original
            implementation, instead of the on-policy ones.

    Returns:
        ``losses``, 0 at invalid tokens, and ``stats``: (sum, count) of ``pg_loss`` and of the other metrics of
        `compute_token_on_off_policy_loss`, without gradient. Tokens that ``all_max_clip`` drops leave the count of
        ``stats["pg_loss"]``.

    Raises:
        TypeError: ``off_policy_mask`` is not bool; a tensor that should be floating point is not.
        ValueError: another shape, an unknown reshape, G <= 0.
    """
    require_matrix("log_prob", require_floating("log_prob", log_prob))
    floating = {"old_log_prob": old_log_prob, "advantages": advantages}
    if target_probs is not None:
        floating["target_probs"] = target_probs
    for name, value in floating.items():
        require_shape(name, require_floating(name, value), log_prob.shape, "log_prob")
    _check_masks(log_prob, "response_mask", response_mask, "off_policy_mask", off_policy_mask)

    valid = as_mask("response_mask", response_mask)
    off_policy = valid & off_policy_mask
    # 0 at invalid tokens, so that nothing there reaches a sum or a gradient.
    log_prob = torch.where(valid, working_precision(log_prob), 0.0)
    old_log_prob = torch.where(valid, working_precision(old_log_prob), 0.0)
    loss_per_ratio = torch.where(valid, -working_precision(advantages), 0.0)

    on_losses, clipped = on_policy_loss(log_prob, old_log_prob, loss_per_ratio, valid & ~off_policy_mask, options)

    if target_probs is None:
        off_ratio = shape_off_policy(log_prob, options)
    else:
        given = off_policy & (target_probs >= 0)
        log_ratio = log_prob - torch.log(torch.where(given, working_precision(target_probs), 1.0) + 1e-6)
        off_ratio = shape_off_policy(log_ratio, options) if shape_target_ratio else torch.exp(log_ratio)
    above = below = None
    if options.off_max_clip is not None:
        above = off_ratio.detach() > options.off_max_clip
        off_ratio = off_ratio.clamp(max=options.off_max_clip)
    if options.off_min_clip is not None:
        below = off_ratio.detach() < options.off_min_clip
        off_ratio = off_ratio.clamp(min=options.off_min_clip)

    losses = torch.where(off_policy_mask, loss_per_ratio * off_ratio if options.use_off_policy_loss else 0.0, on_losses)
    with torch.no_grad():
        # Shares in float32, as in the original implementation, unless a float64 mask asks for more.
        share_dtype = torch.float64 if response_mask.dtype == torch.float64 else torch.float32
        ratios = log_prob, old_log_prob, off_ratio
        ppo = valid if original_stats else valid ^ off_policy
        stats = _token_stats(losses, *ratios, valid, off_policy, ppo, clipped, above, below, share_dtype)
        if options.all_max_clip is not None:
            dropped = valid & (log_prob.exp() > options.all_max_clip)
    if options.all_max_clip is not None:
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
    """The mixed-policy loss of one batch and its metrics, with the names of the original implementation.

    Formulas, shapes and dtypes are those of `mixed_policy_token_loss`. ``pg_loss`` is the mean over valid tokens, or
    with ``loss_remove_token_mean`` the sum divided by ``response_length``. ``off_cliprange``, ``off_normalize`` and
    ``off_abs_cliprange`` are accepted and unused, as in the original. Means over no token are 0 (nan in the original).

    >>> log_prob, old_log_prob = torch.tensor([[0.5], [0.4]]).log(), torch.tensor([[1.0], [0.2]]).log()
    >>> advantages, mask, off_policy = torch.tensor([[1.0], [-1.0]]), torch.ones(2, 1), torch.tensor([[True], [False]])
    >>> output = compute_token_on_off_policy_loss(old_log_prob, log_prob, advantages, mask, 0.2, 1.0, off_policy, None)
    >>> output["pg_loss"], output["on_policy_prob"]  # (-0.5 + 2) / 2; the old policy's probability
    (tensor(0.7500), tensor(0.2000))

    Returns:
        A dict of scalars: ``pg_loss`` with its gradient; detached ``off_pg_loss``, ``on_pg_loss``, ``off_pg_clipfrac``
            (0), ``on_pg_clipfrac`` and ``ppo_kl`` (both over all valid tokens), ``off_policy_prob``,
            ``on_policy_prob``, ``off_ratio_mean``, ``off_ratio_max_clip_frac``, ``off_ratio_min_clip_frac``.

    Raises:
        TypeError, ValueError: as in `mixed_policy_token_loss`.
    """
    _check_masks(log_prob, "eos_mask", eos_mask, "prefix_mask", prefix_mask)
    options = LossOptions.model_construct(  # not validated: any number that the original takes is taken
        clip_ratio=cliprange,
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
        loss_remove_clip=loss_remove_clip,
    )
    tensors = old_log_prob, log_prob, advantages, eos_mask, prefix_mask
    losses, stats = mixed_policy_token_loss(*tensors, options, target_probs, shape_target_ratio, original_stats=True)
    kept = stats.pop("pg_loss")[1]
    pg_loss = losses.sum() / (losses.shape[-1] if loss_remove_token_mean else kept.clamp(min=1))
    return {"pg_loss": pg_loss, **mean_stats(stats)}


def mean_stats(stats: Stats) -> dict[str, Tensor]:
    """Divide each sum of ``stats`` by its count; 0 where nothing was counted."""
    return {name: total / count.clamp(min=1) for name, (total, count) in stats.items()}


def _token_stats(
    losses: Tensor,
    log_prob: Tensor,
    old_log_prob: Tensor,
    off_ratio: Tensor,
    valid: Tensor,
    off_policy: Tensor,
    ppo: Tensor,
    clipped: Tensor | None,
    above: Tensor | None,
    below: Tensor | None,
    share_dtype: torch.dtype,
) -> Stats:
    """The (sum, count) pairs, those of PPO over the tokens ``ppo``; every tensor is read once for each sum."""
    off = off_policy.to(losses.dtype).flatten()
    on = (valid ^ off_policy).to(losses.dtype).flatten()
    n_valid, n_off, n_ppo = valid.sum(), off_policy.sum(), ppo.sum()
    n_on = n_valid - n_off
    flat_losses = losses.detach().flatten()

    def share(selected: Tensor | None, among: Tensor) -> Tensor:
        if selected is None:
            return torch.zeros((), dtype=share_dtype, device=losses.device)
        return (selected & among).sum().to(share_dtype)

    off_loss, on_loss = flat_losses.dot(off), flat_losses.dot(on)
    return {
        "pg_loss": (off_loss + on_loss, n_valid),
        "off_pg_loss": (off_loss, n_off),
        "on_pg_loss": (on_loss, n_on),
        "off_pg_clipfrac": (share(None, off_policy), n_off),
        "on_pg_clipfrac": (share(clipped, ppo), n_ppo),
        "ppo_kl": ((old_log_prob - log_prob).masked_fill(~ppo, 0.0).sum(), n_ppo),
        "off_policy_prob": (log_prob.exp().flatten().dot(off), n_off),
        # Of the policy that sampled the tokens, as the original implementation defines it.
        "on_policy_prob": (old_log_prob.exp().flatten().dot(on), n_on),
        "off_ratio_mean": (off_ratio.detach().flatten().dot(off), n_off),
        "off_ratio_max_clip_frac": (share(above, off_policy), n_off),
        "off_ratio_min_clip_frac": (share(below, off_policy), n_off),
    }


def _check_masks(log_prob: Tensor, valid_name: str, valid: Tensor, off_policy_name: str, off_policy: Tensor) -> None:
    """Check both masks under the names that the caller knows."""
    shape = require_floating("log_prob", log_prob).shape
    require_shape(valid_name, require_tensor(valid_name, valid), shape, "log_prob")
    require_shape(off_policy_name, require_tensor(off_policy_name, off_policy), shape, "log_prob")
    require_bool(off_policy_name, off_policy)
