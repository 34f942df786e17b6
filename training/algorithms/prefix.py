"""The part of the target that a sample starts with. No torch, because the agent loop imports it.

A draw depends on (seed, step, prompt, sample) and on nothing else, so every rank, restart and resume sees the same
prefix.
"""

import hashlib
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from training.algorithms.options import NotNegative, Options, Share, contradiction

THOUGHTS_END, LEAST_HINT = "</think>", 10  # a hint of fewer characters says nothing (QuestA)
STAGES = 10
HINT_CHUNKS, HINT_LOW = 5, 0.05  # for binomial: the parts of a hint, and the chance of each after all steps


class Prefix(Options):
    """The samples of a group that start with part of the target, and how long that part is.

    With ``m, M`` for ``min`` and ``max``, ``S`` for ``steps``, and stages ``i = 0 .. 9`` of a tenth of S:

    ==================  ===================================================================
    ``random``          U(m, M)
    ``linear``          M (1 - min(step / S, 1)), at least m
    ``linear_max``      U(m, (10 - i) M / 10)
    ``linear_variance`` normal about ``linear`` with standard deviation ``std``, held within [m, M]
    ``reverse_linear``  U(m, (i + 1) M / 10)
    ``binomial``        m + (M - m) k / 5, k from Binomial(5, 0.05 + 0.45 (1 + cos(pi t / S))) with t = step + 1; k = 0
                        for t > S
    ``cosine``          U(m + (M - m) (1 + cos(pi min(step / S, 1))) / 2, M): Prefix-RFT (arXiv 2507.01679)
    ``fixed``           ``n`` evenly spaced values of [m, M]; one value is M
    ==================  ===================================================================

    ``binomial`` is the hint of UFT (arXiv 2505.16984); its implementation counts steps from 1 and gives no hint after
    S of them. The original implementation names ``linear_variance`` and never draws from it; the normal distribution is
    ours.

    The classes below have one type each.
    """

    n: Annotated[int, Field(ge=-1)] = 1  # samples of a group with a prefix; -1: all
    min: Share = 1.0
    max: Share = 1.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.n == 0:
            raise ValueError("prefix.n: got 0, expected 1 or more, or -1 for all samples of a group")
        if self.min > self.max:
            raise contradiction("prefix.min", self.min, "prefix.max", self.max, "the minimum is above the maximum")
        return self

    def samples_of(self, n: int) -> int:
        """Return how many of the ``n`` samples of a group start with a prefix: the first ones."""
        return n if self.n == -1 else self.n

    def ratio(self, step: int, draw: float, sample_id: int, n_prefix: int) -> float:
        """Return the share of the target that one of the ``n_prefix`` samples starts with.

        Args:
            step: counted from 0.
            draw: a uniform random number in (0, 1).
        """
        raise NotImplementedError


class Fixed(Prefix):
    type: Literal["fixed"] = "fixed"

    def ratio(self, step: int, draw: float, sample_id: int, n_prefix: int) -> float:
        if sample_id == n_prefix - 1:
            return self.max  # exactly: a ratio just below 1 would cut the end of the target
        return min(self.min + sample_id * ((self.max - self.min) / (n_prefix - 1)), self.max)


class Random(Prefix):
    type: Literal["random"] = "random"
    share: bool = False  # one draw for all samples of a prompt

    def ratio(self, step: int, draw: float, sample_id: int, n_prefix: int) -> float:
        return self.up_to(STAGES, draw)

    def up_to(self, tenths: int, draw: float) -> float:
        top = tenths * self.max / STAGES
        return self.min + (max(top, self.min) - self.min) * draw


class Linear(Prefix):
    type: Literal["linear"] = "linear"
    steps: Annotated[int, Field(ge=1)] = 300  # length of the schedule

    def ratio(self, step: int, draw: float, sample_id: int, n_prefix: int) -> float:
        return max(self.min, self.max * (1.0 - min(step / self.steps, 1.0)))


class LinearVariance(Linear):
    type: Literal["linear_variance"] = "linear_variance"  # pyright: ignore[reportIncompatibleVariableOverride]
    std: NotNegative = 0.1  # standard deviation
    share: bool = False

    def ratio(self, step: int, draw: float, sample_id: int, n_prefix: int) -> float:
        mean = super().ratio(step, draw, sample_id, n_prefix)
        ratio = NormalDist(mean, self.std).inv_cdf(draw) if self.std else mean
        return min(max(ratio, self.min), self.max)


