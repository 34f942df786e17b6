"""The three functions of the original implementation, as drop-in replacements.

The original is LUFFY's ``mix_core_alg.py`` (arXiv 2504.14945). For the same arguments these functions return what it
returns: value, nan, dtype, gradient, broadcasting, errors, and the keys and their order. Means over no token are nan,
exponents overflow, and half precisions stay in their own arithmetic. Their docstrings list the few exceptions; none
prints anything.

A training calls none of them. `group_advantage`, `mixed_policy_token_loss` and `sft_token_loss` are finite wherever the
log-probabilities are.
"""

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

from training.algorithms.advantage import GroupAdvantage, group_advantage


def compute_sft_pure_loss(log_prob, eos_mask):
    """Return the mean negative log-likelihood of the valid tokens, a scalar.

    >>> compute_sft_pure_loss(torch.tensor([[-1.0, -2.0], [-6.0, -9.0]]), torch.tensor([[1, 1], [1, 0]]))
    tensor(3.)

    Args:
        log_prob: ``[batch, response_length]``.
        eos_mask: valid tokens; a weight other than 0 and 1 weighs its token.
    """
    return _masked_mean(-log_prob, eos_mask)


def compute_grpo_outcome_advantage_split(
    token_level_rewards: torch.Tensor,
    eos_mask: torch.Tensor,
    index: torch.Tensor,
    on_policy_mask: torch.Tensor,
    epsilon: float = 1e-6,
    use_std: bool = True,
):
    """Return the advantage of each row over the on-policy rows of its group, at each of its tokens.

    Unlike the original, it computes means and deviations in float64, so that equal scores have a deviation of exactly 0
    where float32 cannot represent them. It refuses integer rewards, as the original truncates their advantages, and a
    list of tensors as ``index``, of which the original makes one group per row.

    >>> rewards = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])  # the first row is off-policy
    >>> mask, on_policy = torch.tensor([[1, 1], [1, 0], [1, 1]]), torch.tensor([False, True, True])
    >>> compute_grpo_outcome_advantage_split(rewards, mask, ["a", "a", "a"], on_policy, use_std=False)[0]
    tensor([[ 0.5000,  0.5000],
            [ 0.5000,  0.0000],
            [-0.5000, -0.5000]])

    Args:
        token_level_rewards: ``[batch, response_length]``. A row's score is the sum over all its positions.
        eos_mask: valid tokens, which multiply the advantages.
        index: the hashable group id of each row: ``index[row]``.
        on_policy_mask: bool, whether the policy sampled all of a row.
        epsilon: added to the deviation.
        use_std: divide by the (unbiased) deviation of the group.

    Returns:
        ``(advantages, returns)``, one tensor twice: ``[batch, response_length]``.

    Raises:
        KeyError: a group without an on-policy row, or an id that is a tensor.
        TypeError: rewards that are no floating-point tensor.
    """
    rewards = _require("token_level_rewards", token_level_rewards, Tensor.is_floating_point, "a floating-point tensor")
    scores = rewards.sum(dim=-1)
    rows = range(scores.shape[0])
    ids = [index[row] for row in rows]
    on_policy = [on_policy_mask[row].item() is True for row in rows]
    _require_baselines(ids, on_policy)
    options = GroupAdvantage.model_construct(baseline="on_policy", use_std=bool(use_std), epsilon=epsilon)
    with torch.no_grad():
        advantage = group_advantage(scores, ids, torch.tensor(on_policy, dtype=torch.bool), options)
        advantages = advantage.unsqueeze(-1).tile(1, token_level_rewards.shape[-1]) * eos_mask
    return advantages, advantages


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
):
    """Return the mixed-policy loss of one batch and its metrics.

    It has the formulas of `mixed_policy_token_loss`. ``pg_loss`` is the mean over valid tokens, or with
    ``loss_remove_token_mean`` their sum divided by ``response_length``. With ``target_probs`` the ratio of off-policy
    tokens has no reshape. ``off_cliprange``, ``off_normalize`` and ``off_abs_cliprange`` do nothing.

    Unlike the original, it refuses a ``prefix_mask`` of integers, because ``~1`` is -2.

    >>> log_prob, old_log_prob = torch.tensor([[0.5], [0.4]]).log(), torch.tensor([[1.0], [0.2]]).log()
    >>> advantages, mask, off_policy = torch.tensor([[1.0], [-1.0]]), torch.ones(2, 1), torch.tensor([[True], [False]])
    >>> output = compute_token_on_off_policy_loss(old_log_prob, log_prob, advantages, mask, 0.2, 1.0, off_policy, None)
    >>> output["pg_loss"], output["on_policy_prob"]  # (-0.5 + 2) / 2; the old policy's probability
    (tensor(0.7500), tensor(0.2000))

    Returns:
        A dict of scalars: ``pg_loss``, ``off_pg_loss``, ``on_pg_loss``, ``off_pg_clipfrac`` (0), ``on_pg_clipfrac`` and
            ``ppo_kl`` (both over all valid tokens), ``off_policy_prob``, ``on_policy_prob``, ``off_ratio_mean``,
            ``off_ratio_max_clip_frac`` and ``off_ratio_min_clip_frac`` (shares of off-policy tokens at the bound).

    Raises:
        AssertionError: ``target_probs`` has another shape than ``log_prob``.
        TypeError: ``prefix_mask`` is no bool tensor; ``clip_upper_bound`` is None.
        ValueError: an unknown reshape; the original has ``p_div_p_0.1`` and ``p_div_p_0.5`` for both kinds of tokens,
            and ``p_div_p_0.3`` for off-policy tokens.
    """
    expected = "dtype torch.bool, as prefix_mask.bool() has,"
    off_tokens = _require("prefix_mask", prefix_mask, _is_bool, expected) * eos_mask
    on_tokens = ~prefix_mask * eos_mask
    nothing = torch.tensor(0.0)

    shape = on_policy_reshape, on_policy_reshape_weight, on_policy_reshape_pow_exp
    ratio = _on_policy_ratio(log_prob, old_log_prob, *shape)
    on_losses = -advantages * ratio
    highest = max(clip_upper_bound, 1.0 + cliprange)
    on_pg_clipfrac = nothing
    if loss_remove_clip is False:
        clip_losses = -advantages * ratio.clamp(1.0 - cliprange, highest)
        on_pg_clipfrac = _masked_mean((clip_losses > on_losses).float(), eos_mask)
        on_losses = torch.max(on_losses, clip_losses)

    if target_probs is None:
        shape = off_policy_reshape, off_policy_reshape_weight, off_policy_reshape_pow_exp
        off_ratio = _off_policy_ratio(log_prob, *shape)
    else:
        off_ratio = _target_ratio(log_prob, target_probs) * prefix_mask
    max_clip_frac = min_clip_frac = nothing
    if off_max_clip is not None:
        off_ratio = off_ratio.clamp(max=off_max_clip)
        max_clip_frac = _masked_mean((off_ratio == off_max_clip).float(), off_tokens)
    if off_min_clip is not None:
        off_ratio = off_ratio.clamp(min=off_min_clip)
        min_clip_frac = _masked_mean((off_ratio == off_min_clip).float(), off_tokens)
    off_losses = -advantages * off_ratio

    off_share = prefix_mask.float()
    losses = off_losses * off_share + on_losses * (1.0 - off_share)
    counted = eos_mask
    if all_max_clip is not None:
        kept = (log_prob.exp() <= all_max_clip).float()
        losses, counted = losses * kept, eos_mask * kept
    summed = loss_remove_token_mean is True
    return {
        "pg_loss": (losses * counted).sum() / counted.shape[-1] if summed else _masked_mean(losses, counted),
        "off_pg_loss": _zero_if_nan(_masked_mean(off_losses, off_tokens)),
        "on_pg_loss": _masked_mean(on_losses, on_tokens),
        "off_pg_clipfrac": nothing,
        "on_pg_clipfrac": on_pg_clipfrac,
        "ppo_kl": _masked_mean(old_log_prob - log_prob, eos_mask),
        "off_policy_prob": _zero_if_nan(_masked_mean(log_prob.exp(), off_share * eos_mask)),
        # Of the policy that sampled the tokens, as the original implementation defines it.
        "on_policy_prob": _zero_if_nan(_masked_mean(old_log_prob.exp(), (1.0 - off_share) * eos_mask)),
        "off_ratio_mean": _zero_if_nan(_masked_mean(off_ratio, off_tokens)),
        "off_ratio_max_clip_frac": max_clip_frac,
        "off_ratio_min_clip_frac": min_clip_frac,
    }


