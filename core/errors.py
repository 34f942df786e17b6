"""Errors that a user can correct, and the description of a setting that does not fit."""

import difflib
import errno
import os
import signal
from collections.abc import Iterable
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    Model = TypeVar("Model", bound=BaseModel)

# What pydantic puts into a location that is no key of the user's: the branch of a union that it tried, and the mark of
# a key that is wrong itself.
NO_KEYS = ("ColumnMapping", "Source", "str", "list[str]", "[key]")


EXPECTED = {  # by the type of an error, where pydantic's message names a type of Python
    "tuple_type": "Input should be a valid list",
    "path_type": "Input should be a valid path",
    "dict_type": "Input should be a mapping of keys to values",
    "mapping_type": "Input should be a mapping of keys to values",
    "model_type": "Input should be a mapping of keys to values",
}


class TaskFailed(RuntimeError):
    """A process or job that a command started ended with an error; the message has its reason and where its log is.

    Command lines print it after ``error: `` and exit with status 1.
    """


class InputError(ValueError):
    """Something the user gave is wrong; the message says what, where, what was expected and what to do.

    Command lines print it after ``error: `` and exit with status 2; Dagster runs fail with it as the reason.
    """


STOPPED = "was stopped by signal"


def stopped(status: int) -> str | None:
    """How a signal ended the process that has this exit status; None if none did.

    Args:
        status: As Python gives it, the negative number of the signal, or as a shell does, the number plus 128.
    """
    try:
        return f"{STOPPED} {signal.Signals(-status if status < 0 else status - 128).name}"
    except ValueError:
        return None


def reason(error: BaseException) -> str:
    """Return why a file cannot be read: what the system says, else the beginning of the error's message."""
    number = getattr(error, "errno", None)
    if number is None and isinstance(error, FileNotFoundError):  # of Arrow, whose message is the path
        number = errno.ENOENT
    return os.strerror(number) if number else first_line(error)


def first_line(error: BaseException) -> str:
    """The beginning of an error's message."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def validated(
    model: "type[Model]", values: Any, where: str, advice: str = "", *, context: dict[str, Any] | None = None
) -> "Model":
    """Return ``values`` as ``model``.

    Raises:
        InputError: they do not fit; the message starts with ``where`` and ends with ``advice``.
    """
    from pydantic import ValidationError

    try:
        return model.model_validate(values, context=context)
    except ValidationError as error:
        raise InputError(f"{where}{explain_validation(error, model)}{advice}") from error


def explain_validation(error: "ValidationError", model: "type[BaseModel]") -> str:
    """One complaint about values for ``model`` in one line: the key, what was expected and what was given.

    An unknown key comes first, because a misspelt key is also missing. It is answered with the sections of ``model``
    that have it, or else with the nearest known one and the list of them.
    """
    first = _explained(error)
    path, section = _keys(location(error), model)
    if first["type"] == "union_tag_invalid":
        names = first["ctx"]["expected_tags"].replace("'", "")
        return f"{'.'.join([*path, 'type'])}: got {first['ctx']['tag']!r}, expected one of {names}"
    if first["type"] != "extra_forbidden":
        message: str = EXPECTED.get(first["type"]) or first["msg"].removeprefix("Value error, ")
        if path and message.startswith(f"{'.'.join(path)}."):
            return message  # it names the key in the section
        if first["type"] == "value_error" and isinstance(first["input"], dict):  # of a section as a whole
            dot = "." if message.split(":")[0].split(" ")[0] in first["input"] else ": "
            return f"{'.'.join(path)}{dot}{message}" if path else message
        given = repr(first["input"])
        secret = "://" in given and "@" in given  # an address may hold a password
        quiet = secret or first["type"] == "missing"
        shown = "" if quiet or message.startswith("got ") or "(got " in message else f" (got {given:.80})"
        return f"{'.'.join(path)}: {message}{shown}" if path else message
    known = getattr(_model_in(section), "model_fields", {})
    if len(path) <= 2 and (elsewhere := _sections_with(path[-1], model)):
        return f"{'.'.join(path)} is not a setting; did you mean {' or '.join(elsewhere)}?"
    guess = did_you_mean(path[-1], known)
    return f"{'.'.join(path)} is not a setting{guess}" + (f"; expected one of {', '.join(known)}" if known else "")


def _keys(parts: Iterable[int | str], model: Any) -> tuple[list[str], Any]:
    """Return a location without the types by which pydantic chose among the models of a union, and the last section."""
    path: list[str] = []
    section = model
    for part in map(str, parts):
        fields = getattr(_model_in(section), "model_fields", {})
        if (chosen := _of_type(section, part)) is not None and part not in fields:
            section = chosen
            continue
        path.append(part)
        section = fields[part].annotation if part in fields else section  # else a position in a list
    return path, section


def _of_type(annotation: Any, name: str) -> Any:
    """Return the model of a union whose field ``type`` may be ``name``; None if there is none."""
    if (fields := getattr(annotation, "model_fields", None)) is not None:
        return annotation if "type" in fields and name in get_args(fields["type"].annotation) else None
    models = (_of_type(part, name) for part in get_args(annotation))
    return next((model for model in models if model is not None), None)


def _sections_with(key: str, model: Any) -> list[str]:
    """Return the settings called ``key`` in the sections of ``model``, each with its section."""
    sections = {name: field.annotation for name, field in getattr(model, "model_fields", {}).items()}
    fields = {name: getattr(_model_in(kind), "model_fields", {}) for name, kind in sections.items() if _is_one(kind)}
    return [f"{name}.{key}" for name, known in fields.items() if key in known]


def _is_one(annotation: Any) -> bool:
    """Return whether an annotation names one model, which may be missing, and not of several."""
    return hasattr(annotation, "model_fields") or (
        isinstance(annotation, UnionType) and NoneType in annotation.__args__
    )


def location(error: "ValidationError") -> list[int | str]:
    """Return the keys, and positions in lists, of what `explain_validation` complains about."""
    parts = _explained(error)["loc"]
    return [part for part in parts if part not in NO_KEYS and not str(part).startswith("function-")]


def _explained(error: "ValidationError") -> Any:
    errors = error.errors()
    first = next((entry for entry in errors if entry["type"] == "extra_forbidden"), errors[0])
    branches = [entry for entry in errors if entry["loc"][:-1] == first["loc"][:-1]]
    words = [entry for entry in branches if any(str(part).startswith("literal[") for part in entry["loc"][-1:])]
    others = [entry for entry in branches if entry["type"] != "literal_error"]
    if words and others:  # a union, such as a number or a word
        message = f"{others[0]['msg']}, or {words[0].get('ctx', {})['expected']}"
        return {**others[0], "loc": first["loc"][:-1], "msg": message}
    return first


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown ``name``: the nearest of ``names``; "" if none is similar.

    >>> did_you_mean("smal", ["paper", "small"])
    '; did you mean small?'
    """
    near = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {near[0]}?" if near else ""


def _model_in(annotation: Any) -> Any:
    """The first pydantic model that an annotation names, else the annotation."""
    if hasattr(annotation, "model_fields"):
        return annotation
    found = (_model_in(part) for part in get_args(annotation))
    return next((part for part in found if hasattr(part, "model_fields")), annotation)
