"""Group advantages (arXiv 2504.14945, equations 1 and 2)."""

from collections.abc import Hashable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from training.algorithms.options import GroupOptions, PrefixOptions
from training.algorithms.tensors import (
    as_mask,
    require_bool,
    require_floating,
    require_matrix,
    require_shape,
    require_tensor,
)

Index = Tensor | np.ndarray | Sequence[Hashable]


def compute_grpo_outcome_advantage_split(
    token_level_rewards: torch.Tensor,
    eos_mask: torch.Tensor,
    index: torch.Tensor,
    on_policy_mask: torch.Tensor,
    epsilon: float = 1e-6,
    use_std: bool = True,
):
    """Advantage of each row over the on-policy rows of its group, at each of its valid tokens.

    Unlike the original implementation it has no Python loop over rows, takes any index (list, array, tensor) and a 0/1
    ``on_policy_mask`` of any dtype, and gives a group without an on-policy row mean 0 and deviation 1.

    >>> rewards = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])  # the first row is off-policy
    >>> mask, on_policy = torch.tensor([[1, 1], [1, 0], [1, 1]]), torch.tensor([False, True, True])
    >>> compute_grpo_outcome_advantage_split(rewards, mask, ["a", "a", "a"], on_policy, use_std=False)[0]
    tensor([[ 0.5000,  0.5000],
            [ 0.5000,  0.0000],
            [-0.5000, -0.5000]])

    Args:
        token_level_rewards: ``[batch, response_length]``, floating point. A row's score is the sum over all its
            positions.
        eos_mask: ``[batch, response_length]``, valid tokens, any dtype.
        index: ``batch`` group ids, one value per prompt.
        on_policy_mask: ``[batch]``, bool or 0/1: rows sampled from the policy alone.
        epsilon: added to the deviation.
        use_std: divide by the (unbiased) deviation of the group.

    Returns:
        ``(advantages, returns)``, one tensor twice: ``[batch, response_length]``, the rewards' dtype and device.

    Raises:
        TypeError: rewards that are not floating point, masks that are no tensors.
        ValueError: another shape, or an index of another length.
    """
    rewards = require_floating("token_level_rewards", token_level_rewards)
    require_matrix("token_level_rewards", rewards)
    require_shape("eos_mask", require_tensor("eos_mask", eos_mask), rewards.shape, "token_level_rewards")
    options = GroupOptions(baseline="on_policy", use_std=bool(use_std))
    with torch.no_grad():
        advantage = group_advantage(rewards.sum(dim=-1), index, on_policy_mask, options, epsilon)
        advantages = _at_tokens(advantage, eos_mask)
    return advantages, advantages


