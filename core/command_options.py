"""Typer commands whose options are the fields of a `Request`, so that options and request files are equivalent."""

import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from core.cli import as_written, examples
from core.errors import InputError, explain_validation
from core.request_model import Request, extra_of, option_name

Function = TypeVar("Function", bound=Callable[..., Any])
Asked = TypeVar("Asked", bound=Request)
REQUEST = "request"


def options_of(model: type[Request]) -> Callable[[Function], Function]:
    """Give a typer command an option for each field of ``model``, and ``--request FILE`` in the place of all of them.

    The command receives the values that were given as keywords, for `request_of`. The description, the default and the
    limits of a field are those of the model; its ``json_schema_extra`` may have ``cli`` (the option's name, or "" for
    an argument), ``metavar``, ``panel`` (the group in the help) and ``hidden`` (for a file alone).
    """

    def decorate(function: Function) -> Function:
        explicit = [
            parameter
            for parameter in inspect.signature(function, eval_str=True).parameters.values()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        file = typer.Option(metavar="FILE", help="JSON file that holds the whole request, instead of the options.")
        fields = sorted(model.model_fields.items(), key=lambda named: not named[1].is_required())
        derived = [_parameter(name, field) for name, field in fields if not extra_of(field).get("hidden")]
        derived.append(_keyword(REQUEST, Annotated[Path | None, file]))
        function.__signature__ = inspect.Signature([*explicit, *derived])  # pyright: ignore[reportFunctionMemberAccess]
        return function

    return decorate


def add_request_command(app: typer.Typer, model: type[Asked], work: Callable[[Asked], Any], *lines: str) -> None:
    """Add a command to ``app`` that does ``work`` with a request; it has the name and the docstring of ``work``.

    ``lines``: examples of the command, for its help.
    """

    @options_of(model)
    def command(context: typer.Context, **given: Any) -> Any:
        return work(request_of(model, context, given))

    command.__doc__ = work.__doc__
    app.command(work.__name__, epilog=examples(*lines))(command)


def request_of(model: type[Asked], context: typer.Context, given: dict[str, Any]) -> Asked:
    """Build the request from the options of a command.

    Raises:
        InputError: an option is missing or has a value that does not fit, or stands beside a request file.
    """
    values = {name: value for name, value in given.items() if value is not None and value != []}
    file = values.pop(REQUEST, None)
    if file is not None:
        if values:
            raise InputError(
                f"--request {file}: leave out {', '.join(map(_option(model), values))}: the file has all of it"
            )
        return model.read(file)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise InputError(f"{_explain(error, model)}; see {context.command_path} --help") from None


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    extra, kind = extra_of(field), _kind(field.annotation)
    text = (field.description or "").removesuffix(".")
    if field.is_required():
        text += " (required)"
    elif field.default is not False and field.default not in (None, "", (), {}):
        shown = ", ".join(map(str, field.default)) if isinstance(field.default, tuple) else field.default
        text += f" (default: {shown})" if kind is not bool else " (default)"
    settings: dict[str, Any] = {"help": f"{as_written(text)}.", "show_default": False}
    if extra.get("cli") == "":
        return _keyword(name, Annotated[list[str] | None, typer.Argument(metavar=extra["metavar"], **settings)])
    option = option_name(name, field)
    settings["rich_help_panel"] = extra.get("panel")
    if kind is bool:
        switch = option if field.default is False else f"{option}/--no-{option[2:]}"
        return _keyword(name, Annotated[bool | None, typer.Option(switch, **settings)])
    settings["metavar"] = extra.get("metavar") or _metavar(kind)
    if choices := get_args(kind) if get_origin(kind) is Literal else ():
        settings["autocompletion"] = lambda: list(choices)
    several = get_origin(kind) is tuple
    return _keyword(name, Annotated[list[str] | None if several else str | None, typer.Option(option, **settings)])


def _keyword(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _kind(annotation: Any) -> Any:
    """Return the type of a field, without ``None`` and annotations."""
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        others = [part for part in get_args(annotation) if part is not type(None)]
        return _kind(others[0]) if len(others) == 1 else annotation
    return annotation


def _metavar(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return _metavar(get_args(kind)[0])
    return {int: "N", float: "X", Path: "PATH"}.get(kind, "TEXT")


def _option(model: type[Request]) -> Callable[[str], str]:
    return lambda name: option_name(name, model.model_fields[name])


def _explain(error: ValidationError, model: type[Request]) -> str:
    """Describe the first invalid value of a command line, or all options that are missing."""
    name_of = _option(model)
    errors = error.errors()
    missing = [
        name_of(str(entry["loc"][0])) for entry in errors if entry["type"] == "missing" and len(entry["loc"]) == 1
    ]
    if missing:
        return f"missing {', '.join(missing)}"
    first = errors[0]
    if not first["loc"]:
        return first["msg"].removeprefix("Value error, ")
    name = str(first["loc"][0])
    if first["type"] == "value_error":
        text = first["msg"].removeprefix("Value error, ")
        return text if text.startswith(name_of(name)) else f"{name_of(name)}: {text}"
    expected = _expected(model.model_fields[name])
    if expected is None:
        return f"{explain_validation(error, model)}"
    return f"{name_of(name)}: got {first['input']!r:.80}, expected {expected}"


def _expected(field: FieldInfo) -> str | None:
    """Describe in words what a field takes; None for a type that the descriptions do not cover."""
    if "expected" in extra_of(field):
        return str(extra_of(field)["expected"])
    kind = _kind(field.annotation)
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if kind not in (int, float):
        return None
    limits = {name: value for part in field.metadata for name, value in _limits(part)}
    words = {"gt": "above", "ge": "from", "le": "up to", "lt": "below"}
    parts = [f"{word} {limits[name]:g}" for name, word in words.items() if name in limits]
    return " ".join([f"a {'whole ' if kind is int else ''}number", *parts])


def _limits(part: Any) -> list[tuple[str, float]]:
    return [(name, getattr(part, name)) for name in ("gt", "ge", "le", "lt") if getattr(part, name, None) is not None]
