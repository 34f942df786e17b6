"""The replay of ExGRPO: successes of the policy (arXiv 2510.02245). No torch."""

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Annotated, NamedTuple

from pydantic import Field

from training.algorithms.options import Options, Share


class Replay(Options):
    """A replay of the policy's right samples."""

    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5  # largest share of a batch's prompts
    start: Share = 0.35  # share of right samples above which it begins


class Trajectory(NamedTuple):
    """A right sample: its tokens, their log-probabilities when it was generated, and 0 for tokens of observations."""

    tokens: Sequence[int]
    log_probs: Sequence[float]
    mask: Sequence[int]


class Experience(NamedTuple):
    """The stored samples of a prompt: all right ones, and the number of right ones in its latest group with any."""

    successes: int
    trajectories: Sequence[Trajectory]

    def add(self, successes: int, right: Sequence[Trajectory]) -> "Experience":
        """Return it with the ``right`` samples of the latest group; one that is there already stays as it is.

        >>> first, second = Trajectory([5, 2], [-0.1, -0.3], [1, 1]), Trajectory([6, 2], [-0.2, -0.2], [1, 1])
        >>> stored = Experience(1, [first]).add(2, [second, Trajectory([5, 2], [-9.0, -9.0], [1, 1])])
        >>> stored.successes, stored.trajectories == [first, second]
        (2, True)
        """
        stored = {tuple(one.tokens): one for one in (*right, *self.trajectories)}
        return Experience(successes, [stored[tokens] for tokens in sorted(stored)])


def draw(experiences: Mapping[int, Experience], size: int, n: int, seed: int) -> list[int]:
    """Choose ``size`` prompts to replay, none twice; fewer if there are not so many.

    First a bucket, of the prompts with ``k`` right samples of ``n``, by `bucket_weight`; then one of its prompts, all
    alike. The draw depends on ``seed`` and the content alone, not on the order in which it came.

    >>> draw({8: Experience(1, []), 7: Experience(2, [])}, 4, n=4, seed=0)
    [7, 8]
    """
    random, buckets = Random(seed), dict[int, list[int]]()
    for prompt, stored in sorted(experiences.items()):
        buckets.setdefault(stored.successes, []).append(prompt)
    chosen: list[int] = []
    while buckets and len(chosen) < size:
        names = sorted(buckets)
        (bucket,) = random.choices(names, [bucket_weight(name, n) for name in names])
        chosen.append(buckets[bucket].pop(random.randrange(len(buckets[bucket]))))
        if not buckets[bucket]:
            del buckets[bucket]
    return chosen


def bucket_weight(successes: int, n: int) -> float:
    """Return ``exp(-(k - n / 2)^2 / 2)``: prompts that the policy solves half of the time are replayed most.

    >>> [round(bucket_weight(k, 4), 3) for k in (1, 2, 3)]
    [0.607, 1.0, 0.607]
    """
    return math.exp(-((successes - n / 2) ** 2) / 2)
