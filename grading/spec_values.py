"""Verifier specs where they are stored: as a value of settings, and as a text of a table or a command line."""

import json
from collections.abc import Collection
from typing import Annotated, Any

from pydantic import BeforeValidator

from core.errors import InputError
from core.text.parse import parse_yaml
from grading.verifiers.spec import VerifierSpec, parse_spec
from grading.verifiers.verifier import DATA_SOURCE, PROBLEM


def _shortest(value: Any) -> Any:
    try:
        return parse_spec(value, "verifier").to_json()
    except InputError as error:
        raise ValueError(str(error).removeprefix("verifier: ")) from None


SpecValue = Annotated[str | dict[str, Any], BeforeValidator(_shortest)]
"""A field of a model that holds a spec in its shortest form: the name of a type, or a mapping."""


def name_columns(value: Any) -> Any:
    """A list of columns as the mapping of each to itself; anything else as it is."""
    return {name: name for name in value} if isinstance(value, list) else value


Columns = Annotated[dict[str, str], BeforeValidator(name_columns)]
"""Columns by the name under which they are read: {name: column or dotted path}, or a list of columns."""


def require_fields(spec: VerifierSpec, fields: Collection[str], source: str) -> None:
    """Raise ValueError if rows of ``source``, which have ``fields``, lack one that the verifier of ``spec`` reads."""
    present = [DATA_SOURCE, PROBLEM, *fields]
    if missing := [name for name in spec.requires_fields if name not in present]:
        raise ValueError(
            f"the verifier {spec.type} reads the field {missing[0]!r}, and {source} has only {', '.join(present)}: "
            f"name its column in fields, such as fields: {{{missing[0]}: COLUMN}}"
        )


MATHEMATICS = ("math", "math_whole_text")  # types of verifiers


def domain_of(spec: VerifierSpec) -> str:
    """The domain of answers that ``spec`` verifies, where nothing else is said."""
    return "math" if spec.type in MATHEMATICS else spec.type


def spec_text(spec: VerifierSpec) -> str:
    """A spec as a text: the name of its type, or JSON."""
    value = spec.to_json()
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def read_spec(text: str, where: str) -> VerifierSpec:
    """The spec in a text, which is YAML; InputError, whose message starts with ``where``, if there is none."""
    return parse_spec(parse_yaml(text, where) if text.startswith("{") else text, where)
