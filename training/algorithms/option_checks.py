"""Checks of option values: each error names the key, what came and what is allowed. No torch."""

import difflib
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NoReturn

from core.errors import InputError


def build(cls: type, values: Mapping[str, Any], where: str) -> Any:
    """Instantiate a dataclass of options from a mapping; an unknown key is an InputError with the nearest one."""
    known = keys(cls)
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"{_key(where, str(key))}: no such option{hint} Known: {', '.join(known)}")
    return cls(**values)


def keys(cls: type) -> list[str]:
    """The option names of a dataclass."""
    return [item.name for item in fields(cls)]


def _key(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def contradiction(first: str, value: object, second: str, other: object, why: str) -> NoReturn:
    """Raise the error of two options that exclude each other."""
    raise InputError(f"{first}={value} contradicts {second}={other}: {why}. Change one of them.")


def choice(where: str, name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Require one of the ``allowed`` values."""
    if value not in allowed:
        raise InputError(f"{_key(where, name)}: got {value!r}, expected one of {', '.join(allowed)}")


def flag(where: str, name: str, value: object) -> None:
    """Require true or false."""
    if not isinstance(value, bool):
        raise InputError(f"{_key(where, name)}: got {value!r}, expected true or false")


def integer(where: str, name: str, value: object, at_least: int) -> None:
    """Require an integer of at least ``at_least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise InputError(f"{_key(where, name)}: got {value!r}, expected an integer of at least {at_least}")


def number(
    where: str, name: str, value: object, at_least: float, at_most: float = math.inf, *, above: bool = False
) -> None:
    """Require a finite number in ``[at_least, at_most]``; ``above``: not ``at_least`` itself."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not at_least <= value <= at_most or (above and value == at_least):
        low = f"above {at_least:g}" if above else f"of at least {at_least:g}" if math.isfinite(at_least) else ""
        high = f"at most {at_most:g}" if math.isfinite(at_most) else ""
        bounds = " and ".join(filter(None, (low, high)))
        raise InputError(f"{_key(where, name)}: got {value!r}, expected a finite number {bounds}".rstrip())
