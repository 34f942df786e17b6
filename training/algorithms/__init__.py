"""The algorithms as pure functions: no verl, no Dagster, no state beyond the arguments.

There is one subject per file, each formula with its options, in the order in which a training step meets them:

- ``options``: what every block of options is made of
- ``prompt_order``, ``prompt_choice``: the order of the prompts, or their choice; ``guide``: which of them have
  off-policy samples; ``prefix``: how much of the target a sample starts with; ``replay``: what ExGRPO repeats
- ``groups``: groups with scores that carry no signal; ``gate``: RL or the target, by the successes of a group
- ``advantage``: the length penalty (DAPO) and the group baseline; ``teacher``: the scores of a teacher (OPD)
- ``correction``: the rollout engine's log-probabilities against the actor's
- ``on_policy``, ``off_policy``, ``policy``: the policy loss; ``imitation``: the supervised one; ``regularize``: entropy
  and divergence; ``srft``: weights by entropy; ``term``: the terms of a loss, of which these are some
- ``samples``: the samples of a step, and what an update learns from them
- ``aggregate``: from token losses to one number
- ``original``: drop-in replacements for three functions of the original implementation, which you import from here

``docs/algorithm.md`` has the formulas on one page. torch is imported on first use (``training.later``), because a
configuration is validated without it.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from training.algorithms.original import (
        compute_grpo_outcome_advantage_split,
        compute_sft_pure_loss,
        compute_token_on_off_policy_loss,
    )

ORIGINAL = "training.algorithms.original"
__all__ = [
    "compute_grpo_outcome_advantage_split",
    "compute_sft_pure_loss",
    "compute_token_on_off_policy_loss",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return resolve_name(f"{ORIGINAL}:{name}")
