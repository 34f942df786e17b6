"""Group advantages (paper eqs. 1 and 2; seed 004, ``compute_grpo_outcome_advantage_split``)."""

from collections.abc import Hashable, Sequence

import numpy as np
import torch

from training.algorithms.checks import as_mask, require_floating, require_matrix, require_shape, require_tensor
from training.algorithms.names import BASELINES, Baseline, require_choice

Index = torch.Tensor | np.ndarray | Sequence[Hashable]


def compute_grpo_outcome_advantage_split(
    token_level_rewards: torch.Tensor,
    eos_mask: torch.Tensor,
    index: torch.Tensor,
    on_policy_mask: torch.Tensor,
    epsilon: float = 1e-6,
    use_std: bool = True,
):
    """Advantage of each row over the on-policy rows of its group, at each of its valid tokens.

    Unlike the reference: no Python loop over rows, any index (list, array, tensor), a 0/1 ``on_policy_mask`` of any
    dtype, and a group without an on-policy row has mean 0 and deviation 1.

    Args:
        token_level_rewards: ``[batch, response_length]``, floating point. A row's score is the sum over all its
            positions.
        eos_mask: ``[batch, response_length]``, valid tokens, any dtype.
        index: ``batch`` group ids, one value a prompt.
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
    with torch.no_grad():
        advantage = group_advantage(rewards.sum(dim=-1), index, on_policy_mask, "on_policy", use_std, epsilon)
        advantages = _spread(advantage, eos_mask)
    return advantages, advantages


def group_advantage(
    scores: torch.Tensor,
    index: Index,
    on_policy: torch.Tensor,
    baseline: Baseline = "on_policy",
    use_std: bool = True,
    epsilon: float = 1e-6,
) -> torch.Tensor:
    """Advantage of each row over its group: ``(score - mean) / (std + epsilon)``; ``score - mean`` without ``use_std``.

    ``baseline="union"`` takes mean and deviation of on- and off-policy rows together: paper eq. 2, and what the
    published run used, without the deviation. ``"on_policy"`` takes them of the on-policy rows: ``grpo_split`` of the
    seeds. A group with at most one row in the baseline has mean 0 and deviation 1; a deviation of 0 becomes 1.

    Args:
        scores: ``[batch]``, floating point.
        index: ``batch`` group ids.
        on_policy: ``[batch]``, bool or 0/1.

    Returns:
        ``[batch]``, the scores' dtype and device.

    Raises:
        TypeError: scores that are not floating point.
        ValueError: unknown baseline, another shape, an index of another length.
    """
    require_choice("baseline", baseline, BASELINES)
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
    counted = member if baseline == "on_policy" else torch.ones_like(member)
    largest = value.new_full((n_groups,), -torch.inf)
    largest = largest.scatter_reduce_(0, group, value.masked_fill(~counted, -torch.inf), "amax")
    origin = largest.masked_fill(largest == -torch.inf, 0.0)[group]

    def group_sum(per_row: torch.Tensor) -> torch.Tensor:
        return value.new_zeros(n_groups).index_add_(0, group, per_row * counted)

    count = group_sum(torch.ones_like(value))
    mean = group_sum(value - origin) / count.clamp(min=1)
    centred = torch.where(count[group] > 1, (value - origin) - mean[group], value)
    if not use_std:
        return centred.to(scores.dtype)
    std = (group_sum(centred.square()) / (count - 1).clamp(min=1)).sqrt()
    std = torch.where((count > 1) & (std > 0), std, 1.0)
    return (centred / (std[group] + epsilon)).to(scores.dtype)


def apply_prefix_weights(
    advantages: torch.Tensor, prefix_mask: torch.Tensor, alpha: float = 1.0, beta: float = 1.0
) -> torch.Tensor:
    """Weigh advantages: ``alpha`` on teacher tokens, ``beta`` elsewhere (seed 002, ``prefix_reward_weight_*``).

    Args:
        advantages: ``[batch, response_length]``.
        prefix_mask: the same shape, bool: teacher tokens.

    Raises:
        TypeError: ``prefix_mask`` is not bool.
        ValueError: the shapes differ.
    """
    if require_tensor("prefix_mask", prefix_mask).dtype != torch.bool:
        raise TypeError(f"prefix_mask: expected dtype torch.bool, got {prefix_mask.dtype}")
    require_shape("prefix_mask", prefix_mask, advantages.shape, "advantages")
    if alpha == beta == 1.0:
        return advantages
    return advantages * torch.where(prefix_mask, alpha, beta).to(advantages.dtype)


def _spread(per_row: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Repeat ``[batch]`` over the tokens and multiply by the mask, in one pass over memory."""
    if mask.dtype == per_row.dtype:
        return per_row.unsqueeze(-1) * mask
    if mask.is_floating_point():
        return per_row.unsqueeze(-1) * mask.to(per_row.dtype)
    return torch.where(mask if mask.dtype == torch.bool else mask != 0, per_row.unsqueeze(-1), 0.0)


def _group_numbers(index: Index, n_rows: int) -> tuple[torch.Tensor, int]:
    """Number the groups 0, 1, ...: ``[batch]`` int64 and how many there are."""
    if isinstance(index, str) or not hasattr(index, "__len__"):
        raise TypeError(f"index: expected a sequence, array or tensor of group ids, got {type(index).__name__}")
    if len(index) != n_rows or getattr(index, "ndim", 1) != 1:
        came = list(index.shape) if hasattr(index, "shape") else len(index)
        raise ValueError(f"index: expected {n_rows} group ids, one for each row of the scores, got {came}")
    if n_rows and isinstance(index[0], torch.Tensor):
        index = index if isinstance(index, torch.Tensor) else torch.stack(list(index))  # tensors hash by identity
    if isinstance(index, torch.Tensor):
        values, numbers = torch.unique(index, return_inverse=True)
        return numbers, len(values)
    ids = index.tolist() if isinstance(index, np.ndarray) else index
    number_of = {name: number for number, name in enumerate(dict.fromkeys(ids))}
    return torch.tensor([number_of[name] for name in ids], dtype=torch.int64), len(number_of)
