"""A block of options: it validates itself as a whole, and its errors name the key, the value and what is allowed."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from core.errors import InputError, did_you_mean


class Options(BaseModel):
    """A frozen block of options; unknown keys and values of another type are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __hash__(self) -> int:
        """That of the values; a mapping among them has none of its own."""
        return hash(self.model_dump_json())

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Build from a plain mapping, such as a resolved Hydra block.

        Raises:
            InputError: an unknown key (with the nearest that exists), a value that is not allowed, or two values that
                contradict each other.
        """
        try:
            return cls(**values)
        except ValidationError as error:
            raise InputError(_explain(error, cls)) from None


def contradiction(first: str, value: object, second: str, other: object, why: str) -> InputError:
    """Make the error for two options that exclude each other."""
    return InputError(f"{first}={value} contradicts {second}={other}: {why}. Change one of them.")


def _explain(error: ValidationError, cls: type[Options]) -> str:
    """Describe pydantic's first complaint in one line: the key, the value and the values that are allowed."""
    first = error.errors()[0]
    *block, name = map(str, first["loc"] or ("",))
    key = ".".join(filter(None, (*block, name)))
    if isinstance(cause := first.get("ctx", {}).get("error"), InputError):
        return str(cause)
    if first["type"] == "extra_forbidden":
        fields = (type(getattr(cls(), block[0])) if block else cls).model_fields
        return f"{key}: no such option{did_you_mean(name, fields) or '.'} Options: {', '.join(fields)}"
    if cause is not None:  # one of our validators raised it, and its text says what it got
        return f"{key}: {cause}"
    return f"{key}: got {first['input']!r}, {first['msg'].replace('Input should be', 'expected')}"
