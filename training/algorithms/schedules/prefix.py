"""The part of the target that a sample starts with. No torch, because the agent loop imports it.

A draw depends on (seed, step, prompt, sample) and on nothing else, so every rank, restart and resume sees the same
prefix.
"""

import hashlib
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from training.algorithms.options import PrefixOptions
from training.algorithms.registry import PREFIX_STRATEGIES

STAGES = 10
HINT_CHUNKS, HINT_LOW = 5, 0.05  # for binomial: the parts of a hint, and the chance of each after all steps


class Sample(NamedTuple):
    """The inputs of a strategy: the step (from 0), the sample's number in its group and a uniform draw in (0, 1)."""

    step: int
    sample_id: int
    n_prefix: int
    draw: float


def prefix_ratio(
    options: PrefixOptions, step: int, *, sample_id: int, n: int, seed: int = 0, prompt_id: str | int = 0
) -> float:
    """Return the share of the target (with its EOS) that one sample starts with; 0 for samples from ``n_prefix`` on.

    With ``m, M`` for ``options.min`` and ``.max``, ``S`` for ``.steps``, and stages ``i = 0 .. 9`` of a tenth of S:

    ==================  ===================================================================
    ``random``          U(m, M)
    ``linear``          M (1 - min(step / S, 1)), at least m
    ``linear_max``      U(m, (10 - i) M / 10)
    ``linear_variance`` normal about ``linear`` with standard deviation ``std``, held within [m, M]
    ``reverse_linear``  U(m, (i + 1) M / 10)
    ``binomial``        m + (M - m) k / 5, k from Binomial(5, 0.05 + 0.45 (1 + cos(pi t / S))) with t = step + 1; k = 0
                        for t > S
    ``fixed``           ``n_prefix`` evenly spaced values of [m, M]; one value is M
    ==================  ===================================================================

    ``binomial`` is the hint of UFT (arXiv 2505.16984), whose implementation counts steps from 1 and gives no hint after
    S of them. The original implementation names ``linear_variance`` and never draws from it; the normal distribution is
    ours.

    >>> half = PrefixOptions(n_prefix=1, strategy="linear", min=0.0, max=0.8, steps=100)
    >>> [prefix_ratio(half, 50, sample_id=i, n=3) for i in range(3)]
    [0.4, 0.0, 0.0]

    Args:
        step: counted from 0. Stage i covers the steps after ``i S / 10`` up to ``(i + 1) S / 10``, stage 0 also step 0.
        sample_id: 0 .. n - 1, the sample's number in its group.
        prompt_id: what names the prompt in every epoch and after a resume, not a number that a restart assigns anew.

    Returns:
        A float in [m, M], or 0.0.

    Raises:
        ValueError: a number is out of its range; the message names it.
    """
    if step < 0:
        raise ValueError(f"step: expected 0 or more, got {step}")
    if n < 1 or options.n_prefix > n:
        raise ValueError(f"n_prefix: expected 0 to n = {n} samples, or -1 for all of them, got {options.n_prefix}")
    if not 0 <= sample_id < n:
        raise ValueError(f"sample_id: expected 0 to {n - 1}, got {sample_id}")
    n_prefix = options.samples_of(n)
    if sample_id >= n_prefix:
        return 0.0
    draw = _uniform(seed, step, prompt_id, -1 if options.share else sample_id)
    return PREFIX_STRATEGIES.function(options.strategy)(options, Sample(step, sample_id, n_prefix, draw))


def random(options: PrefixOptions, sample: Sample) -> float:
    return _uniform_up_to(STAGES, options, sample)


def linear(options: PrefixOptions, sample: Sample) -> float:
    return max(options.min, options.max * (1.0 - min(sample.step / options.steps, 1.0)))


def linear_max(options: PrefixOptions, sample: Sample) -> float:
    return _uniform_up_to(STAGES - _stage(options, sample), options, sample)


def linear_variance(options: PrefixOptions, sample: Sample) -> float:
    mean = linear(options, sample)
    ratio = NormalDist(mean, options.std).inv_cdf(sample.draw) if options.std else mean
    return min(max(ratio, options.min), options.max)


def reverse_linear(options: PrefixOptions, sample: Sample) -> float:
    return _uniform_up_to(_stage(options, sample) + 1, options, sample)


def binomial(options: PrefixOptions, sample: Sample) -> float:
    step = sample.step + 1
    if step > options.steps:
        return options.min
    q = HINT_LOW + (1.0 - 2.0 * HINT_LOW) * 0.5 * (1.0 + math.cos(math.pi * step / options.steps))
    chunks, below = 0, (1.0 - q) ** HINT_CHUNKS
    while sample.draw > below and chunks < HINT_CHUNKS:
        chunks += 1
        below += math.comb(HINT_CHUNKS, chunks) * q**chunks * (1.0 - q) ** (HINT_CHUNKS - chunks)
    return min(options.min + (options.max - options.min) * chunks / HINT_CHUNKS, options.max)


def fixed(options: PrefixOptions, sample: Sample) -> float:
    if sample.sample_id == sample.n_prefix - 1:
        return options.max  # exactly: a ratio just below 1 would cut the end of the target
    ratio = options.min + sample.sample_id * ((options.max - options.min) / (sample.n_prefix - 1))
    return min(ratio, options.max)


def prefix_length(n_target_tokens: int, ratio: float) -> int:
    """Return the number of tokens of the prefix: ``int(n_target_tokens * ratio)``, for a target counted with its EOS.

    Raises:
        ValueError: a negative count, or a ratio outside [0, 1].
    """
    if n_target_tokens < 0:
        raise ValueError(f"n_target_tokens: expected 0 or more, got {n_target_tokens}")
    if not 0.0 <= ratio <= 1.0:
        raise ValueError(f"ratio: expected a number in [0, 1], got {ratio}")
    return int(n_target_tokens * ratio)


def cut_prefix(target: Sequence[int], ratio: float, *, eos_id: int, response_length: int) -> list[int]:
    """Return the tokens that the response starts with: the first part of target + EOS; all of it at ratio 1.

    >>> [cut_prefix([11, 12, 13], ratio, eos_id=1, response_length=8) for ratio in (0.5, 1.0)]
    [[11, 12], [11, 12, 13, 1]]

    Args:
        target: token ids without EOS; an empty target gives no prefix.
        response_length: the limit in tokens. The original implementation cuts a longer target, EOS included. Here data
            preparation rejects it, and meeting one is an error.

    Raises:
        ValueError: target + EOS is longer than the limit, or the ratio is outside [0, 1].
    """
    if not target:
        return []
    whole = [*target, eos_id]
    if len(whole) > response_length:
        raise ValueError(
            f"target: {len(whole)} tokens with its EOS, but a response has at most {response_length}; "
            "reject it in data preparation (max_target_length) or raise the response length"
        )
    return whole[: prefix_length(len(whole), ratio)]


def _stage(options: PrefixOptions, sample: Sample) -> int:
    return min(max(-(-sample.step * STAGES // options.steps) - 1, 0), STAGES - 1)


def _uniform_up_to(tenths: int, options: PrefixOptions, sample: Sample) -> float:
    top = tenths * options.max / STAGES
    return options.min + (max(top, options.min) - options.min) * sample.draw


def _uniform(seed: int, step: int, prompt_id: str | int, sample_id: int) -> float:
    """Hash the arguments to a float strictly between 0 and 1, the same on every machine and version of Python."""
    key = repr((int(seed), int(step), str(prompt_id), int(sample_id))).encode()
    return (int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") // 2**12 + 0.5) / 2**52
