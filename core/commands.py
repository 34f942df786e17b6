"""Commands: a class for each, which has its options, its help, the settings that it reads, and what it does.

The fields of a command are its inputs and outputs, and become options. A field that is a `Section` has settings: those
of the profile, the variables and ``--set``; `Command.everyday` names those that have an option, too. In the place of
all options, ``--request FILE`` takes a JSON object with the fields, which another process has written.
"""

import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, create_model, field_validator
from pydantic.fields import FieldInfo

from core.cli import examples, new_app, refuse_options_before
from core.errors import InputError, explain_validation, validated
from core.files import read_object, write_json
from core.plugins.config_files import PROFILES, config_names
from core.settings import Layer, Section, load
from core.text.parse import parse_yaml

if TYPE_CHECKING:
    import typer

Function = TypeVar("Function", bound=Callable[..., Any])
Asked = TypeVar("Asked", bound="Command")
REQUEST = "request"  # the option
EXTRAS = ("metavar", "cli", "hidden", "complete")


def from_yaml(option: str) -> BeforeValidator:
    """Reads the value that ``option`` of a command line gives; a request in a file has the value itself."""
    return BeforeValidator(lambda value: parse_yaml(value, option) if isinstance(value, str) else value)


def option(default: Any, description: str, **more: Any) -> Any:
    """Return a field of a command.

    Args:
        default: Its default; `...` for a field that is required.
        description: Its help.
        more: Limits of its values, and how the command line has it: ``metavar``, ``cli`` (the option, or "" for an
            argument), ``hidden`` (in a request alone), and ``complete`` (a function that lists values for a shell).
    """
    extra = {name: more.pop(name) for name in EXTRAS if name in more}
    return Field(default, description=description, json_schema_extra=extra, **more)


PROFILE = option(
    None,
    "Profile of settings: a name or a YAML file. Default: $LUFFY_PROFILE, or luffy.yaml here.",
    metavar="NAME",
    complete=lambda: config_names(PROFILES),
)
SETS = option((), "Override a setting. Repeatable.", metavar="SECTION.KEY=VALUE", cli="--set")


