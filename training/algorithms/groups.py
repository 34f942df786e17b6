"""Groups of samples: which of them carry a signal, and the outcomes by which that is decided. No torch."""

from collections.abc import Hashable, Sequence
from typing import Annotated, TypeVar

from pydantic import Field

from training.algorithms.options import Baseline, Options

Group = TypeVar("Group", bound=Hashable)

SOLVED = 1.0  # a score from which a sample is right; scores lie in [0, 1]


class Filter(Options):
    """Groups of one outcome are dropped, because their advantages are 0, and others are drawn in their place.

    ``by="all_samples"`` looks at every member: a group that the policy never solves stays if its off-policy sample is
    right, and that is the group from which the policy learns most. ``"on_policy"`` looks at on-policy samples only, and
    drops it. A group with fewer than two members to look at stays, because one outcome is no evidence.
    """

    by: Baseline = "all_samples"  # the samples whose outcomes decide that a group carries no signal
    metric: str = "reward"  # what they are compared by: an entry of what the reward function returns
    max_inflight_gen_batches: Annotated[int, Field(ge=1)] = 1  # how many batches are drawn at once to fill up


def outcomes_by_group(
    outcomes: Sequence[bool], index: Sequence[Group], on_policy: Sequence[bool]
) -> tuple[dict[Group, list[bool]], dict[Group, list[bool]]]:
    """Return the outcomes of each group: of all its samples, and of those that the policy sampled alone.

    >>> outcomes_by_group([True, False, False], ["a", "a", "b"], [False, True, False])
    ({'a': [True, False], 'b': [False]}, {'a': [False], 'b': []})

    Args:
        outcomes: for each row, whether it is solved.
        index: group ids.
        on_policy: for each row, whether the policy sampled all of it.
    """
    every: dict[Group, list[bool]] = {group: [] for group in index}
    sampled: dict[Group, list[bool]] = {group: [] for group in index}
    for outcome, group, is_on_policy in zip(outcomes, index, on_policy, strict=True):
        every[group].append(outcome)
        if is_on_policy:
            sampled[group].append(outcome)
    return every, sampled