def _is_bool(tensor: Tensor) -> bool:
    return tensor.dtype == torch.bool


def _require(name: str, value: object, holds: Callable[[Tensor], bool], expected: str) -> Tensor:
    """Return ``value`` if it is a tensor of which the condition holds; a TypeError that names it otherwise."""
    if not isinstance(value, Tensor) or not holds(value):
        got = f"dtype {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"{name}: expected {expected}, got {got}")
    return value


def _require_baselines(ids: Sequence[Hashable], on_policy: Sequence[bool]) -> None:
    """Raise the original's KeyError for a row with an id that no on-policy row has."""
    sampled = {key for key, own in zip(ids, on_policy, strict=True) if own}
    for key in ids:
        if isinstance(key, Tensor) or key not in sampled:
            error = KeyError(key)
            error.add_note(
                "index: tensors hash by identity, so no two rows share a group: give index.tolist()"
                if isinstance(key, Tensor)
                else f"on_policy_mask: expected an on-policy row (True, of dtype bool) in group {key!r}"
            )
            raise error


def _on_policy_ratio(log_prob: Tensor, old_log_prob: Tensor, reshape: str, weight: float, exponent: float) -> Tensor:
    difference = log_prob - old_log_prob
    match reshape:
        case "no_reshape":
            return difference.exp()
        case "logp":
            return difference
        case "p_logp":
            return difference.exp() + weight * difference
        case "square_root":
            return difference.exp().sqrt()
        case "pow":
            return difference.exp().pow(exponent)
        case "p_div_p_0.1" | "p_div_p_0.5":
            return _p_div_p(log_prob, reshape) / _p_div_p(old_log_prob, reshape)
    raise _unknown("on_policy_reshape", reshape, "p_div_p_0.1 or p_div_p_0.5")


