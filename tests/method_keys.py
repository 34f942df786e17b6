"""The keys of the section ``method`` of every shipped method."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from training.methods import class_of
from training.plugins import METHODS


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models(part)


def keys(of: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every key below a class, of all models that a field may have."""
    for name, field in of.model_fields.items():
        yield prefix + name
        for model in models(field.annotation):
            yield from keys(model, f"{prefix}{name}.")


KEYS = {key for name in METHODS for key in keys(class_of({"type": name})[1])} | {"type"}