def group_advantage(
    scores: Float[Tensor, " batch"],
    index: Index,
    on_policy: Shaped[Tensor, " batch"],
    options: GroupOptions,
    epsilon: float = 1e-6,
) -> Float[Tensor, " batch"]:
    """Advantage of each row over its group: ``(score - mean) / (std + epsilon)``; ``score - mean`` without ``use_std``.

    ``baseline="all_samples"`` takes mean and deviation over on- and off-policy rows together: arXiv 2504.14945,
    equation 2, and what the published run used, without the deviation. ``"on_policy"`` takes them over the on-policy
    rows. A group with at most one row in the baseline has mean 0 and deviation 1; a deviation of 0 becomes 1.

    >>> scores, on_policy = torch.tensor([1.0, 0.0, 1.0, 0.0]), torch.tensor([False, True, True, True])
    >>> group_advantage(scores, [7, 7, 7, 7], on_policy, GroupOptions(baseline="all_samples"))
    tensor([ 0.5000, -0.5000,  0.5000, -0.5000])
    >>> group_advantage(scores, [7, 7, 7, 7], on_policy, GroupOptions(baseline="on_policy"))
    tensor([ 0.6667, -0.3333,  0.6667, -0.3333])

    Args:
        index: ``batch`` group ids.
        on_policy: bool or 0/1.

    Returns:
        ``[batch]``, the scores' dtype and device.

    Raises:
        TypeError: scores that are not floating point.
        ValueError: another shape, or an index of another length.
    """
    scores = require_floating("scores", scores)
    if scores.ndim != 1:
        raise ValueError(f"scores: expected shape [batch], got {list(scores.shape)}")
    member = as_mask("on_policy_mask", on_policy).to(scores.device)
    require_shape("on_policy_mask", member, scores.shape, "scores")
    group, n_groups = _group_numbers(index, scores.shape[0])
    group = group.to(scores.device)

    # In float64 and relative to the group's largest score: sums hardly depend on the order of the rows, and equal
    # scores have a deviation of exactly 0, where a rounding error of 1e-17 would pass for a deviation.
    value = scores.double()
    counted = member if options.baseline == "on_policy" else torch.ones_like(member)
    largest = value.new_full((n_groups,), -torch.inf)
    largest = largest.scatter_reduce_(0, group, value.masked_fill(~counted, -torch.inf), "amax")
    origin = largest.masked_fill(largest == -torch.inf, 0.0)[group]

    def group_sum(per_row: Tensor) -> Tensor:
        return value.new_zeros(n_groups).index_add_(0, group, per_row * counted)

    count = group_sum(torch.ones_like(value))
    mean = group_sum(value - origin) / count.clamp(min=1)
    centred = torch.where(count[group] > 1, (value - origin) - mean[group], value)
    if not options.use_std:
        return centred.to(scores.dtype)
    std = (group_sum(centred.square()) / (count - 1).clamp(min=1)).sqrt()
    std = torch.where((count > 1) & (std > 0), std, 1.0)
    return (centred / (std[group] + epsilon)).to(scores.dtype)


def apply_prefix_weights(
    advantages: Float[Tensor, "batch length"], off_policy_mask: Bool[Tensor, "batch length"], options: PrefixOptions
) -> Float[Tensor, "batch length"]:
    """Weigh advantages: ``options.alpha`` at off-policy tokens, ``options.beta`` elsewhere.

    >>> advantages, off_policy_mask = torch.tensor([[1.0, 1.0]]), torch.tensor([[True, False]])
    >>> apply_prefix_weights(advantages, off_policy_mask, PrefixOptions(alpha=0.5))
    tensor([[0.5000, 1.0000]])

    Raises:
        TypeError: ``off_policy_mask`` is not bool.
        ValueError: the shapes differ.
    """
    require_shape("off_policy_mask", require_bool("off_policy_mask", off_policy_mask), advantages.shape, "advantages")
    if options.alpha == options.beta == 1.0:
        return advantages
    return advantages * torch.where(off_policy_mask, options.alpha, options.beta).to(advantages.dtype)


def _at_tokens(per_row: Tensor, mask: Tensor) -> Tensor:
    """Repeat ``[batch]`` over the tokens and multiply by the mask, in one pass over memory."""
    if mask.dtype == per_row.dtype:
        return per_row.unsqueeze(-1) * mask
    if mask.is_floating_point():
        return per_row.unsqueeze(-1) * mask.to(per_row.dtype)
    return torch.where(mask if mask.dtype == torch.bool else mask != 0, per_row.unsqueeze(-1), 0.0)


def _group_numbers(index: Index, n_rows: int) -> tuple[Tensor, int]:
    """Number the groups 0, 1, ...: ``[batch]`` int64 and how many there are."""
    if isinstance(index, str) or not hasattr(index, "__len__"):
        raise TypeError(f"index: expected a sequence, array or tensor of group ids, got {type(index).__name__}")
    if len(index) != n_rows or getattr(index, "ndim", 1) != 1:
        size = list(index.shape) if hasattr(index, "shape") else len(index)
        raise ValueError(f"index: expected {n_rows} group ids, one for each row of the scores, got {size}")
    if n_rows and isinstance(index[0], Tensor):
        index = index if isinstance(index, Tensor) else torch.stack(list(index))  # tensors hash by identity
    if isinstance(index, Tensor):
        values, numbers = torch.unique(index, return_inverse=True)
        return numbers, len(values)
    ids = index.tolist() if isinstance(index, np.ndarray) else index
    number_of = {name: number for number, name in enumerate(dict.fromkeys(ids))}
    return torch.tensor([number_of[name] for name in ids], dtype=torch.int64), len(number_of)
