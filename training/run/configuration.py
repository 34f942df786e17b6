"""Compose and validate the configuration of a training run: verl's defaults, ours, a recipe, hardware, overrides.

Needs Hydra, so it runs in the training interpreter, but neither torch nor verl is imported: a mistake in a key or a
value is reported within a second, before anything starts.
"""

import difflib
import importlib.util
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from core.code import PROJECT
from core.errors import InputError
from training.algorithms.options import MixedPolicyOptions

CONFIG = PROJECT / "training" / "config"

# The section ``mixed`` with its defaults, a part of train.yaml that the class of the options writes. The clip range is
# verl's own key, so that it has one place.
ConfigStore.instance().store("mixed_options", {"mixed": MixedPolicyOptions().model_dump(exclude={"clip_ratio"})})


def names(group: str) -> list[str]:
    """The recipes or hardware profiles there are (``group`` is "recipe" or "hardware")."""
    return sorted(file.stem for file in (CONFIG / group).glob("*.yaml"))


def verl_config_folder() -> Path:
    """verl's Hydra folder, found without importing verl (which takes seconds)."""
    spec = importlib.util.find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("this interpreter has no verl: run `make setup`, and use .venv-train/bin/python")
    return Path(spec.submodule_search_locations[0]) / "trainer" / "config"


def compose_run(recipe: str, hardware: str, overrides: Sequence[str], *, run: Path) -> DictConfig:
    """The resolved configuration of one run in folder ``run``; InputError names the key, group or option at fault."""
    for group, name in (("recipe", recipe), ("hardware", hardware)):
        if name not in names(group):
            raise InputError(f"no {group} {name!r}: expected one of {', '.join(names(group))}")
    fixed = [
        f"hydra.searchpath=[file://{verl_config_folder()}]",
        f"recipe={recipe}",
        f"hardware={hardware}",
        f"paths.project={PROJECT}",
        f"paths.run={run}",
    ]
    with initialize_config_dir(str(CONFIG), version_base=None):
        try:
            config = compose("train", overrides=[*fixed, *overrides])
        except MissingConfigException as error:
            raise InputError(f"configuration of recipe {recipe!r}: {error}") from error
        except (ConfigCompositionException, HydraException, OmegaConfBaseException) as error:
            raise InputError(_explain(error, [*fixed[:-2], "paths.project=.", "paths.run=."])) from error
    if config.actor_rollout_ref.rollout.max_model_len is None:
        config.actor_rollout_ref.rollout.max_model_len = config.data.max_prompt_length + config.data.max_response_length
    try:
        OmegaConf.resolve(config)
    except OmegaConfBaseException as error:
        raise InputError(f"configuration: {str(error).splitlines()[0]}") from error
    mixed_options(config)
    return config


def mixed_options(config: DictConfig) -> MixedPolicyOptions:
    """The validated section ``mixed`` of a run, with verl's clip range; InputError names the option at fault."""
    actor, values = config.actor_rollout_ref.actor, OmegaConf.to_container(config.mixed)
    return MixedPolicyOptions.from_mapping(
        {"clip_ratio": actor.clip_ratio, **values}, n=config.actor_rollout_ref.rollout.n
    )


def _explain(error: Exception, base: Sequence[str]) -> str:
    """One line for an override that Hydra refuses, with the nearest key that exists."""
    message = str(error).splitlines()[0]
    if (match := re.search(r"Could not override '([^']+)'", message)) is None:
        return f"configuration: {message}"
    key = match[1]
    names = list(_keys(OmegaConf.to_container(compose("train", overrides=list(base)), resolve=False)))
    # Compare the last parts first: people know the name of an option better than where it lives.
    leaf = key.rsplit(".", 1)[-1]
    leaves = {name.rsplit(".", 1)[-1] for name in names}
    if leaf not in leaves:
        leaf = next(iter(difflib.get_close_matches(leaf, leaves, n=1, cutoff=0.5)), leaf)
    candidates = [name for name in names if name.rsplit(".", 1)[-1] == leaf] or names
    nearest = difflib.get_close_matches(key, candidates, n=1, cutoff=0.0)[0]
    return f"unknown key {key!r} in --set: did you mean {nearest!r}?"


def _keys(node: Any, prefix: str = "") -> Iterator[str]:
    """Dotted names of the leaves of a nested mapping."""
    for key, value in node.items():
        if isinstance(value, dict) and value:
            yield from _keys(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"