class Command(Section):
    """Base of all commands; the docstring of a class is the help of its command."""

    examples: ClassVar[Sequence[str]] = ()  # command lines that work as they stand
    everyday: ClassVar[Sequence[str]] = ()  # settings, SECTION.KEY, that have an option of their own
    panel: ClassVar[str | None] = None  # the heading above it in the help of its program
    _given: tuple[str, ...] = ()

    @field_validator("*", mode="before")
    @classmethod
    def _can_be_a_path(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse the empty text as a path, which would be the current folder, and a text with a character 0."""
        is_path = cls.model_fields[str(info.field_name)].annotation in (Path, Path | None)
        if is_path and isinstance(value, str) and (not value or "\0" in value):
            raise ValueError(f"got {value!r:.80}, expected the path of a file or folder")
        return value

    def run(self) -> int | None:
        """Do its work and return the exit status; None: 0."""
        raise NotImplementedError

    @property
    def given(self) -> tuple[str, ...]:
        """What its command line gives."""
        return self._given

    @classmethod
    def read(cls, file: Path) -> Self:
        """Return the command of a request in a JSON file.

        Raises:
            InputError: The file is missing, is no JSON object, or has a value that does not fit.
        """
        values = read_object(file, unique=True)
        for name in cls.model_fields:
            given = _option(cls, name).strip("-").replace("-", "_")
            if given in values and given not in cls.model_fields:
                raise InputError(f"{file}: {given} is not a setting; did you mean {name}?")
        return validated(cls, values, f"{file}: ")

    def write(self, file: Path) -> Path:
        """Write the request into ``file``, which is complete or absent, and return its path."""
        write_json(self.model_dump(mode="json"), file)
        return file

    @classmethod
    def short(cls) -> dict[str, tuple[str, str]]:
        """Return section and key of the everyday settings, by their options; that of a name is its section's."""
        keys = [tuple(setting.split(".")) for setting in cls.everyday]
        return {section if key == "name" else key: (section, key) for section, key in keys}

    @classmethod
    def sections(cls) -> dict[str, FieldInfo]:
        """Return the fields that have settings, by the names of their sections."""
        return {name: field for name, field in cls.model_fields.items() if _is_section(field.annotation)}


class Profiled(Command):
    """Base of the commands that read the settings of the whole graph."""

    profile: str | None = PROFILE
    sets: tuple[str, ...] = SETS


class _Requested(Command):
    request: Path | None = option(None, "JSON file with all of it, in the place of the options.", metavar="FILE")


def application(
    about: str, commands: Iterable[type[Command]], default: type[Command] | None = None, **more: Any
) -> "typer.Typer":
    """Return the program that has ``commands`` and does ``default`` if none is named; ``more`` is for `new_app`."""
    app = new_app(about, **more)
    if default:
        add_default(app, default)
    for command in commands:
        name = re.sub(r"(?<!^)(?=[A-Z])", "-", command.__name__).lower()
        epilog = examples(*command.examples) if command.examples else None
        app.command(name, help=inspect.getdoc(command), epilog=epilog, rich_help_panel=command.panel)(_work(command))
    return app


def add_default(app: "typer.Typer", command: type[Command]) -> None:
    """Let ``app`` do ``command`` where its command line names none."""
    app.callback(invoke_without_command=True, help=app.info.help, epilog=examples(*command.examples))(_work(command))


def _work(command: type[Command]) -> Callable[..., int | None]:
    """Return the function that typer calls with the options of ``command``."""

    @options_of(command)
    def work(context: "typer.Context", **given: Any) -> int | None:
        if context.invoked_subcommand:
            refuse_options_before(context)
            return None
        return build(command, context, given).run()

    return work


def options_of(command: type[Command]) -> Callable[[Function], Function]:
    """Give a function of typer the options of ``command``; it receives their values as keywords, for `build`."""

    def decorate(function: Function) -> Function:
        import typer

        parameters = inspect.signature(function).parameters.values()
        explicit = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
        context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        options = [_parameter(name, field) for name, field in _fields(command) if not _extra(field).get("hidden")]
        signature = inspect.Signature([context, *explicit[1:], *options])
        function.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
        function.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
        return function

    return decorate


def build(command: type[Asked], context: "typer.Context", given: Mapping[str, Any]) -> Asked:
    """Return the command that a command line gives.

    Raises:
        InputError: An option is missing or has a value that does not fit, or stands next to a request.
    """
    values = {name: value for name, value in given.items() if value is not None and value != []}
    file, sections = values.pop(REQUEST, None), command.sections()
    if file is not None:
        if others := [_option(command, name) for name in values]:
            raise InputError(f"--request {file}: leave out {', '.join(others)}: the file has all of it")
        return command.read(Path(file))
    options = tuple(_option(command, name) for name in values)
    advice = f"; see {context.command_path} --help"
    fields = command.model_fields
    if missing := [name for name, field in fields.items() if field.is_required() and name not in {*values, *sections}]:
        raise InputError(f"missing {', '.join(_option(command, name) for name in missing)}{advice}")
    if sections:
        profile, sets = values.pop("profile", None), values.pop("sets", ())
        root = create_model("Settings", __base__=Section, **{name: (f.annotation, f) for name, f in sections.items()})  # pyright: ignore[reportCallIssue, reportArgumentType]
        layers = [*_required(command), *_everyday(command, values)]
        settings = load(root, profile, sets, more=layers)
        values = {name: value for name, value in values.items() if name not in command.short()}
        values |= {name: getattr(settings, name) for name in sections}
    try:
        built = command.model_validate(values)
    except ValidationError as error:
        message = explain_validation(error, command)
        key = re.match(r"\w+(?=[:.])", message)
        named = key and key[0] in fields and not message.startswith("--")
        raise InputError(f"{_option(command, key[0]) + message[key.end() :] if named else message}{advice}") from None
    built._given = options
    return built


def _required(command: type[Command]) -> list[Layer]:
    """Return a layer without values for each section that has required keys, which messages call by their options."""
    layers = []
    for name, field in command.sections().items():
        if field.is_required():
            kind: Any = field.annotation
            keys = [option for option, (_, key) in command.short().items() if kind.model_fields[key].is_required()]
            layers.append(Layer(", ".join(map(_dashed, keys)), {name: {}}))
    return layers


def _everyday(command: type[Command], values: Mapping[str, Any]) -> list[Layer]:
    layers = []
    for name, (section, key) in command.short().items():
        if name not in values:
            continue
        where, value = _option(command, name), values[name]
        parts = [_value(part, where) for part in value] if isinstance(value, list) else _value(value, where)
        layers.append(Layer(where, {section: {key: parts}}, Path.cwd()))
    return layers


def _value(given: str | bool, where: str) -> Any:
    """Return a mapping or a list that is written as YAML; anything else is itself."""
    return parse_yaml(given, where) if isinstance(given, str) and given.startswith(("{", "[")) else given


def _fields(command: type[Command]) -> list[tuple[str, FieldInfo]]:
    """Return what is an option: arguments, inputs and outputs, everyday settings, and where other settings are."""
    sections = command.sections()
    fields = {name: field for name, field in command.model_fields.items() if name not in sections}
    for name, (section, key) in command.short().items():
        kind: Any = sections[section].annotation
        fields[name] = kind.model_fields[key]
    ordered = sorted(fields.items(), key=lambda named: (_extra(named[1]).get("cli") != "", not named[1].is_required()))
    settings = Profiled.model_fields.items() if sections else []
    return [*ordered, *settings, *([] if issubclass(command, Profiled) else _Requested.model_fields.items())]


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    import typer

    extra, kind = _extra(field), _kind(field.annotation)
    several = get_origin(kind) in (tuple, list)
    about = field.description or ""
    text = (about.partition(". ")[0] if field.json_schema_extra is None else about).removesuffix(".")
    if field.is_required():
        text += " (required)"
    elif field.default is not False and field.default not in (None, "", (), [], {}, ...) and kind is not bool:
        text += f" (default: {field.default})"
    metavar = extra.get("metavar") or _metavar(kind)
    settings: dict[str, Any] = {"help": f"{text}.", "show_default": False, "metavar": metavar}
    if complete := extra.get("complete") or (get_origin(kind) is Literal and (lambda: [*map(str, get_args(kind))])):
        settings["autocompletion"] = complete
    if extra.get("cli") == "":
        return _keyword(name, Annotated[list[str] | None if several else str | None, typer.Argument(**settings)])
    flag = extra.get("cli") or _dashed(name)
    if kind is bool:
        switch = flag if field.default is False else f"{flag}/--no-{flag[2:]}"
        return _keyword(name, Annotated[bool | None, typer.Option(switch, help=settings["help"], show_default=False)])
    return _keyword(name, Annotated[list[str] | None if several else str | None, typer.Option(flag, **settings)])


def _keyword(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _kind(annotation: Any) -> Any:
    """Return the type of a field without ``None`` and annotations; of several, the list, if there is one."""
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        kinds = [_kind(part) for part in get_args(annotation) if part is not type(None)]
        chosen = [kind for kind in kinds if get_origin(kind) in (tuple, list)] or [int] * (int in kinds) or kinds
        return chosen[0]
    return annotation


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _metavar(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    if get_origin(kind) in (tuple, list):
        return _metavar(get_args(kind)[0])
    return {int: "N", float: "X", Path: "PATH"}.get(kind, "TEXT")


def _extra(field: FieldInfo) -> dict[str, Any]:
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


def _option(command: type[Command], name: str) -> str:
    """Return what the command line calls the field, or everyday setting, ``name``."""
    field = (Profiled.model_fields | command.model_fields).get(name)
    extra = _extra(field) if field else {}
    return str(extra["metavar"]) if extra.get("cli") == "" else str(extra.get("cli") or _dashed(name))


def _dashed(name: str) -> str:
    return f"--{name.replace('_', '-')}"
