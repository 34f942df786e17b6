"""The texts ``KEY=VALUE`` of ``--set`` and of profiles: how recipes share them."""

from collections.abc import Sequence

from core.files import read_yaml
from core.plugins.config_files import RECIPES, config_files
from training.config.verl_keys import within

SFT, ON_POLICY = "sft", "on_policy"  # the methods that learn from targets alone, and from rewards alone
# What training on rollouts reads and supervised training does not. Recipes that share overrides leave these out for the
# latter.
ROLLOUTS_ONLY = (
    *("rollouts", "rollout", "method", "algorithm", "reward", "transfer_queue", "policy.source"),
    *("data.sample_target_ratio", "data.train_max_samples", "data.use_shm"),
    *("data.val_files", "data.val_max_samples", "data.val_batch_size"),
    *("trainer.checkpoint_callback_class", "trainer.rollout_data_dir", "trainer.validation_data_dir"),
    *("trainer.test_freq", "actor_rollout_ref.rollout", "actor_rollout_ref.ref"),
    *(
        f"actor_rollout_ref.actor.{name}"
        for name in (
            *("ppo_mini_batch_size", "ppo_epochs", "shuffle", "data_loader_seed", "checkpoint.async_save"),
            "calculate_entropy",
            "fsdp_config.entropy_checkpointing",
        )
    ),
)
SUPERVISED = ("method.type", "method.weight")  # keys of these sections that supervised training reads


def key_of(override: str) -> str:
    """Return the key of an override ``KEY=VALUE``."""
    return override.partition("=")[0]


def read_by(recipe: str, overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split ``overrides`` that several recipes share into those that ``recipe`` reads and those that it does not.

    >>> read_by("sft", ["data.train_batch_size=8", "method.advantage.use_std=true"])
    (['data.train_batch_size=8'], ['method.advantage.use_std=true'])
    """
    if objective(recipe) != SFT:
        return list(overrides), []
    others = [text for text in overrides if needs_rollouts(key_of(text))]
    return [text for text in overrides if text not in others], others


def needs_rollouts(key: str) -> bool:
    """Return whether supervised training does not read a key."""
    return bool(within(key, ROLLOUTS_ONLY)) and key not in SUPERVISED


def objective(recipe: str) -> str:
    """Return ``rl`` or ``sft``: what a recipe, or the parent it names, computes."""
    sections = (read_yaml(file, "recipe").get("method") or {} for file in config_files(RECIPES, recipe))
    return SFT if next((section["type"] for section in sections if "type" in section), None) == SFT else "rl"
