"""From the rewards of samples to their advantages: the length penalty, and the group baseline."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Annotated

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from pydantic import Field

from training.algorithms.options import Baseline, NotNegative, Options, Positive
from training.later import Tensor, torch

Index = Tensor | np.ndarray | Sequence[Hashable]


class LengthPenalty(Options):
    """DAPO's penalty on long responses."""

    buffer: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2  # share of the response limit over which it grows
    factor: Positive = 0.5  # penalty at the limit; a right answer has 1 more than a wrong one


class GroupAdvantage(Options):
    """The baseline of a sample: its group."""

    baseline: Baseline = "all_samples"  # the samples whose scores give the mean and the deviation of a group
    use_std: bool = False  # divide by the deviation and ``epsilon``
    epsilon: NotNegative = 1e-6
    # The weights of several rewards, by what the reward function calls them; without any, the score alone counts.
    rewards: dict[str, Positive] = Field(default_factory=dict)


def length_penalty(lengths: Int[Tensor, " batch"], limit: int, options: LengthPenalty) -> Float[Tensor, " batch"]:
    """Return the penalty on a reward: 0 up to the last ``buffer`` of the limit, then linear to ``-factor``.

    It is DAPO's soft punishment of long responses (arXiv 2503.14476, equation 13).

    >>> length_penalty(torch.tensor([80, 90, 100]), 100, LengthPenalty(buffer=0.2))
    tensor([ 0.0000, -0.2500, -0.5000])

    Args:
        lengths: tokens of each response.
        limit: the most tokens that a response can have.
        options: ``buffer`` is a share of the limit; published are 4096 of 20480 tokens. ``factor`` is in units of the
            reward, of which a right and a wrong answer are 1 apart.
    """
    buffer = options.buffer * limit
    return options.factor * ((limit - buffer - lengths.float()) / buffer).clamp(-1.0, 0.0)


def group_advantage(
    scores: Float[Tensor, " batch"],
    index: Index,
    on_policy: Shaped[Tensor, " batch"],
    options: GroupAdvantage,
) -> Float[Tensor, " batch"]:
    """Return each row's advantage over its group: ``score - mean``, divided by ``std + epsilon`` with ``use_std``.

    ``baseline="all_samples"`` takes mean and deviation over on- and off-policy rows together: arXiv 2504.14945,
    equation 2, and what the published run used, without the deviation. ``"on_policy"`` takes them over the on-policy
    rows. A group with at most one row in the baseline has mean 0 and deviation 1; a deviation of 0 becomes 1. An
    off-policy score that is not finite is in no baseline.

    >>> scores, on_policy = torch.tensor([1.0, 0.0, 1.0, 0.0]), torch.tensor([False, True, True, True])
    >>> group_advantage(scores, [7, 7, 7, 7], on_policy, GroupAdvantage(baseline="all_samples"))
    tensor([ 0.5000, -0.5000,  0.5000, -0.5000])
    >>> group_advantage(scores, [7, 7, 7, 7], on_policy, GroupAdvantage(baseline="on_policy"))
    tensor([ 0.6667, -0.3333,  0.6667, -0.3333])

    Args:
        index: ``batch`` group ids.
        on_policy: bool or 0/1.

    Returns:
        ``[batch]``, the scores' dtype and device.
    """
    member = on_policy.bool().to(scores.device)
    ids = index.tolist() if isinstance(index, torch.Tensor | np.ndarray) else index
    number_of = {name: number for number, name in enumerate(dict.fromkeys(ids))}
    group = scores.new_tensor([number_of[name] for name in ids], dtype=torch.int64)
    n_groups = len(number_of)

    # In float64 and relative to the group's largest score: sums hardly depend on the order of the rows, and equal
    # scores have a deviation of exactly 0, where a rounding error of 1e-17 would pass for a deviation.
    value = scores.double()
    counted = member if options.baseline == "on_policy" else member | value.isfinite()
    largest = value.new_full((n_groups,), -torch.inf)
    largest = largest.scatter_reduce_(0, group, value.masked_fill(~(counted & value.isfinite()), -torch.inf), "amax")
    origin = largest.masked_fill(largest == -torch.inf, 0.0)[group]

    def group_sum(per_row: Tensor) -> Tensor:
        # Not a product: 0 times the nan of an off-policy row would be the nan of its group.
        return value.new_zeros(n_groups).index_add_(0, group, torch.where(counted, per_row, 0.0))

    count = group_sum(torch.ones_like(value))
    mean = group_sum(value - origin) / count.clamp(min=1)
    centred = torch.where(count[group] > 1, (value - origin) - mean[group], value)
    if not options.use_std:
        return centred.to(scores.dtype)
    std = (group_sum(centred.square()) / (count - 1).clamp(min=1)).sqrt()
    std = torch.where((count > 1) & (std != 0), std, 1.0)
    return (centred / (std[group] + options.epsilon)).to(scores.dtype)


def decoupled_advantage(
    rewards: Mapping[str, Float[Tensor, " batch"]],
    index: Index,
    on_policy: Shaped[Tensor, " batch"],
    sampled: Bool[Tensor, " batch"],
    options: GroupAdvantage,
) -> Float[Tensor, " batch"]:
    """Return the advantage over several rewards, each of them compared in its group: GDPO (arXiv 2601.05242).

    ``A_k = group_advantage(r_k)``, ``s = sum of w_k A_k`` and ``A = (s - mean(s)) / (std(s) + epsilon)`` over the
    ``sampled`` rows of the batch, as in TRL, with an epsilon of 1e-4. The sum of the rewards would be the same for one
    that is right and another that has the right form, and here it is not.

    >>> correct, form = torch.tensor([1.0, 0, 0, 0, 1, 1, 1, 1]), torch.tensor([1.0, 1, 0, 0, 1, 1, 0, 0])
    >>> options = GroupAdvantage(use_std=True, epsilon=1e-4, rewards={"correct": 1.0, "form": 1.0})
    >>> every = torch.ones(8, dtype=torch.bool)
    >>> decoupled_advantage({"correct": correct, "form": form}, [0] * 4 + [1] * 4, every, every, options)
    tensor([ 1.7730,  0.2743, -1.0236, -1.0236,  0.6490,  0.6490, -0.6490, -0.6490])

    Args:
        rewards: those that ``options.rewards`` names.
        index, on_policy: as `group_advantage` takes them.
    """
    compared = [w * group_advantage(rewards[name], index, on_policy, options) for name, w in options.rewards.items()]
    total = torch.stack(compared).sum(dim=0)
    counted = total[sampled]
    std = counted.std() if len(counted) > 1 else counted.new_ones(())
    return (total - counted.mean()) / (std + options.epsilon)


def apply_prefix_weights(
    advantages: Float[Tensor, "batch length"], off_policy_mask: Bool[Tensor, "batch length"], alpha: float, beta: float
) -> Float[Tensor, "batch length"]:
    """Weigh advantages: ``alpha`` at off-policy tokens, ``beta`` elsewhere.

    >>> advantages, off_policy_mask = torch.tensor([[1.0, 1.0]]), torch.tensor([[True, False]])
    >>> apply_prefix_weights(advantages, off_policy_mask, alpha=0.5, beta=1.0)
    tensor([[0.5000, 1.0000]])
    """
    if alpha == beta == 1.0:
        return advantages
    return advantages * torch.where(off_policy_mask, alpha, beta).to(advantages.dtype)
