"""Requests to programs: one object in a JSON file, to read or to write for another process."""

import json
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from core.errors import InputError, validated
from core.files import read_object, write_json
from core.text.parse import parse_yaml


def from_yaml(option: str) -> BeforeValidator:
    """Reads the value that ``option`` of a command line gives; a request in a file has the value itself."""
    return BeforeValidator(lambda value: parse_yaml(value, option) if isinstance(value, str) else value)


AsJson = BeforeValidator(lambda value: json.dumps(value) if isinstance(value, dict) else value)
"""Accepts a mapping, as a request in a file has it, for the text that a command line gives."""


def option(default: Any, description: str, panel: str | None = None, **more: Any) -> Any:
    """Return a field with its group in the help; ``more`` may have limits, and what `core.command_options` reads."""
    extra = {name: more.pop(name) for name in ("metavar", "cli", "expected", "hidden") if name in more}
    return Field(default, description=description, json_schema_extra={"panel": panel, **extra}, **more)


def extra_of(field: FieldInfo) -> dict[str, Any]:
    """Return what `option` keeps of a field for the command line."""
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


def option_name(name: str, field: FieldInfo) -> str:
    """Return what the command line calls the field ``name``: its option, or the metavar of an argument."""
    extra = extra_of(field)
    return extra["metavar"] if extra.get("cli") == "" else extra.get("cli") or f"--{name.replace('_', '-')}"


class Request(BaseModel):
    """Base of all requests. An unknown key is an error, and a default is validated like any other value."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _can_be_a_path(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse the empty text as a path, which would be the current folder, and a text with a character 0."""
        is_path = cls.model_fields[str(info.field_name)].annotation in (Path, Path | None)
        if is_path and isinstance(value, str) and (not value or "\0" in value):
            raise ValueError(f"got {value!r:.80}, expected the path of a file or folder")
        return value

    @classmethod
    def read(cls, file: Path) -> Self:
        """Return the request in a JSON file.

        Raises:
            InputError: the file is missing, is no JSON object, or has a value that does not fit.
        """
        values = read_object(file, unique=True)
        keys = {option_name(name, field).strip("-"): name for name, field in cls.model_fields.items()}
        for given in values.keys() - cls.model_fields.keys():
            if key := keys.get(given.strip("-").replace("_", "-")):
                raise InputError(f"{file}: {given} is not a setting; did you mean {key}?")
        return validated(cls, values, f"{file}: ")

    def write(self, file: Path) -> Path:
        """Write the request into ``file``, which is complete or absent; returns its path."""
        write_json(self.model_dump(mode="json"), file)
        return file
