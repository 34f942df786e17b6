"""Commands: a class for each, which has its options, its help, the settings that it reads, and what it does.

The fields of a command are its inputs and outputs, and become options. A field that is a `Section` has settings,
from the profile, the variables and ``--set``; `Command.everyday` names those that have an option, too. Instead of all
options, ``--request FILE`` takes a JSON object with the fields, which another process has written::

    class Suite(Command):
        # its docstring is the help

        everyday = ("suite.name", "benchmarks.limit")
        out: OutputFile = option(..., "The file to write.", metavar="FILE.parquet")
        suite: SuiteSettings = SuiteSettings()
        benchmarks: BenchmarkSettings = BenchmarkSettings()

        def run(self) -> None: ...

is ``suite --out FILE.parquet --suite TEXT --limit N --profile NAME --set SECTION.KEY=VALUE``.
"""

import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, cast, get_args, get_origin

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
UNSAID = ("None", "True", "False", "", "()", "[]", "{}")  # defaults of which a help is silent
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

    @classmethod
    def read(cls, file: Path) -> Self:
        """Return the command of a request in a JSON file.

        Raises:
            InputError: The file is missing, is no JSON object, or has a value that does not fit.
        """
        return validated(cls, read_object(file, unique=True), f"{file}: ")

    def write(self, file: Path) -> Path:
        """Write the request into ``file``, which is complete or absent, and return its path."""
        write_json(self.model_dump(mode="json"), file)
        return file

    @classmethod
    def sections(cls) -> dict[str, Any]:
        """Return the classes of its settings, by section; one that may be absent counts, too."""
        kinds = {name: _kind(field.annotation) for name, field in cls.model_fields.items()}
        return {name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Section)}


class Profiled(Command):
    """Base of the commands that read the settings of the whole graph."""

    profile: str | None = PROFILE
    sets: tuple[str, ...] = SETS


class _Requested(Command):
    """The option in the place of all others."""

    request: Path | None = option(None, "JSON file with inputs and settings, instead of the options.", metavar="FILE")


@dataclass(frozen=True)
class _Option:
    """An option or argument of a command line.

    Args:
        name: The field of a command, or the key of an everyday setting.
        field: Its type, default and description.
        section: That of a setting.
        key: The same.
    """

    name: str
    field: FieldInfo
    section: str | None = None
    key: str = ""

    @property
    def extra(self) -> dict[str, Any]:
        """How the command line has it."""
        return cast("dict[str, Any]", self.field.json_schema_extra or {})

    @property
    def is_argument(self) -> bool:
        """Whether it is given by its place."""
        return self.extra.get("cli") == ""

    @property
    def flag(self) -> str:
        """What the command line and messages call it."""
        dashed = f"--{self.name.replace('_', '-')}"
        return self.extra["metavar"] if self.is_argument else self.extra.get("cli", dashed)

    @property
    def text(self) -> str:
        """Its help; of a setting, the first sentence."""
        text, default = str(self.field.description), str(self.field.default)
        if self.section:
            text = text.partition(". ")[0]
        if self.field.is_required():
            return f"{text.removesuffix('.')} (required)."
        if default in UNSAID:
            return f"{text.removesuffix('.')}."
        return f"{text.removesuffix('.')} (default: {default})."

    def parameter(self) -> inspect.Parameter:
        """Return the parameter by which typer knows it."""
        import typer

        kind = _kind(self.field.annotation)
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        several = get_origin(kind) in (tuple, list)
        settings: dict[str, Any] = {"help": self.text, "show_default": False}
        if kind is bool:
            switch = self.flag if self.field.default is False else f"{self.flag}/--no-{self.flag[2:]}"
            return _keyword(self.name, bool | None, typer.Option(switch, **settings))
        short = {int: "N", float: "X", Path: "PATH"}.get(kind, "TEXT")
        settings["metavar"] = self.extra.get("metavar") or "|".join(choices) or short
        settings["autocompletion"] = self.extra.get("complete") or (lambda: list(choices))
        names = () if self.is_argument else (self.flag,)
        info = (typer.Argument if self.is_argument else typer.Option)(*names, **settings)
        return _keyword(self.name, list[str] | None if several else str | None, info)

    def layer(self, value: Any) -> Layer:
        """Return the setting that the command line gives."""
        where = self.flag
        parts = [_value(part, where) for part in value] if isinstance(value, list) else _value(value, where)
        return Layer(where, {str(self.section): {self.key: parts}}, Path.cwd())


