"""The texts ``KEY=VALUE`` of ``--set`` and of profiles: how they are read, written and shared among recipes."""

from collections.abc import Sequence

from core.files import read_yaml
from core.plugins.config_files import RECIPES, config_files
from core.text.patterns import compile_full_match
from training.config.verl_keys import within

PLAIN = compile_full_match(r"[A-Za-z0-9_./@%+:?-]*")  # a text that YAML reads without quotes
SFT = "sft"  # the method that learns from targets alone
BACKSLASH, QUOTE = "\\", "'"
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


def quoted(text: str, beside: str = "") -> str:
    """Return ``text`` as YAML reads it in the value of an override: in quotes, unless it is plain.

    >>> print(quoted("/a/b.py:f"), quoted("/a b/c.py:f"), quoted("/it's/c.py:f"))
    /a/b.py:f '/a b/c.py:f' "/it's/c.py:f"

    Args:
        beside: The value that ``text`` will be part of, perhaps within quotes: they are not the same, if possible.
    """
    if PLAIN(text):
        return text
    if "'" in text + beside and '"' not in text + beside:
        return f'"{text.replace(BACKSLASH, 2 * BACKSLASH)}"'
    return f"'{text.replace(QUOTE, 2 * QUOTE)}'"


def unquoted(text: str) -> str:
    """Return what `quoted` was given."""
    mark = text[:1]
    if len(text) < 2 or mark not in "'\"" or not text.endswith(mark):
        return text
    escaped = 2 * (QUOTE if mark == QUOTE else BACKSLASH)
    return text[1:-1].replace(escaped, escaped[0])
