"""LUFFY's algorithm as pure functions: no verl, no Dagster, no state beyond the arguments.

One subject a file, in the order in which a training step meets them:

- ``options``: every choice in one frozen dataclass, validated before anything starts
- ``prefix``: how much of the teacher's target a sample starts with (seed 002); ``masks``: which tokens those are
- ``rejection``: groups whose scores carry no signal
- ``advantage``: the group baseline (paper eq. 2; seed 004)
- ``correction``: vLLM's log-probabilities against the actor's (seed 003)
- ``reshape``, ``mixed_loss``, ``sft``: the objective (paper eqs. 4, 5; seed 004)
- ``normalise``: from token losses to one number
- ``entropy``: the adaptive coefficient

``options``, ``prefix``, ``rejection`` and ``entropy`` need no torch, so names are imported on first use: the
orchestration interpreter, which has no torch, validates options with the same code that the trainer runs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from training.algorithms.advantage import (
        apply_prefix_weights,
        compute_grpo_outcome_advantage_split,
        group_advantage,
    )
    from training.algorithms.correction import prefix_is_ratios, rollout_correction
    from training.algorithms.entropy import EntropyController, next_entropy_coefficient
    from training.algorithms.masks import off_policy_mask
    from training.algorithms.mixed_loss import compute_token_on_off_policy_loss, mean_stats, mixed_policy_token_loss
    from training.algorithms.normalise import normalise_loss
    from training.algorithms.options import (
        EntropyOptions,
        MixedPolicyOptions,
        PrefixOptions,
        RolloutCorrectionOptions,
        SFTMultitaskOptions,
    )
    from training.algorithms.prefix import cut_prefix, prefix_length, prefix_ratio, prefix_ratios
    from training.algorithms.rejection import Rejection, reject_groups
    from training.algorithms.reshape import parse_reshape, shape_off_policy, shape_on_policy
    from training.algorithms.sft import compute_sft_pure_loss, sft_token_loss

_HOME = {
    "advantage": ("apply_prefix_weights", "compute_grpo_outcome_advantage_split", "group_advantage"),
    "correction": ("prefix_is_ratios", "rollout_correction"),
    "entropy": ("EntropyController", "next_entropy_coefficient"),
    "masks": ("off_policy_mask",),
    "mixed_loss": ("compute_token_on_off_policy_loss", "mean_stats", "mixed_policy_token_loss"),
    "normalise": ("normalise_loss",),
    "options": (
        "EntropyOptions",
        "MixedPolicyOptions",
        "PrefixOptions",
        "RolloutCorrectionOptions",
        "SFTMultitaskOptions",
    ),
    "prefix": ("cut_prefix", "prefix_length", "prefix_ratio", "prefix_ratios"),
    "rejection": ("Rejection", "reject_groups"),
    "reshape": ("parse_reshape", "shape_off_policy", "shape_on_policy"),
    "sft": ("compute_sft_pure_loss", "sft_token_loss"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "EntropyController",
    "EntropyOptions",
    "MixedPolicyOptions",
    "PrefixOptions",
    "Rejection",
    "RolloutCorrectionOptions",
    "SFTMultitaskOptions",
    "apply_prefix_weights",
    "compute_grpo_outcome_advantage_split",
    "compute_sft_pure_loss",
    "compute_token_on_off_policy_loss",
    "cut_prefix",
    "group_advantage",
    "mean_stats",
    "mixed_policy_token_loss",
    "next_entropy_coefficient",
    "normalise_loss",
    "off_policy_mask",
    "parse_reshape",
    "prefix_is_ratios",
    "prefix_length",
    "prefix_ratio",
    "prefix_ratios",
    "reject_groups",
    "rollout_correction",
    "sft_token_loss",
    "shape_off_policy",
    "shape_on_policy",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