def options(command: type[Command]) -> dict[str, _Option]:
    """Return the options of a command: arguments, what is required, the rest, and where its settings are from."""
    sections = command.sections()
    fields = {name: field for name, field in command.model_fields.items() if name not in sections}
    listed = [_Option(name, field) for name, field in fields.items() if not _Option(name, field).extra.get("hidden")]
    for setting in command.everyday:
        section, key = setting.split(".")
        name = section if key == "name" else key
        listed.append(_Option(name, sections[section].model_fields[key], section, key))
    listed.sort(key=lambda option: (not option.is_argument, not option.field.is_required()))
    shared = dict(Profiled.model_fields) if sections else {}
    if sections or "out" in fields:  # other processes start those that write files
        shared |= _Requested.model_fields
    listed += [_Option(name, field) for name, field in shared.items()]
    return {option.name: option for option in listed}


def application(
    about: str, commands: Iterable[type[Command]], default: type[Command] | None = None, **more: Any
) -> "typer.Typer":
    """Return a program.

    Args:
        about: Its help.
        commands: Its commands, in the order of the help. Each has the name of its class.
        default: What it does where the command line names no command.
        more: As `new_app` takes it.
    """
    app = new_app(about, **more)
    if default:
        add_default(app, default)
    for command in commands:
        name = "".join(f"-{sign.lower()}" if sign.isupper() else sign for sign in command.__name__).removeprefix("-")
        app.command(name, help=inspect.getdoc(command), epilog=examples(*command.examples))(_work(command))
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
    """Give a function of typer the options of ``command``, besides those that it has.

    It receives the values as keywords, for `build`.
    """

    def decorate(function: Function) -> Function:
        import typer

        _, *explicit, keywords = inspect.signature(function).parameters.values()
        assert keywords.kind is keywords.VAR_KEYWORD
        context = inspect.Parameter("context", keywords.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        listed = [option.parameter() for option in options(command).values()]
        signature = inspect.Signature([context, *explicit, *listed])
        function.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
        function.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
        return function

    return decorate


def build(command: type[Asked], context: "typer.Context", given: Mapping[str, Any]) -> Asked:
    """Return the command that a command line gives.

    Args:
        command: Its class.
        context: Where typer is; messages name its program.
        given: What typer has read, by `options`.

    Raises:
        InputError: An option is missing or has a value that does not fit, or stands next to a request.
    """
    known = options(command)
    values = {name: value for name, value in given.items() if value is not None and value != []}
    file = values.pop("request", None)
    flags = tuple(known[name].flag for name in values)
    if file is not None:
        if flags:
            raise InputError(f"--request {file}: leave out {', '.join(flags)}: the file has all of it")
        return command.read(Path(file))
    advice = f"; see {context.command_path} --help"
    own = [option for option in known.values() if option.section is None and option.field.is_required()]
    if missing := [option.flag for option in own if option.name not in values]:
        raise InputError(f"missing {', '.join(missing)}{advice}")
    if command.sections():
        values = _with_settings(command, known, values)
    try:
        built = command.model_validate(values)
    except ValidationError as error:
        message = explain_validation(error, command)
        key, rest = message.partition(":")[0].partition(".")[0], ""
        if key in known and known[key].section is None:
            key, rest = known[key].flag, message[len(key) :]
        raise InputError(f"{key + rest if rest else message}{advice}") from None
    built._given = flags
    return built


def _with_settings(command: type[Command], known: Mapping[str, _Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a command: its inputs and outputs, and its settings from all layers.

    Args:
        command: Its class.
        known: Its options.
        values: What the command line gives.
    """
    sections = command.sections()
    fields: Any = {name: (command.model_fields[name].annotation, command.model_fields[name]) for name in sections}
    layers = []
    for name in sections:  # messages call what is missing by its options
        needed = [option.flag for option in known.values() if option.section == name and option.field.is_required()]
        if needed:
            layers.append(Layer(", ".join(needed), {name: {}}))
    layers += [known[name].layer(value) for name, value in values.items() if known[name].section]
    root = create_model("Settings", __base__=Section, **fields)
    settings = load(root, values.get("profile"), values.get("sets", ()), more=layers)
    inputs = {name: value for name, value in values.items() if name in command.model_fields and name not in sections}
    return inputs | {name: getattr(settings, name) for name in sections}


def _value(given: Any, where: str) -> Any:
    """Return a mapping or a list that is written as YAML; anything else is itself."""
    return parse_yaml(given, where) if isinstance(given, str) and given.startswith(("{", "[")) else given


def _keyword(name: str, kind: Any, info: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, info])


def _kind(annotation: Any) -> Any:
    """Return the type of a field without ``None`` and annotations; of several, the list, if there is one."""
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    kinds = [_kind(part) for part in get_args(annotation) if part is not type(None)]
    return next((kind for kind in kinds if get_origin(kind) in (tuple, list) or kind is int), kinds[0])
