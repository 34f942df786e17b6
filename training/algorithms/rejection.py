"""Groups that carry no signal: every member solved, or every member failed (seed 000, rejection sampling). No torch."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from training.algorithms.names import BASELINES, require_choice


@dataclass(frozen=True)
class Rejection:
    """What to keep of a batch.

    ``keep``: one bool a row. ``metrics``: ``groups``, ``rejected_groups``, and how many groups the policy alone solved
    always (``solve_all``), never (``solve_none``) or sometimes (``solve_partial``).
    """

    keep: list[bool]
    metrics: dict[str, float]


def reject_groups(
    solved: Sequence[bool],
    index: Sequence[Hashable],
    on_policy: Sequence[bool],
    filter_on: Literal["on_policy", "union"],
) -> Rejection:
    """Reject the groups whose members all have one outcome.

    ``filter_on="union"`` looks at every member: with a correct demonstration, a group that the policy never solves is
    kept, and it is the one that the demonstration teaches most. ``"on_policy"`` looks at the policy's own samples only
    and rejects it. The metrics never count a demonstration. A group with fewer than two members to look at is kept:
    one outcome is no evidence.

    Args:
        solved: for each row, whether its answer is right.
        index: group ids, hashable.
        on_policy: for each row, whether the policy sampled all of it.

    Raises:
        ValueError: unknown ``filter_on``, or lengths that differ.
    """
    require_choice("filter_on", filter_on, BASELINES)
    for name, values in (("index", index), ("on_policy", on_policy)):
        if len(values) != len(solved):
            raise ValueError(f"{name}: expected {len(solved)} values, one for each row of solved, got {len(values)}")
    looked_at: dict[Hashable, list[bool]] = {}
    own: dict[Hashable, list[bool]] = {}
    for outcome, group, own_sample in zip(solved, index, on_policy, strict=True):
        looked_at.setdefault(group, [])
        own.setdefault(group, [])
        if own_sample:
            own[group].append(bool(outcome))
        if own_sample or filter_on == "union":
            looked_at[group].append(bool(outcome))
    rejected = {group for group, outcomes in looked_at.items() if len(outcomes) > 1 and len(set(outcomes)) == 1}
    shares = [set(outcomes) for outcomes in own.values() if outcomes]
    metrics = {
        "groups": len(looked_at),
        "rejected_groups": len(rejected),
        "solve_all": sum(share == {True} for share in shares),
        "solve_none": sum(share == {False} for share in shares),
        "solve_partial": sum(len(share) == 2 for share in shares),
    }
    return Rejection([group not in rejected for group in index], {name: float(n) for name, n in metrics.items()})
