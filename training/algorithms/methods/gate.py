"""Choose RL or supervised training for each prompt by its successes (HPT, arXiv 2509.04419). No torch."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from training.algorithms.group_rejection import outcomes_by_group
from training.algorithms.options import GateOptions
from training.algorithms.registry import GATES


class Weights(NamedTuple):
    """The weights of one prompt: for its policy loss, and for the supervised loss on its target."""

    policy: float
    supervised: float


def group_gate(
    solved: Sequence[bool], index: Sequence[Hashable], on_policy: Sequence[bool], options: GateOptions
) -> list[Weights]:
    """Return the weights of each row's prompt, by the successes ``k`` of its ``n`` on-policy samples.

    ========  ============================================================================  ==========
    ``type``  policy loss                                                                   supervised
    ========  ============================================================================  ==========
    ``none``  1                                                                             1
    ``hard``  1 if ``k > gamma`` else 0 (HPT's switch; gamma 0 or 2)                        1 - policy
    ``soft``  ``k / n``: HPT's feedback functions alpha and beta as straight lines (ours)   1 - policy
    ========  ============================================================================  ==========

    A prompt without an off-policy sample has nothing to imitate, and one without an on-policy sample nothing to count:
    their weights are 1 and 1.

    >>> solved, index = [True, False, False, True, True, False], [7, 7, 7, 8, 8, 8]
    >>> on_policy = [False, True, True, False, True, True]  # 7 was not solved, 8 once
    >>> [tuple(row) for row in group_gate(solved, index, on_policy, GateOptions(type="hard"))][2:4]
    [(0.0, 1.0), (1.0, 0.0)]
    >>> [tuple(row) for row in group_gate(solved, index, on_policy, GateOptions(type="soft"))][2:4]
    [(0.0, 1.0), (0.5, 0.5)]

    Args:
        solved: for each row, whether its answer is right.
        index: group ids.
        on_policy: for each row, whether the policy sampled all of it.

    Raises:
        ValueError: the lengths differ.
    """
    every, sampled = outcomes_by_group(solved, index, on_policy)
    gate = GATES.function(options.type)
    weights = {
        group: Weights(*map(float, gate(sum(outcomes), len(outcomes), options)))
        for group, outcomes in sampled.items()
        if 0 < len(outcomes) < len(every[group])
    }
    return [weights.get(group, Weights(1.0, 1.0)) for group in index]


def none(successes: int, n: int, options: GateOptions) -> Weights:
    return Weights(1.0, 1.0)


def hard(successes: int, n: int, options: GateOptions) -> Weights:
    policy = float(successes > options.gamma)
    return Weights(policy, 1.0 - policy)


def soft(successes: int, n: int, options: GateOptions) -> Weights:
    return Weights(successes / n, 1.0 - successes / n)
