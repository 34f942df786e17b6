"""The algorithms as pure functions: no verl, no Dagster, no state beyond the arguments.

There is one subject per file, in the order in which a training step meets them:

- ``options``: every option, in blocks that validate themselves; ``option_conflicts``: the pairs that exclude each
  other; ``registry``: what can be chosen by name
- ``schedules``: the order of the prompts (``prompt_order``), how much of the target a sample starts with (``prefix``),
  and the adaptive coefficient (``entropy``); ``off_policy_schedule``: which prompts have off-policy samples
- ``group_rejection``: groups whose scores carry no signal
- ``advantage``: the length penalty (DAPO) and the group baseline
- ``correction``: the rollout engine's log-probabilities against the actor's
- ``reshape``, ``mixed_loss``: the token losses; ``term``: the terms of a loss, of which they are one
- ``samples``: the samples of a step, and what an update learns from them
- ``aggregate``: from token losses to one number
- ``methods``: what the methods beside LUFFY add
- ``original``: drop-in replacements for three functions of the original implementation, which you import from here

``docs/algorithm.md`` has the formulas on one page. The three functions are imported on first use, because ``options``,
``option_conflicts``, ``registry``, ``schedules``, ``off_policy_schedule`` and ``group_rejection`` need no torch.
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