def _off_policy_ratio(log_prob: Tensor, reshape: str, weight: float, exponent: float) -> Tensor:
    match reshape:
        case "no_reshape":
            return log_prob.exp()
        case "logp":
            return weight * log_prob
        case "p_logp":
            return log_prob.exp() + weight * log_prob
        case "square_root":
            return log_prob.exp().sqrt()
        case "pow":
            return log_prob.exp().pow(exponent)
        case "p_div_p_0.1" | "p_div_p_0.3" | "p_div_p_0.5":
            return _p_div_p(log_prob, reshape)
    raise _unknown("off_policy_reshape", reshape, "p_div_p_0.1, p_div_p_0.3 or p_div_p_0.5")


def _target_ratio(log_prob: Tensor, target_probs: Tensor) -> Tensor:
    if target_probs.shape != log_prob.shape:
        expected, got = list(log_prob.shape), list(target_probs.shape)
        raise AssertionError(f"target_probs: expected shape {expected}, as log_prob has, got {got}")
    return log_prob.exp() / (target_probs + 1e-6)


def _p_div_p(log_prob: Tensor, reshape: str) -> Tensor:
    p = log_prob.exp()
    return p / (p + float(reshape.removeprefix("p_div_p_")))


def _unknown(option: str, reshape: object, shaped: str) -> ValueError:
    error = ValueError(f"Invalid {option}: {reshape}")
    error.add_note(f"{option}: expected no_reshape, logp, p_logp, square_root, pow, {shaped}")
    return error


def _masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum() / mask.sum()


def _zero_if_nan(mean: Tensor) -> Tensor:
    return torch.tensor(0.0) if mean.isnan() else mean
