"""Explain what is wrong with a check of the suite: the argument at fault, and the values that it may have."""

from collections.abc import Collection, Mapping
from typing import Any

from core.errors import did_you_mean

ANOTHER_FORM = "value is not a valid dict"  # Great Expectations also takes a parameter there, which no suite has
NO_ARGUMENTS = ("batch_id", "table")  # the profile is the only table


def explain_construction(kind: str, kwargs: Mapping[str, Any], error: Exception) -> str:
    """Explain in one line why Great Expectations rejects an expectation of type ``kind``."""
    from great_expectations.exceptions.exceptions import ExpectationNotFoundError
    from great_expectations.expectations.registry import list_registered_expectation_implementations as kinds

    if isinstance(error, ExpectationNotFoundError):
        return f"{kind}: no such expectation{did_you_mean(kind, kinds())}"
    complaints: dict[str, list[str]] = {}
    listed = getattr(error, "errors", None)  # pydantic's, of the version that Great Expectations brings
    for entry in listed() if listed else [{"loc": (), "msg": str(error).splitlines()[0]}]:
        if entry["msg"] != ANOTHER_FORM:
            complaints.setdefault(str(entry["loc"][0]) if entry["loc"] else "__root__", []).append(entry["msg"])
    named = {name: said for name, said in complaints.items() if name != "__root__"} or complaints
    return f"{kind}: " + "; ".join(_complaint(kind, name, said, kwargs) for name, said in named.items())


def explain_failure(kwargs: Mapping[str, Any], columns: Collection[str], error: str) -> str:
    """Explain in one line why an expectation failed with ``error`` on a profile of these ``columns``."""
    for name, value in kwargs.items():
        values = value if isinstance(value, list) else [value]
        if name.startswith("column") and (gone := [str(column) for column in values if column not in columns]):
            return f"kwargs.{name}: no column {', '.join(gone)}; the profile has {', '.join(columns)}"
    said = " ".join(error.split())[:300]
    if patterns := [f"kwargs.{name}: {value!r:.100}" for name, value in kwargs.items() if "regex" in name]:
        return f"{', '.join(patterns)}: {said}"
    return f"{said} (with {', '.join(f'{name}: {value!r:.60}' for name, value in kwargs.items())})"


def _complaint(kind: str, name: str, said: list[str], kwargs: Mapping[str, Any]) -> str:
    from great_expectations.expectations.registry import get_expectation_impl

    messages = " or ".join(dict.fromkeys(said))
    if name == "__root__":
        return messages
    if name in kwargs and "extra fields" not in messages:
        return f"kwargs.{name}: {messages} (got {kwargs[name]!r:.80})"
    expectation = get_expectation_impl(kind)
    keys = dict.fromkeys((*expectation.domain_keys, *expectation.success_keys))
    allowed = ", ".join(key for key in keys if key not in NO_ARGUMENTS)
    return f"kwargs.{name}: {'no such argument' if name in kwargs else messages}; it takes {allowed}"
