"""Generate the page of the settings, and tables of any class of options."""

import types
import typing
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from core import PROJECT
from core.plugins.config_files import PROFILES
from core.settings import PREFIX
from pipelines.reference.page_markdown import block, code, page, prose, table
from pipelines.settings import Settings

BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def settings_page() -> str:
    """Generate the page with every section and key of a profile."""
    sections = [
        f"## {name}\n\n{_about(field)}\n\n{_section(name, field)}" for name, field in Settings.model_fields.items()
    ]
    return page(
        "Settings",
        "Every key that a profile can set. A profile is a YAML file: choose it with `luffy run --profile NAME`, and "
        "override a key with `--set SECTION.KEY=VALUE` or with a variable:",
        block("sh", f"export {PREFIX}TRAINING__SEED=1"),
        "A key without a default has to be given where its section is used. [Operations](../operations.md#settings) "
        "explains how profiles and variables combine, and [Profiles](profiles.md) shows those that the project ships.",
        *sections,
    )


def profiles_page() -> str:
    """Generate the page with the profiles that the project ships, verbatim."""
    folder = PROJECT / PROFILES
    files = sorted(folder.rglob("*.yaml"), key=lambda file: (len(file.parts), file))
    names = {file: file.relative_to(folder).with_suffix("").as_posix() for file in files}
    shown = [f"## {names[file]}\n\n{block('yaml', file.read_text(encoding='utf-8'))}" for file in files]
    return page("Profiles", "The profiles of `pipelines/profiles`. [Settings](settings.md) explains every key.", *shown)


def leaves(kind: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield the keys of ``kind``, with the keys of the classes inside it as ``outer.inner``."""
    for name, field in kind.model_fields.items():
        inner = _model(field.annotation)
        named = get_origin(field.annotation) is dict
        if inner is None or named:
            yield prefix + name, field
        if inner is not None:
            yield from leaves(inner, f"{prefix}{name}.{'NAME.' if named else ''}")


def type_text(field: FieldInfo) -> str:
    """Describe the values of ``field``: its type and limits."""
    limits = [
        f"{sign} {limit:g}"
        for item in field.metadata
        for key, sign in BOUNDS.items()
        if (limit := getattr(item, key, None)) is not None
    ]
    text = _type(field.annotation)
    return " ".join([text, ", ".join(limits)]).strip()


def default_text(field: FieldInfo) -> str:
    """Return the default of ``field`` as YAML; empty if it has none."""
    if field.is_required():
        return ""
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return text.removesuffix("...\n").strip()


def _section(name: str, field: FieldInfo) -> str:
    kind = _model(field.annotation)
    assert kind is not None, name
    rows = [
        (code(key), prose(type_text(value)), code(text) if (text := default_text(value)) else "", _described(value))
        for key, value in leaves(kind, f"{name}.")
    ]
    return table(("key", "type", "default", "meaning"), rows)


def _about(field: FieldInfo) -> str:
    kind = _model(field.annotation)
    doc = ((kind and kind.__doc__) or "").strip()
    if not doc:
        raise ValueError(f"a section with a class that has no docstring: {field}")
    absent = "" if field.default is not None else " It is absent unless a profile has it."
    return prose(doc + absent)


def _described(field: FieldInfo) -> str:
    if not field.description:
        raise ValueError(f"a key without a description: {field}")
    return prose(field.description)


def _model(annotation: Any) -> type[BaseModel] | None:
    """Return the class of options that ``annotation`` holds, if any."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType, dict, typing.Annotated):
        parts = get_args(annotation)
        if str in parts and get_origin(annotation) is not dict:
            return None  # a name, or the values themselves
        return next((kind for part in parts if (kind := _model(part))), None)
    return None


def _type(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is typing.Annotated:
        return _type(parts[0])
    if origin is Literal:
        return ", ".join(map(str, parts))
    if origin in (Union, types.UnionType):
        return " or ".join(_type(part) for part in parts)
    if origin in (list, tuple):
        return f"list of {_type(parts[0])}"
    if origin is dict:
        return f"mapping of {_type(parts[0])} to {_type(parts[1])}"
    names = {str: "text", int: "whole number", float: "number", bool: "true, false", type(None): "null", Any: "any"}
    return names.get(annotation) or getattr(annotation, "__name__", str(annotation))
