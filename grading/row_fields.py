"""The fields of a row: what a verifier may read besides the gold answer, in targets and benchmarks alike."""

import json
from typing import Annotated, Any

from pydantic import BeforeValidator

DATA_SOURCE, PROBLEM = "data_source", "problem"  # every row has them
OPTIONS = "options"  # the options of a question


def row_fields(data_source: str, problem: str | None, more: str | None) -> dict[str, Any]:
    """Return the fields of a row: its source or benchmark, the problem, and the fields of ``more``, a JSON object.

    >>> row_fields("law", "Who?", '{"court": "civil"}')
    {'data_source': 'law', 'problem': 'Who?', 'court': 'civil'}
    """
    return {DATA_SOURCE: data_source, PROBLEM: problem, **json.loads(more or "{}")}


def name_columns(value: Any) -> Any:
    """Return a list of columns as the mapping of each to itself; anything else as it is."""
    names = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return {name: name for name in value} if names else value


Columns = Annotated[dict[str, str], BeforeValidator(name_columns)]
"""Columns by the name under which they are read: {name: column or dotted path}, or a list of columns."""
