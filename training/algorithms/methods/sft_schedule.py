"""The weight of the supervised loss over the steps. Plain floats, no torch."""

import math

from training.algorithms.options import SFTMultitaskOptions


def sft_coefficient(options: SFTMultitaskOptions, step: int) -> float:
    """Return the weight of the supervised loss at a step: ``coef``, or mu of CHORD (arXiv 2508.11408, section 4.1).

    It rises from 0 to ``coef`` over ``warmup_steps``, falls along half a cosine to ``valley`` over the following
    ``decay_steps``, and stays there. Without ``decay_steps`` it stays ``coef``.

    >>> chord = SFTMultitaskOptions(use=True, coef=0.9, valley=0.1, warmup_steps=2, decay_steps=4)
    >>> [round(sft_coefficient(chord, step), 3) for step in range(8)]
    [0.0, 0.45, 0.9, 0.783, 0.5, 0.217, 0.1, 0.1]

    Args:
        step: counted from 0.

    Raises:
        ValueError: a negative step.
    """
    if step < 0:
        raise ValueError(f"step: expected 0 or more, got {step}")
    if step < options.warmup_steps:
        return options.coef * step / options.warmup_steps
    if not options.decay_steps:
        return options.coef
    progress = min((step - options.warmup_steps) / options.decay_steps, 1.0)
    return options.valley + (options.coef - options.valley) * 0.5 * (1.0 + math.cos(math.pi * progress))


def policy_weight(options: SFTMultitaskOptions, coefficient: float) -> float:
    """Return the weight of the policy loss beside the supervised one: 1, or ``1 - mu`` with ``complement``.

    >>> policy_weight(SFTMultitaskOptions(use=True, complement=True), 0.25)
    0.75
    """
    return 1.0 - coefficient if options.complement else 1.0
