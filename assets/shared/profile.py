"""What assets have of the settings: the resource ``luffy``, and the names of definitions.

An asset is a function of its module. `profile_asset` declares one whose definition needs the profile: the suite or
another asset may add inputs and outputs.
"""

import inspect
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from assets.shared.failures import reports_input_errors
from assets.shared.settings import StageSettings
from evaluation.benchmarks.suite import Benchmark

RESOURCES = ("storage", "interpreter")  # parameters of assets
IO_MANAGER = "io_manager"


@dataclass(frozen=True)
class Names:
    """The names of our definitions, which may stand among those of another project.

    Args:
        key_prefix: The first parts of every asset key. Jobs, sensors, schedules and resources begin with them too.
        group_prefix: The beginning of every group's name.
    """

    key_prefix: tuple[str, ...] = ()
    group_prefix: str = ""

    def key(self, key: dg.AssetKey) -> dg.AssetKey:
        """Return the key of an asset."""
        return dg.AssetKey([*self.key_prefix, *key.path])

    def plain(self, key: dg.AssetKey) -> dg.AssetKey:
        """Return the key of one of our assets without the prefix; its first part is the group."""
        return dg.AssetKey(key.path[len(self.key_prefix) :])

    def name(self, name: str) -> str:
        """Return the name of a job, sensor, schedule or resource."""
        return "_".join([*self.key_prefix, name])

    @property
    def luffy(self) -> str:
        """The name of the resource with the settings of a run."""
        return "_".join(self.key_prefix) or "luffy"

    def group(self, group: str) -> str:
        """Return the name of a group."""
        return self.group_prefix + group


@dataclass(frozen=True)
class Luffy:
    """The resource ``luffy``: the settings of a run, and what follows from them."""

    names: Names
    settings: StageSettings
    suite: Sequence[Benchmark]
    checks: Path  # the suite of quality checks
    benchmark: str  # of training/checkpoints


@dataclass(frozen=True)
class AssetTemplate:
    """A function that becomes an asset when the profile is loaded."""

    function: Callable[..., Any]
    decorator: Callable[..., Any]
    attributes: dict[str, Any]

    def build(self, names: Names, upstream: Collection[dg.AssetKey] = (), **more: Any) -> Any:
        """Build the definition.

        Args:
            names: Names of the asset, of its dependencies, and of the resources that its function takes.
            upstream: Dependencies that are assets of another project and keep their keys.
            more: Attributes that the profile decides, with keys as the modules of the assets have them.
        """
        attributes = {**self.attributes, **more}
        if "outs" in attributes:
            attributes["outs"] = {name: _stored(out, names) for name, out in attributes["outs"].items()}
        if "name" in attributes:
            attributes["name"] = names.name(attributes["name"])
        if self.decorator is dg.asset:  # which names the op by the key
            attributes |= {"key": names.key(attributes["key"]), "io_manager_key": names.name(IO_MANAGER)}
        function = self._with_signature(names)
        if self.decorator is dg.multi_asset_check:
            specs = [spec.replace_key(_prefixed(spec.key, names)) for spec in attributes.pop("specs")]
            ins = {name: names.key(key) for name, key in attributes.pop("ins").items()}
            return self.decorator(**attributes, specs=specs, ins=ins)(function)
        definition = self.decorator(**attributes)(function)
        if names == Names():  # nothing to rename, and renaming copies the definition twice
            return definition
        own = {attributes.get("key"), *upstream}
        keys = {*definition.keys, *definition.keys_by_input_name.values()}
        keys |= {dep.asset_key for spec in definition.specs for dep in spec.deps}
        definition = definition.with_attributes(asset_key_replacements={key: names.key(key) for key in keys - own})
        return definition.map_asset_specs(
            lambda spec: spec.replace_attributes(group_name=names.group(str(spec.group_name)))
        )

    def _with_signature(self, names: Names) -> Callable[..., Any]:
        """Return the function with its resources' names."""
        resources = {"luffy": names.luffy, **{name: names.name(name) for name in RESOURCES}}
        signature = inspect.signature(self.function)
        parameters = {
            name: parameter.replace(name=resources.get(name, name)) for name, parameter in signature.parameters.items()
        }
        function = reports_input_errors(self.function, {name: parameter for parameter, name in resources.items()})
        vars(function)["__signature__"] = signature.replace(parameters=list(parameters.values()))
        types = {parameter.name: parameter.annotation for parameter in parameters.values()}
        function.__annotations__ = {**types, "return": signature.return_annotation}
        return function


def _prefixed(check: dg.AssetCheckKey, names: Names) -> dg.AssetCheckKey:
    return dg.AssetCheckKey(names.key(check.asset_key), check.name)


def _stored(out: dg.AssetOut, names: Names) -> dg.AssetOut:
    """Return ``out`` with our IO manager."""
    out = copy(out)
    out.io_manager_key = names.name(IO_MANAGER)
    return out


def profile_asset(
    decorator: Callable[..., Any] = dg.asset, **attributes: Any
) -> Callable[[Callable[..., Any]], AssetTemplate]:
    """Declare the function below as an asset; ``attributes`` are those of the ``decorator``.

    An `InputError` ends its step with that message.
    """
    return lambda function: AssetTemplate(function, decorator, attributes)
