"""The resolved configuration of each recipe on each hardware: what all share, and what each has beside it."""

from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from core import PROJECT
from core.plugins.config_files import HARDWARE, RECIPES, config_names
from training.config.to_verl import compose_run
from training.config.verl_keys import leaf_values

yaml.SafeLoader = yaml.CSafeLoader  # three times as fast, and reads the same
TEACHER = {name: ["method.teacher.model=base"] for name in ("opd", "luffy_opd", "exopd")}


def values() -> dict[str, Any]:
    """Return the values that most configurations have, and the other values of each."""
    pairs = [(recipe, hardware) for recipe in config_names(RECIPES) for hardware in config_names(HARDWARE)]
    resolved = {f"{recipe} on {hardware}": leaves(recipe, hardware) for recipe, hardware in pairs}
    seen = Counter(item for one in resolved.values() for item in one.items())
    shared = {key: value for (key, value), count in seen.items() if count > len(pairs) / 2}
    apart = {name: sorted(one.items() - shared.items()) for name, one in resolved.items()}
    missing = {name: sorted(shared.keys() - one.keys()) for name, one in resolved.items()}
    own = {name: dict(apart[name]) | dict.fromkeys(missing[name], "(absent)") for name in resolved}
    return {"shared": shared} | own


def leaves(recipe: str, hardware: str) -> dict[str, str]:
    """Return each key of a resolved configuration with its value as text, without the folders of this machine."""
    config = compose_run(recipe, hardware, TEACHER.get(recipe, []), run=Path("run"))
    flat = leaf_values(OmegaConf.to_container(config, resolve=True))
    return {key: repr(value).replace(str(PROJECT), "PROJECT") for key, value in flat}
