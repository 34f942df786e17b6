"""Verifier specs where they are stored, as a text of a table or a command line, and what rows need for them."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from core.errors import InputError
from core.text.parse import parse_yaml
from grading.row_fields import DATA_SOURCE, PROBLEM
from grading.verifiers.spec import VerifierSpec, open_verifier, parse_spec

MATHEMATICS = ("math", "math_whole_text")  # types of verifiers


def domain_of(spec: VerifierSpec) -> str:
    """Return the domain of answers that ``spec`` verifies, by default."""
    return "math" if spec.type in MATHEMATICS else spec.type


def spec_text(spec: VerifierSpec) -> str:
    """Return a spec as a text: the name of its type, or JSON."""
    value = spec.to_json()
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def read_spec(text: str, where: str) -> VerifierSpec:
    """Return the spec in a YAML text; InputError, with a message that starts with ``where``, if there is none."""
    return parse_spec(parse_yaml(text, where) if text.startswith("{") else text, where)


def require_fields(spec: VerifierSpec, fields: Collection[str], source: str) -> None:
    """Raise ValueError if rows of ``source``, which have ``fields``, lack one that the verifier of ``spec`` reads."""
    present = [DATA_SOURCE, PROBLEM, *fields]
    if missing := [name for name in spec.requires_fields if name not in present]:
        raise ValueError(
            f"the verifier {spec.type} reads the field {missing[0]!r}, and {source} has only {', '.join(present)}: "
            f"name its column in fields, such as fields: {{{missing[0]}: COLUMN}}"
        )


def require_fitting_golds(spec: VerifierSpec, rows: Iterable[tuple[str, Mapping[str, Any]]], where: str) -> None:
    """Raise InputError, which starts with ``where``, for a gold answer that cannot be compared with any response.

    Args:
        spec: of the verifier.
        rows: gold answers, each with the fields of its row.
    """
    if spec.type in MATHEMATICS:
        return  # equal texts are right, whatever they say
    with open_verifier(spec, workers=1) as verifier:
        for gold, fields in rows:
            if reason := verifier.gold_problem(gold, fields):
                raise InputError(
                    f"{where}: problem {fields[PROBLEM]!r:.60}: the gold answer {gold!r:.80} does not fit the verifier "
                    f"{spec.type}: {reason}"
                )
