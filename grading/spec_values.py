"""Verifier specs where they are stored: as a value of settings, and as a text of a table or a command line."""

import json
from typing import Annotated, Any

from pydantic import BeforeValidator

from core.errors import InputError
from core.text.parse import parse_yaml
from grading.verifiers.spec import VerifierSpec, parse_spec


def _shortest(value: Any) -> Any:
    try:
        return parse_spec(value, "verifier").to_json()
    except InputError as error:
        raise ValueError(str(error).removeprefix("verifier: ")) from None


SpecValue = Annotated[str | dict[str, Any], BeforeValidator(_shortest)]
"""A field of a model that holds a spec in its shortest form: the name of a type, or a mapping."""


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
