"""Group outcomes, and the rejection of groups without a signal, in which all scores are equal. No torch."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, NamedTuple, TypeVar

from pydantic import Field

from training.algorithms.options import Baseline, Options

Group = TypeVar("Group", bound=Hashable)

SOLVED = 1.0  # a score from which a sample is right; scores lie in [0, 1]


class Filter(Options):
    """Groups of one outcome are dropped, and others are drawn in their place."""

    by: Baseline = "all_samples"  # the samples whose outcomes decide that a group carries no signal
    metric: str = "reward"  # what they are compared by: an entry of what the reward function returns
    max_inflight_gen_batches: Annotated[int, Field(ge=1)] = 1  # how many batches are drawn at once to fill up


@dataclass(frozen=True)
class Rejection:
    """The parts of a batch to keep.

    ``keep``: one bool per row. ``metrics``: ``groups``, ``rejected_groups``, and how many groups the policy alone
    solved always (``solve_all``), never (``solve_none``) or sometimes (``solve_partial``). A sample is solved from a
    score of `SOLVED` on.
    """

    keep: list[bool]
    metrics: dict[str, float]


def reject_groups(
    scores: Sequence[float], index: Sequence[Hashable], on_policy: Sequence[bool], decide: Baseline
) -> Rejection:
    """Reject the groups whose members all have one score, because their advantages are 0.

    ``decide="all_samples"`` looks at every member: a group that the policy never solves is kept if its off-policy
    sample is right, and that is the group from which the policy learns most. ``"on_policy"`` looks at on-policy samples
    only, and rejects it. The metrics never count off-policy samples. A group with fewer than two members to look at is
    kept, because one outcome is no evidence.

    >>> scores, index, on_policy = [1.0, 0.0, 0.0], ["a", "a", "a"], [False, True, True]
    >>> reject_groups(scores, index, on_policy, "all_samples").keep
    [True, True, True]
    >>> reject_groups(scores, index, on_policy, "on_policy").keep
    [False, False, False]
    >>> reject_groups([1.0, 0.5, 0.0], index, on_policy, "on_policy").keep
    [True, True, True]

    Args:
        scores: of each row.
        index: group ids.
        on_policy: for each row, whether the policy sampled all of it.

    Raises:
        ValueError: the lengths differ.
    """
    every, sampled = outcomes_by_group(scores, index, on_policy)
    criterion = every if decide == "all_samples" else sampled
    rejected = {group for group, outcomes in criterion.items() if len(outcomes) > 1 and len(set(outcomes)) == 1}
    kinds = [{score >= SOLVED for score in outcomes} for outcomes in sampled.values()]
    metrics = {
        "groups": len(every),
        "rejected_groups": len(rejected),
        "solve_all": kinds.count({True}),
        "solve_none": kinds.count({False}),
        "solve_partial": kinds.count({True, False}),
    }
    return Rejection([group not in rejected for group in index], {name: float(n) for name, n in metrics.items()})


class Outcomes(NamedTuple, Generic[Group]):
    """The outcomes by group: of all its samples, and of those that the policy sampled alone."""

    every: dict[Group, list[float]]
    sampled: dict[Group, list[float]]


def outcomes_by_group(outcomes: Sequence[float], index: Sequence[Group], on_policy: Sequence[bool]) -> Outcomes[Group]:
    """Return the outcome of each group of a batch; ``sampled`` is empty for a group without on-policy samples.

    >>> outcomes_by_group([True, False, False], ["a", "a", "b"], [False, True, False])
    Outcomes(every={'a': [True, False], 'b': [False]}, sampled={'a': [False], 'b': []})

    Args:
        outcomes: for each row its score, or whether it is solved.
        index: group ids.
        on_policy: for each row, whether the policy sampled all of it.

    Raises:
        ValueError: the lengths differ.
    """
    for name, values in (("index", index), ("on_policy", on_policy)):
        if len(values) != len(outcomes):
            raise ValueError(f"{name}: expected {len(outcomes)} values, one for each outcome, got {len(values)}")
    every: dict[Group, list[float]] = {group: [] for group in index}
    sampled: dict[Group, list[float]] = {group: [] for group in index}
    for outcome, group, is_on_policy in zip(outcomes, index, on_policy, strict=True):
        every[group].append(outcome)
        if is_on_policy:
            sampled[group].append(outcome)
    return Outcomes(every, sampled)
