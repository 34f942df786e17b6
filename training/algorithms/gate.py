"""Choose RL or supervised training for each prompt by its successes (HPT, arXiv 2509.04419). No torch."""

from collections.abc import Hashable, Sequence
from typing import Annotated, Literal

from pydantic import Field

from training.algorithms.groups import outcomes_by_group
from training.algorithms.options import Options


class HardGate(Options):
    """HPT's switch: RL where more than ``gamma`` samples are right, else the target."""

    type: Literal["hard"] = "hard"
    gamma: Annotated[int, Field(ge=0)] = 0

    def policy(self, successes: int, n: int) -> float:
        return float(successes > self.gamma)


class SoftGate(Options):
    """RL by the share of right samples."""

    type: Literal["soft"] = "soft"

    def policy(self, successes: int, n: int) -> float:
        return successes / n


AnyGate = Annotated[HardGate | SoftGate, Field(discriminator="type")]


def group_gate(
    solved: Sequence[bool], index: Sequence[Hashable], on_policy: Sequence[bool], gate: AnyGate
) -> list[tuple[float, float]]:
    """Return the weights of each row's policy loss and supervised loss, by ``k`` successes of ``n`` on-policy samples.

    ========  ============================================================================  ==========
    ``type``  policy loss                                                                   supervised
    ========  ============================================================================  ==========
    ``hard``  1 if ``k > gamma`` else 0 (HPT's switch; gamma 0 or 2)                        1 - policy
    ``soft``  ``k / n``: HPT's feedback functions alpha and beta as straight lines (ours)   1 - policy
    ========  ============================================================================  ==========

    A prompt without an off-policy sample has nothing to imitate, and one without an on-policy sample nothing to count:
    their weights are 1 and 1.

    >>> solved, index = [True, False, False, True, True, False], [7, 7, 7, 8, 8, 8]
    >>> on_policy = [False, True, True, False, True, True]  # 7 was not solved, 8 once
    >>> group_gate(solved, index, on_policy, HardGate())[2:4]
    [(0.0, 1.0), (1.0, 0.0)]
    >>> group_gate(solved, index, on_policy, SoftGate())[2:4]
    [(0.0, 1.0), (0.5, 0.5)]

    Args:
        solved: for each row, whether its answer is right.
        index: group ids.
        on_policy: for each row, whether the policy sampled all of it.
    """
    every, sampled = outcomes_by_group(solved, index, on_policy)
    policy = {
        group: gate.policy(sum(outcomes), len(outcomes))
        for group, outcomes in sampled.items()
        if 0 < len(outcomes) < len(every[group])
    }
    return [(policy[group], 1.0 - policy[group]) if group in policy else (1.0, 1.0) for group in index]
