"""The keys of verl that a run reads, with what their values must be (``verl_keys.yaml``)."""

import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from core.files import read_yaml
from training.config.kinds import HANDED_ON, Kind, kind

TABLE = Path(__file__).with_name("verl_keys.yaml")
SHARED = Path(__file__).with_name("verl.yaml")
# What the code sets besides `SHARED`.
LAID_OUT = (
    "actor_rollout_ref.hybrid_engine",
    "actor_rollout_ref.model.path",
    *(f"actor_rollout_ref.rollout.{name}" for name in ("dtype", "nnodes", "n_gpus_per_node")),
    *(
        f"actor_rollout_ref.actor.fsdp_config.{name}"
        for name in ("param_offload", "optimizer_offload", "offload_policy")
    ),
)
REFERENCE = "${"  # in a text that OmegaConf resolves in verl's configuration


@cache
def kinds() -> dict[str, Kind]:
    """Return the kind of each key of the table."""
    table = read_yaml(TABLE, "table of verl's keys")
    return {
        f"{section}.{name}".lstrip("."): kind(text)
        for text, rows in table.items()
        for section, names in rows.items()
        for name in names
    }


@cache
def is_fixed(key: str) -> bool:
    """Return whether every run sets a key of verl's itself."""
    shared = {name for name, _ in leaf_values(read_yaml(SHARED, "verl's configuration"))} - kinds().keys()
    return bool(within(key, {*shared, *LAID_OUT}))


def sections() -> set[str]:
    """Return the sections of the configuration that are verl's."""
    return {key.partition(".")[0] for key in kinds()}


def kind_of(key: str) -> Kind | None:
    """Return the kind of a key, or of the section of `HANDED_ON` that holds it; None if no run reads the key.

    >>> kind_of("ray_kwargs.ray_init.num_cpus").text, kind_of("actor_rollout_ref.actor.ppo_epoch")
    ('anything', None)
    """
    if key in kinds():
        return kinds()[key]
    section = within(key, (name for name, kind in kinds().items() if kind.text == HANDED_ON))
    return kinds()[section] if section else None


@cache
def verl_file() -> Path | None:
    """Return verl's configuration without importing verl; None if verl is not installed."""
    spec = importlib.util.find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "trainer" / "config" / "_generated_ppo_trainer.yaml"


def is_verls(key: str) -> bool:
    """Return whether verl's configuration has a key; where verl is not installed, whether its section is verl's."""
    file = verl_file()
    if file is None:
        return key.partition(".")[0] in sections()
    names = [name for name, _ in leaf_values(yaml.load(file.read_bytes(), yaml.CSafeLoader))]
    return any(within(name, [key]) for name in names)


def is_reference(value: Any) -> bool:
    """Return whether ``value`` stands for another key's value."""
    return isinstance(value, str) and REFERENCE in value


def within(key: str, names: Iterable[str]) -> str | None:
    """Return the longest of ``names`` that is ``key`` or a section around it.

    >>> within("critic.optim.lr", ("critic", "data"))
    'critic'
    """
    return max((name for name in names if key == name or key.startswith(f"{name}.")), key=len, default=None)


def leaf_values(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of each leaf of a nested mapping; an empty mapping is a leaf.

    >>> list(leaf_values({"a": {"b": 1, "c": {}}}))
    [('a.b', 1), ('a.c', {})]
    """
    for key, value in node.items():
        if isinstance(value, Mapping) and value:
            yield from leaf_values(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
