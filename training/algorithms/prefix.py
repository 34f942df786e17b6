"""How much of the teacher's target a sample starts with (seed 002, section 1.2.2). No torch: the agent loop runs it.

A draw depends on (seed, step, prompt, sample) and on nothing else, so every rank, restart and resume sees the same
prefix.
"""

import hashlib
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

from training.algorithms.names import PREFIX_STRATEGIES, PrefixStrategy, require_choice

STAGES = 10


def prefix_ratios(strategy: PrefixStrategy, step: int, *, n: int, **schedule: Any) -> list[float]:
    """The ratios of the ``n`` samples of one prompt: ``n_prefix`` of the schedule, then zeros.

    ``schedule`` holds the other arguments of `prefix_ratio`, which says what each means and raises.
    """
    return [prefix_ratio(strategy, step, sample_id=sample_id, n=n, **schedule) for sample_id in range(n)]


def prefix_ratio(
    strategy: PrefixStrategy,
    step: int,
    *,
    sample_id: int,
    n: int,
    n_prefix: int,
    minimum: float = 0.0,
    maximum: float = 1.0,
    steps: int = 300,
    share: bool = False,
    spread: float = 0.1,
    seed: int = 0,
    prompt_id: str | int = 0,
) -> float:
    """The share of the target (with its EOS) that one sample starts with; 0 for samples from ``n_prefix`` on.

    With ``m, M`` the minimum and maximum, ``S`` the steps and stage ``i = 0 .. 9`` a tenth of them:

    ==================  ===================================================================
    ``random``          U(m, M)
    ``linear``          M (1 - min(step / S, 1)), at least m
    ``linear_max``      U(m, (10 - i) M / 10)
    ``linear_variance`` normal about ``linear`` with standard deviation ``spread``, held within [m, M]
    ``reverse_linear``  U(m, (i + 1) M / 10)
    ``fixed``           ``n_prefix`` evenly spaced values of [m, M]; one value is M
    ==================  ===================================================================

    The reference names ``linear_variance`` and never draws from it; the normal is ours.

    Args:
        step: counted from 0. Stage i covers the steps after ``i S / 10`` up to ``(i + 1) S / 10``, stage 0 also step 0.
        sample_id: 0 .. n - 1, the sample's number in its group.
        n_prefix: samples with a prefix, 0 .. n, or -1 for all.
        share: one draw for all samples of the prompt.
        prompt_id: what names the prompt in every epoch and after a resume, not a number that a restart assigns anew.

    Returns:
        A float in [minimum, maximum], or 0.0.

    Raises:
        ValueError: an unknown strategy, or a number out of its range; the message names it.
    """
    require_choice("prefix strategy", strategy, PREFIX_STRATEGIES)
    _check(step, sample_id, n, n_prefix, minimum, maximum, steps, spread)
    if strategy == "fixed" and share:
        raise ValueError("prefix strategy 'fixed' gives each sample its own ratio, so it excludes share=True")
    with_prefix = n if n_prefix == -1 else n_prefix
    if sample_id >= with_prefix:
        return 0.0
    if strategy == "fixed":
        return maximum if with_prefix == 1 else minimum + sample_id * ((maximum - minimum) / (with_prefix - 1))
    linear = max(minimum, maximum * (1.0 - min(step / steps, 1.0)))
    if strategy == "linear":
        return linear
    draw = _uniform(seed, step, prompt_id, -1 if share else sample_id)
    if strategy == "linear_variance":
        ratio = NormalDist(linear, spread).inv_cdf(draw) if spread else linear
        return min(max(ratio, minimum), maximum)
    stage = min(max(-(-step * STAGES // steps) - 1, 0), STAGES - 1)
    top = {"random": STAGES, "linear_max": STAGES - stage, "reverse_linear": stage + 1}[strategy] * maximum / STAGES
    return minimum + (max(top, minimum) - minimum) * draw


def prefix_length(n_target_tokens: int, ratio: float) -> int:
    """The number of tokens of the prefix: ``int(n_target_tokens * ratio)``, for a target counted with its EOS.

    Raises:
        ValueError: a negative count, or a ratio outside [0, 1].
    """
    if n_target_tokens < 0:
        raise ValueError(f"n_target_tokens: expected 0 or more, got {n_target_tokens}")
    if not 0.0 <= ratio <= 1.0:
        raise ValueError(f"ratio: expected a number in [0, 1], got {ratio}")
    return int(n_target_tokens * ratio)


def cut_prefix(target: Sequence[int], ratio: float, *, eos_id: int, response_length: int) -> list[int]:
    """The tokens that the response starts with: the first part of target + EOS; the whole with its EOS at ratio 1.

    Args:
        target: token ids without EOS; an empty one gives no prefix.
        response_length: the limit in tokens. The reference cuts a longer target and glues an EOS to it, which teaches
            to stop in mid-sentence; here data preparation rejects it, so that meeting one is an error.

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


def _uniform(seed: int, step: int, prompt_id: str | int, sample_id: int) -> float:
    """A float strictly between 0 and 1, a hash of its arguments: the same on every machine and version of Python."""
    key = repr((int(seed), int(step), str(prompt_id), int(sample_id))).encode()
    return (int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") // 2**12 + 0.5) / 2**52


def _check(
    step: int, sample_id: int, n: int, n_prefix: int, minimum: float, maximum: float, steps: int, spread: float
) -> None:
    if step < 0:
        raise ValueError(f"step: expected 0 or more, got {step}")
    if steps < 1:
        raise ValueError(f"prefix steps: expected 1 or more, got {steps}")
    if not 0.0 <= minimum <= maximum <= 1.0:
        raise ValueError(f"prefix minimum and maximum: expected 0 <= min <= max <= 1, got {minimum} and {maximum}")
    if n < 1 or not -1 <= n_prefix <= n:
        raise ValueError(f"n_prefix: expected 0 to n = {n} samples, or -1 for all of them, got {n_prefix}")
    if not 0 <= sample_id < n:
        raise ValueError(f"sample_id: expected 0 to {n - 1}, got {sample_id}")
    if spread < 0:
        raise ValueError(f"prefix spread: expected 0 or more, got {spread}")
