"""ExGRPO's replay store of the policy's own successes (arXiv 2510.02245). No torch."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Any

from pydantic import Field

from training.algorithms.options import Options, Share


class Replay(Options):
    """A replay of the policy's own right samples."""

    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5  # largest share of a batch's prompts
    start: Share = 0.35  # share of right samples above which it begins


@dataclass(frozen=True)
class Trajectory:
    """A right sample: its tokens, and their log-probabilities when it was generated."""

    tokens: Sequence[int]
    log_probs: Sequence[float]


@dataclass(frozen=True)
class Experience:
    """The stored samples of a prompt: all right ones, and the number of right ones in its latest group with any."""

    successes: int
    trajectories: Sequence[Trajectory]

    def choose(self, entropies: Sequence[float]) -> Trajectory:
        """Choose the trajectory of which the policy is surest: the lowest mean entropy under the current policy."""
        return min(zip(entropies, self.trajectories, strict=True), key=lambda pair: pair[0])[1]


@dataclass
class ReplayStore:
    """Prompts that the policy solves sometimes, with their right samples.

    Replay starts with the first batch of which more than ``options.start`` is right, and the store fills from the batch
    after it. If all samples of a group are right, its prompt retires for good, whether replay has started or not. A
    group without a right sample changes nothing.

    >>> store = ReplayStore(Replay())
    >>> store.note_success(0.36)
    >>> first, second = Trajectory([5, 2], [-0.1, -0.3]), Trajectory([6, 2], [-0.2, -0.2])
    >>> store.add(7, successes=2, samples=4, right=[first, second])
    >>> store.add(8, successes=1, samples=4, right=[first])
    >>> store.add(9, successes=4, samples=4, right=[first])
    >>> store.add(7, successes=0, samples=4, right=[])
    >>> {prompt: (kept.successes, len(kept.trajectories)) for prompt, kept in store.experiences.items()}
    {7: (2, 2), 8: (1, 1)}
    >>> store.draw(4, n=4, seed=0), store.retired, store.experiences[7].choose([0.4, 0.2]) is second
    ([7, 8], {9}, True)

    Args:
        absent: retired prompts that have left the dataset, which they do when an epoch starts.
    """

    options: Replay
    experiences: dict[int, Experience] = field(default_factory=dict)
    retired: set[int] = field(default_factory=set)
    absent: set[int] = field(default_factory=set)
    started: bool = False

    def note_success(self, share: float) -> None:
        """Start to replay if a larger ``share`` of a batch's on-policy samples is right than ``options.start``."""
        self.started = self.started or share > self.options.start

    def start_epoch(self, prompts: int, batch: int) -> None:
        """Take the retired prompts out of the dataset, if a ``batch`` of its ``prompts`` remains."""
        if prompts - len(self.retired) >= batch:
            self.absent = set(self.retired)

    def add(self, prompt: int, successes: int, samples: int, right: Iterable[Trajectory]) -> None:
        """Take in the latest group of ``prompt``.

        Args:
            successes: its right samples, a replayed one included.
            samples: The samples of the group.
            right: the right samples that the policy generated.
        """
        if successes == samples:
            self.retired.add(prompt)
            self.experiences.pop(prompt, None)
        if prompt in self.retired or not self.started or not successes:
            return
        earlier = self.experiences.get(prompt)
        kept = {tuple(one.tokens): one for one in right} | {
            tuple(one.tokens): one for one in (earlier.trajectories if earlier else ())
        }
        if kept:
            self.experiences[prompt] = Experience(successes, [kept[tokens] for tokens in sorted(kept)])

    def rows(self) -> list[dict[str, Any]]:
        """Return the stored samples, one a row."""
        return [
            {"prompt": prompt, "successes": kept.successes, **vars(trajectory)}
            for prompt, kept in sorted(self.experiences.items())
            for trajectory in kept.trajectories
        ]

    def take(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take over the stored samples that `rows` returned."""
        kept: dict[int, tuple[int, list[Trajectory]]] = {}
        for row in rows:
            _, paths = kept.setdefault(row["prompt"], (row["successes"], []))
            paths.append(Trajectory(row["tokens"], row["log_probs"]))
        self.experiences = {prompt: Experience(*one) for prompt, one in kept.items()}

    def draw(self, prompts: int, n: int, seed: int) -> list[int]:
        """Choose what to replay in a batch of ``prompts``: at most ``options.share`` of it, none twice.

        First a bucket, of the prompts with ``k`` right samples, by `bucket_weight`; then one of its prompts, all alike.
        The draw depends on ``seed`` and the content alone, not on the order in which it came.
        """
        if not self.started:
            return []
        random, buckets = Random(seed), dict[int, list[int]]()
        for prompt, kept in sorted(self.experiences.items()):
            buckets.setdefault(kept.successes, []).append(prompt)
        chosen = []
        while buckets and len(chosen) < int(self.options.share * prompts):
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