class Staged(Random):
    """A random part with an upper end that rises (``reverse_linear``) or falls (``linear_max``) in ten stages."""

    type: Literal["linear_max", "reverse_linear"]  # pyright: ignore[reportGeneralTypeIssues, reportIncompatibleVariableOverride]
    steps: Annotated[int, Field(ge=1)] = 300

    def ratio(self, step: int, draw: float, sample_id: int, n_prefix: int) -> float:
        stage = min(max(-(-step * STAGES // self.steps) - 1, 0), STAGES - 1)
        return self.up_to(stage + 1 if self.type == "reverse_linear" else STAGES - stage, draw)


class Cosine(Random):
    type: Literal["cosine"] = "cosine"  # pyright: ignore[reportIncompatibleVariableOverride]
    steps: Annotated[int, Field(ge=1)] = 500

    def ratio(self, step: int, draw: float, sample_id: int, n_prefix: int) -> float:
        return self.lowest(step) + (self.max - self.lowest(step)) * draw

    def lowest(self, step: int) -> float:
        """Return the lower end of the ratios in a step.

        >>> [round(Cosine(min=0.05, max=0.95).lowest(step), 4) for step in (0, 125, 250, 375, 500)]
        [0.95, 0.8182, 0.5, 0.1818, 0.05]
        """
        return self.min + (self.max - self.min) * 0.5 * (1.0 + math.cos(math.pi * min(step / self.steps, 1.0)))


class Binomial(Random):
    type: Literal["binomial"] = "binomial"  # pyright: ignore[reportIncompatibleVariableOverride]
    steps: Annotated[int, Field(ge=1)] = 300

    def ratio(self, step: int, draw: float, sample_id: int, n_prefix: int) -> float:
        step += 1
        if step > self.steps:
            return self.min
        q = HINT_LOW + (1.0 - 2.0 * HINT_LOW) * 0.5 * (1.0 + math.cos(math.pi * step / self.steps))
        chunks, below = 0, (1.0 - q) ** HINT_CHUNKS
        while draw > below and chunks < HINT_CHUNKS:
            chunks += 1
            below += math.comb(HINT_CHUNKS, chunks) * q**chunks * (1.0 - q) ** (HINT_CHUNKS - chunks)
        return min(self.min + (self.max - self.min) * chunks / HINT_CHUNKS, self.max)


AnyPrefix = Annotated[
    Fixed | Random | Linear | LinearVariance | Staged | Cosine | Binomial, Field(discriminator="type")
]


def prefix_ratio(
    prefix: Prefix, step: int, *, sample_id: int, n: int, seed: int = 0, prompt_id: str | int = 0
) -> float:
    """Return the share of the target (with its EOS) that one sample starts with; 0 for samples from ``prefix.n`` on.

    >>> half = Linear(min=0.0, max=0.8, steps=100)
    >>> [prefix_ratio(half, 50, sample_id=i, n=3) for i in range(3)]
    [0.4, 0.0, 0.0]

    Args:
        step: counted from 0. Stage i covers the steps after ``i S / 10`` up to ``(i + 1) S / 10``, stage 0 also step 0.
        sample_id: 0 .. n - 1, the sample's number in its group.
        prompt_id: what names the prompt in every epoch and after a resume, not a number that a restart assigns anew.

    Returns:
        A float in [min, max], or 0.0.
    """
    if sample_id >= (n_prefix := prefix.samples_of(n)):
        return 0.0
    draw = _uniform(seed, step, prompt_id, -1 if getattr(prefix, "share", False) else sample_id)
    return prefix.ratio(step, draw, sample_id, n_prefix)


def cut_prefix(mask: Sequence[int], ratio: float, *, response_length: int) -> int:
    """Return how many tokens of a target the response starts with: those up to the last one of its share.

    The share is of the tokens that count, each end of a turn included: an observation belongs to the tokens around it,
    and an observation behind the last token of the share is left to the tool.

    >>> [cut_prefix([1, 1, 0, 0, 1, 1], ratio, response_length=8) for ratio in (0.0, 0.5, 0.75, 1.0)]
    [0, 2, 5, 6]

    Args:
        mask: of the target's tokens; 0 for those of observations. An empty target gives no prefix.
        response_length: the limit in tokens. The original implementation cuts a longer target, EOS included. Here data
            preparation rejects it, and meeting one is an error.

    Raises:
        ValueError: the target is longer than the limit.
    """
    if len(mask) > response_length:
        raise ValueError(
            f"target: {len(mask)} tokens with its EOS, but a response has at most {response_length}; "
            "reject it in data preparation (max_target_length) or raise the response length"
        )
    ends = [position for position, counts in enumerate(mask, start=1) if counts]
    return [0, *ends][int(len(ends) * ratio)]


def answer_prefix(target: str, ratio: float) -> str:
    """Return the first ``ratio`` of the characters that follow the thoughts of a target, as QuestA does; "" if too few.

    >>> answer_prefix("<think>why</think>x = 4, because 2 + 2", 0.5), answer_prefix("</think>x = 4 because 2 + 2", 0.5)
    ('x = 4, bec', '')
    """
    answer = target.rpartition(THOUGHTS_END)[2].strip()
    hint = answer[: int(len(answer) * ratio)]
    return hint if len(hint) >= LEAST_HINT else ""


def _uniform(seed: int, step: int, prompt_id: str | int, sample_id: int) -> float:
    """Hash the arguments to a float strictly between 0 and 1, the same on every machine and version of Python."""
    key = repr((int(seed), int(step), str(prompt_id), int(sample_id))).encode()
    return (int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") // 2**12 + 0.5) / 2**52
