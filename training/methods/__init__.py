"""The methods, each a class in a file: what an update learns from the samples of a step.

`resolved` and `method_of` read the section ``method`` of a run: ``type`` names the class, and the other keys are its
fields. A key of the user's stands over the default of the class; another ``type`` of a part replaces the part.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from core.errors import InputError, validated
from core.plugins.user_code import load_or_explain
from training.plugins import METHODS

if TYPE_CHECKING:
    from training.methods.method import Method

SECTION, TYPE = "method", "type"


def merged(under: Any, over: Any) -> Any:
    """Return ``under`` with the values of ``over``; a mapping of another ``type`` stands alone.

    >>> merged({"on_policy": {"type": "ppo", "clip": None}, "n": 1}, {"on_policy": {"type": "sapo"}})
    {'on_policy': {'type': 'sapo'}, 'n': 1}
    """
    if not (isinstance(under, Mapping) and isinstance(over, Mapping)):
        return dict(over) if isinstance(over, Mapping) else over
    if over.get(TYPE, under.get(TYPE)) != under.get(TYPE):
        return dict(over)
    return {**under, **{key: merged(under.get(key), value) for key, value in over.items()}}


def resolved(values: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """Return the section ``method`` with every field of its class, and a path of the user's as an absolute one.

    Raises:
        InputError: there is no such method, or it has no such field or value.
    """
    path, of_class = class_of(values, folder)
    fields = {key: value for key, value in values.items() if key != TYPE}
    method = validated(of_class, merged(of_class.model_construct().model_dump(), fields), f"{SECTION}.")
    name = values[TYPE] if values[TYPE] in METHODS else path
    return {TYPE: name, **method.model_dump()}


def method_of(section: Mapping[str, Any]) -> "Method":
    """Return the method of a `resolved` section."""
    _, of_class = class_of(section)
    return validated(of_class, {key: value for key, value in section.items() if key != TYPE}, f"{SECTION}.")


def class_of(section: Mapping[str, Any], folder: Path | None = None) -> tuple[str, type["Method"]]:
    """Return the ``module:class`` of a section, and the class.

    Args:
        folder: the folder from which the path of a file starts; by default the current folder.

    Raises:
        InputError: there is no method of its name, or its class cannot be imported or is none.
    """
    from training.methods.method import Method

    path = method_path(section.get(TYPE), folder)
    of_class = load_or_explain(path, f"{SECTION}.{TYPE}: {path}")
    if not isinstance(of_class, type) or not issubclass(of_class, Method):
        raise InputError(f"{SECTION}.{TYPE}: {path}: expected a subclass of training.methods.method.Method")
    return path, cast("type[Method]", of_class)


def method_path(name: Any, folder: Path | None = None) -> str:
    """Return ``module:class`` of the method of a name; InputError if there is none."""
    try:
        return METHODS.find(name, folder)
    except ValueError as error:
        named = f"{name}: " if ":" in str(name) else ""
        raise InputError(f"{SECTION}.{TYPE}: {named}{error}") from None
