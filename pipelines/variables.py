"""The environment variables that override a profile, and what messages call them.

``luffy`` turns its options into such variables, so that the processes of a run find them. A message names the option.
"""

import itertools
import json
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from core.errors import InputError, did_you_mean
from core.text.parse import parse_object, parse_yaml

PROFILE = "LUFFY_PROFILE"
PREFIX = "LUFFY__"
ORIGINS = "LUFFY_ORIGINS"  # JSON: what messages call a variable that no user has set, by variable
SET = "--set "


class Variable(NamedTuple):
    """A variable with its section and keys, and its value."""

    name: str
    path: tuple[str, ...]
    value: Any

    def sets(self, place: Sequence[Any]) -> bool:
        """Return whether its value has, or takes, the ``place`` of a setting: section, keys, positions in lists."""
        return _lower(place[: len(self.path)]) == self.path and _has(self.value, place[len(self.path) :])


def environment() -> dict[str, str]:
    """Return the values of the variables that override settings, by name in capitals.

    Raises:
        InputError: One of them has a wrong prefix, or two spellings of one have different values.
    """
    spellings: dict[str, str] = {}
    for name in sorted(os.environ):
        upper = name.upper()
        if upper.startswith("LUFFY_") and "__" in upper and not upper.startswith(PREFIX):
            raise InputError(
                f"variable {name}: expected {PREFIX}SECTION__KEY; did you mean {PREFIX}{upper.removeprefix('LUFFY_')}?"
            )
        if upper.startswith(PREFIX):
            other = spellings.setdefault(upper, name)
            if os.environ[other] != os.environ[name]:
                raise InputError(f"variables {other} and {name} set the same setting to two values; unset one of them")
    return {upper: os.environ[name] for upper, name in spellings.items()}


def set_variable(variable: str, value: str, origin: str) -> None:
    """Set a variable for this process and those it starts; messages call it ``origin``."""
    os.environ[variable] = value
    os.environ[ORIGINS] = json.dumps({**_origins(), variable: origin})


def origin(variable: str) -> str:
    """Return what messages call a variable: what has set it."""
    return _origins().get(variable, f"variable {variable}")


def _origins() -> dict[str, str]:
    return parse_object(os.environ.get(ORIGINS, "{}"), f"variable {ORIGINS}")


def explain(where: str, message: str) -> str:
    """Put ``where`` before a message, and the name of a setting once.

    >>> explain("--set training.seeed", "training.seeed is not a setting")
    '--set training.seeed is not a setting'
    """
    setting = where.removeprefix(SET)
    return SET + message if setting != where and message.startswith(setting) else f"{where}: {message}"


def read_variables(sections: Mapping[str, Collection[str]]) -> list[Variable]:
    """Read the variables ``LUFFY__SECTION__KEY``.

    Args:
        sections: The keys of each section.

    Raises:
        InputError: One of them names none of the ``sections`` or no key, or its value is not YAML. Or a variable has
            single underscores in the place of the double ones, or one gives a value to which another adds a key.
    """
    single = {f"LUFFY_{section}_{key}".upper(): (section, key) for section, keys in sections.items() for key in keys}
    for name in sorted(os.environ):
        if setting := single.get(name.upper()):
            meant = PREFIX + "__".join(setting).upper()
            raise InputError(f"variable {name}: expected {PREFIX}SECTION__KEY; did you mean {meant}?")
    variables: list[Variable] = []
    for name, text in environment().items():
        path = tuple(name.removeprefix(PREFIX).lower().split("__"))
        where, section = origin(name), path[0]
        if len(path) == 1 or section not in sections:
            spelt, shape = (str.lower, "SECTION.KEY") if where.startswith(SET) else (str.upper, f"{PREFIX}SECTION__KEY")
            names = list(map(spelt, sections))
            guess = "" if section in sections else did_you_mean(spelt(section), names)
            raise InputError(f"{where}{guess or ':'} expected {shape}, with a section of {', '.join(names)}")
        variables.append(Variable(name, path, parse_yaml(text, where)))
    for whole, part in itertools.permutations(variables, 2):
        if part.path[: len(whole.path)] == whole.path and not isinstance(whole.value, dict):
            raise InputError(
                f"{origin(whole.name)} and {origin(part.name)}: the first gives a value in the place of the mapping "
                "that the second adds a key to; give one mapping"
            )
    return variables


def setter(location: Sequence[Any], profile: Any, variables: Sequence[Variable]) -> str | None:
    """Return what messages call the variable that has set what is wrong at a location; None for the profile.

    Args:
        location: Section, keys and positions in lists. A missing key counts as set by what sets its section.
        profile: The values of the profile.
        variables: The variables that override them.
    """
    for length in range(len(location), 0, -1):
        place = location[:length]
        if above := [variable for variable in variables if variable.sets(place)]:
            return origin(max(above, key=lambda variable: len(variable.path)).name)
        below = [variable.name for variable in variables if variable.path[:length] == _lower(place)]
        in_profile = _has(profile, place)
        if below and (length == len(location) or not in_profile):
            return " or ".join(map(origin, below))
        if in_profile:
            return None
    return None


def _has(value: Any, place: Sequence[Any]) -> bool:
    for part in place:
        if isinstance(value, dict):
            if part not in value:
                return False
            value = value[part]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return True  # the rest is a way in which pydantic tried to read it
    return True


def _lower(place: Sequence[Any]) -> tuple[str, ...]:
    return tuple(str(part).lower() for part in place)
