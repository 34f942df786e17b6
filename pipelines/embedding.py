"""Our assets, checks, jobs, schedules and sensors inside another team's Dagster project.

Everything here depends on the arguments alone: the module reads no environment variable, and importing it changes
nothing in the process.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from assets.shared.luffy import Names
from assets.shared.ray_cluster import check_cluster
from core import PROJECT
from core.errors import InputError
from core.settings import Layer, profile_layers, resolve
from pipelines.definitions.factory import build_defs
from pipelines.settings import Settings

KEY_PREFIX = "luffy"


def luffy_definitions(
    profile: str | Path = "embedded",
    *,
    key_prefix: str | Sequence[str] = KEY_PREFIX,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    ray: dg.ConfigurableResource[Any] | None = None,
) -> dg.Definitions:
    """Build the definitions of a profile, for `dagster.Definitions.merge` with another project's.

    Args:
        profile: A profile that the project ships, or the absolute path of a YAML file.
        key_prefix: The first part, or parts, of every asset key. Joined by ``_`` it is also the beginning of the names
            of groups, jobs, schedules and sensors. Two calls belong in two code locations, each with a
            ``storage.root`` of its own.
        settings: Values by section and key that override the profile's.
        ray: A resource of dagster-ray with ``lifecycle=Lifecycle(create=False)``, or the ``ComputeResource`` of
            dagster-slurm. Each step that trains or samples starts a cluster, instead of using
            ``interpreter.backend``, and ends it.

    Raises:
        InputError: the profile, a setting, a prefix or the resource is wrong.

    Example:
        >>> defs = luffy_definitions(key_prefix="reasoner", settings={"training": {"seed": 1}})
        >>> sorted(defs.resources)
        ['luffy', 'luffy_interpreter', 'luffy_io_manager']
    """
    parts = [key_prefix] if isinstance(key_prefix, str) else list(key_prefix or ())
    for part in parts:
        if not part.isidentifier():
            raise InputError(f"prefix {part!r}: expected letters, digits and underscores, as in {KEY_PREFIX!r}")
    if not parts:
        raise InputError(f"key_prefix: expected at least one part, such as {KEY_PREFIX!r}, before our asset keys")
    if ray is not None:
        check_cluster(ray)
    layers = [*profile_layers(str(profile), "profile"), Layer("settings", settings or {}, PROJECT)]
    return build_defs(resolve(Settings, layers), Names(tuple(parts)), ray=ray)


class LuffyComponent(dg.Component, dg.Model, dg.Resolvable):
    """A component of `dg`: the training of a reasoning model, from traces to champion."""

    profile: str = "embedded"
    key_prefix: list[str] = Field(default=[KEY_PREFIX])
    settings: dict[str, dict[str, Any]] = Field(default={})

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the definitions; the path of a profile starts at the component's folder."""
        file = context.path / self.profile
        return luffy_definitions(
            file if file.is_file() else self.profile,
            key_prefix=self.key_prefix,
            settings=self.settings,
        )
