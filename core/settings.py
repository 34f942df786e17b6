"""Settings: models of their sections, and the layers that give them values.

A profile (a YAML file, which may extend another one as its ``base``), then variables ``LUFFY__SECTION__KEY``, then the
options ``--set SECTION.KEY=VALUE``: the last one wins. Values are YAML; mappings are merged by key, and every other
value, also a list, replaces the one before.
"""

import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from core import INSTALLED, PROJECT
from core.errors import InputError, did_you_mean, explain_validation, location
from core.files import read_yaml, write_text
from core.plugins.config_files import PROFILES, config_file, is_path
from core.text.parse import parse_yaml
from core.text.patterns import compile_full_match

# What `pipelines.settings.Settings` has. A command reads some of it, and a key of the others is no mistake.
SECTIONS = ("targets", "split", "checks", "suite", "benchmarks", "generate", "difficulty", "evaluation", "report")
SECTIONS += ("promotion", "training", "model", "storage", "interpreter", "retention", "catalog", "schedule")
SECTIONS += ("notify", "tools")
PROFILE, PREFIX = "LUFFY_PROFILE", "LUFFY__"  # variables: the name of the profile, and the start of a setting
HERE = "luffy.yaml"  # the profile of a folder
BASE = "base"  # key of a profile: the profile that it extends
RUNS, FILE = "runs", "settings.yaml"  # a folder of the storage, with the settings of each run
SET = "--set "
FUNCTION = compile_full_match(r"(?P<file>.*\.py):(?P<name>\w+)")  # of a file of the user's


class Section(BaseModel):
    """Base of all settings: an unknown key is an error, and a default is validated like any other value."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False, defer_build=True)


Root = TypeVar("Root", bound=Section)


def user_path(value: Any, folder: Path) -> Any:
    """Return a path, glob or ``FILE.py:FUNCTION`` that exists in ``folder`` as an absolute one, and others as they are.

    Those may be names, addresses, or paths below the project. A function's file that is nowhere counts as the user's.
    """
    if not isinstance(value, str) or not value or "://" in value:
        return value
    if function := FUNCTION(value):
        file = Path(function["file"]).expanduser()
        ours = os.path.isfile(PROJECT / file) and not os.path.isfile(folder / file)
        return value if ours else f"{(folder / file).absolute()}:{function['name']}"
    path = folder / Path(value).expanduser()
    if any(mark in value for mark in "*?[") and not Path(value).is_absolute():
        exists = any(folder.glob(value))
    else:
        exists = os.path.exists(path)
    return str(path.absolute()) if exists else value


def without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    """Return ``value``; ValueError for a null in it.

    It is for mappings that become part of another program's configuration, where a null means nothing.
    """
    if name := next((name for name, part in value.items() if part is None), None):
        raise ValueError(f"{name!r} is null; give it a value, or leave it out")
    return value


def yaml_path(value: Any, folder: Path) -> Any:
    """Return the path of a YAML file as `user_path` does, also of one that is nowhere; another text is a name."""
    if not isinstance(value, str) or not is_path(value):
        return value
    path = user_path(value, folder)
    if "://" in path or os.path.exists(PROJECT / path):
        return path
    return str((folder / path).absolute())


def output_path(value: Any, folder: Path) -> Any:
    """Return a path that need not exist as an absolute one."""
    is_local = isinstance(value, str) and value and "://" not in value
    folder = Path.cwd() if INSTALLED and folder == PROJECT else folder  # a shipped profile's lie in no wheel
    return str((folder / Path(value).expanduser()).absolute()) if is_local else value


@dataclass(frozen=True)
class UserPath:
    """Marks the type of a setting that names files: relative paths in it start at the folder of their layer."""

    locate: Callable[[Any, Path], Any] = user_path


@dataclass(frozen=True)
class Layer:
    """Values from one place.

    Args:
        name: What messages call the place: a profile with its file, a variable, or an option.
        values: The values by section and key.
        folder: Where the relative paths in them start. None: they are resolved already.
    """

    name: str
    values: Mapping[str, Any]
    folder: Path | None = None

    def sets(self, place: Sequence[Any]) -> bool:
        """Return whether it has a value at ``place``: section, keys, and positions in lists."""
        value: Any = self.values
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


def load(
    root: type[Root],
    profile: str | None = None,
    sets: Sequence[str] = (),
    default: str | None = None,
    more: Sequence[Layer] = (),
) -> Root:
    """Return the settings of a command.

    Args:
        root: The sections that it reads.
        profile: The option ``--profile``. Without it, the variable ``LUFFY_PROFILE`` or ``luffy.yaml`` in the current
            folder names the profile, or ``default``; else every setting has its default.
        sets: The options ``--set``.
        default: The name of a profile.
        more: Further layers, which win.

    Raises:
        InputError: A profile, variable or option is wrong; the message names it, the key, and what was expected.
    """
    if profile == "":
        raise InputError("--profile '': expected the name of a profile, or the path of a YAML file")
    name = profile or profile_name() or default
    where = "--profile" if profile else f"variable {PROFILE}"
    layers = [Layer("the current folder", {"storage": {"root": "var/storage"}}, Path.cwd())] if INSTALLED else []
    layers += [] if name is None else profile_layers(name, where)
    return resolve(root, [*layers, *variable_layers(root), *set_layers(sets, root), *more])


def profile_name() -> str | None:
    """Return the profile that ``LUFFY_PROFILE`` names, or else the current folder's; None without either."""
    return os.environ.get(PROFILE) or (HERE if Path(HERE).is_file() else None)


def resolve(root: type[Root], layers: Sequence[Layer]) -> Root:
    """Return the settings that ``layers`` give, the last one winning.

    Args:
        root: The sections that are read. A layer may have other ones of `SECTIONS`.
        layers: The layers, the weakest first.

    Raises:
        InputError: A value is wrong; the message names the layer that has set it, the key, and what was expected.
    """
    values: dict[str, Any] = {}
    others = {name for name in SECTIONS if name not in root.model_fields}
    for layer in layers:
        own = {name: value for name, value in layer.values.items() if name not in others}
        if layer.folder is not None:
            own = _located(own, root, (), layer.folder)
        values = merged(values, own)
    try:
        return root.model_validate(values)
    except ValidationError as error:
        message = explain_validation(error, root)
        raise InputError(_named(_setter(message, location(error), layers), message)) from error


def merged(base: Any, changes: Any) -> Any:
    """Merge ``changes`` into ``base``: mappings by key, everything else as a whole.

    >>> merged({"seeds": {"default": 1}, "recipes": ["sft"]}, {"seeds": {"luffy": 3}, "recipes": ["luffy"]})
    {'seeds': {'default': 1, 'luffy': 3}, 'recipes': ['luffy']}
    """
    if not (isinstance(base, dict) and isinstance(changes, dict)):
        return changes
    return base | {key: merged(base.get(key), value) for key, value in changes.items()}


def profile_layers(name: str, where: str, beside: Path | None = None, chain: tuple[Path, ...] = ()) -> list[Layer]:
    """Return a profile and those that it extends, the last base first.

    Args:
        name: A shipped profile, or the path of a YAML file.
        where: What names the profile.
        beside: The file that names it as its base.
        chain: The files that lead to it.
    """
    try:
        file = config_file(PROFILES, name, beside=beside)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    if file in chain:
        names = " -> ".join(path.stem for path in (*chain, file))
        raise InputError(f"profile {file}: it is a base of itself ({names}); remove a line `base:`")
    values = read_yaml(file, "profile")
    base = values.pop(BASE, None)
    if not isinstance(base, str | None):
        raise InputError(f"profile {file}: base: expected the name of a profile or a YAML file, got {base!r}")
    below = [] if base is None else profile_layers(base, f"profile {file}: base", file, (*chain, file))
    if file.is_relative_to(PROJECT / PROFILES):
        folder = PROJECT
    else:  # the profile of an installed package speaks of the user's files
        folder = file.parent if is_path(name) or (beside and beside.parent == file.parent) else Path.cwd()
    return [*below, Layer(f"profile {file}", values, folder)]


def variable_layers(root: type[Section]) -> Iterator[Layer]:
    """Yield one layer for each variable ``LUFFY__SECTION__KEY``, with relative paths from the current folder."""
    spellings: dict[str, str] = {}
    for name in sorted(os.environ):
        upper = name.upper()
        if upper.startswith(PREFIX):
            path = upper.removeprefix(PREFIX).lower().split("__")
            if os.environ[(other := spellings.setdefault(upper, name))] != os.environ[name]:
                raise InputError(f"variables {other} and {name} set the same setting to two values; unset one of them")
            yield _single(f"variable {name}", path, os.environ[name], root)
        elif meant := _meant(upper, root):
            raise InputError(f"variable {name}: expected {PREFIX}SECTION__KEY; did you mean {meant}?")


def set_layers(sets: Iterable[str], root: type[Section], folder: Path | None = None) -> Iterator[Layer]:
    """Yield one layer for each option ``--set SECTION.KEY=VALUE`` of a command that reads the sections of ``root``.

    Relative paths start in ``folder``, or else in the current one.
    """
    for text in sets:
        key, equals, value = text.partition("=")
        path = key.split(".")
        if not equals or not all(path):
            raise InputError(f"--set {text!r}: expected SECTION.KEY=VALUE, e.g. training.seed=1")
        if path[0] in SECTIONS and path[0] not in root.model_fields:
            raise InputError(f"--set {key}: this command reads the sections {', '.join(root.model_fields)}")
        yield _single(f"{SET}{key}", path, value, root, folder)


def write_run(settings: Section, file: Path) -> Path:
    """Write ``settings`` for the other processes of a run, and return the file."""
    import yaml

    values = settings.model_dump(mode="json")
    write_text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), file)
    return file


def read_run(file: Path, root: type[Root]) -> Root:
    """Read the sections of ``root`` from the file that `write_run` wrote."""
    return resolve(root, [Layer(f"settings {file}", read_yaml(file, "settings"))])


def _single(name: str, path: Sequence[str], text: str, root: type[Section], folder: Path | None = None) -> Layer:
    """Return the layer of one setting.

    Args:
        name: What messages call it.
        path: Section and keys.
        text: The value as YAML.
        root: The sections of the command.
        folder: Where relative paths start. None: in the current folder.

    Raises:
        InputError: The section does not exist, or the value is no YAML.
    """
    if len(path) < 2 or path[0] not in {*root.model_fields, *SECTIONS}:
        guess = "" if path[0] in SECTIONS else did_you_mean(path[0], SECTIONS)
        shape = "SECTION.KEY=VALUE" if name.startswith(SET) else f"{PREFIX}SECTION__KEY"
        raise InputError(f"{name}{guess or ':'} expected {shape}, with a section of {', '.join(root.model_fields)}")
    value = parse_yaml(text, name)
    for key in reversed(path):
        value = {key: value}
    return Layer(name, value, folder or Path.cwd())


def _meant(variable: str, root: type[Section]) -> str | None:
    """Return what a variable with single underscores in the place of double ones means.

    None for a variable that means nothing to us: users have variables of their own that begin with LUFFY.
    """
    start, _, words = variable.partition("_")
    if start != "LUFFY" or "__" in words:
        return PREFIX + words if start == "LUFFY" else None
    for section, field in root.model_fields.items():
        kinds = get_args(field.annotation) or (field.annotation,)
        keys = [key for kind in kinds for key in getattr(kind, "model_fields", ())]
        if key := next((key for key in keys if words == f"{section}_{key}".upper()), None):
            return f"{PREFIX}{section}__{key}".upper()
    return None


def _setter(message: str, place: Sequence[Any], layers: Sequence[Layer]) -> str:
    """Return the name of the layer that has set what a ``message`` about ``place`` complains of.

    A message may name a key below ``place``. A missing key counts as set by what begins its section.
    """
    named = message.split(":")[0].split(" ")[0].split(".")
    place = named if named[: len(place)] == [*map(str, place)] else place
    for length in range(len(place), 0, -1):
        setting = [layer.name for layer in layers if layer.sets(place[:length])]
        if setting:
            return setting[-1 if length == len(place) else 0]
    return layers[-1].name if layers else "settings"


def _named(where: str, message: str) -> str:
    """Put ``where`` before a message, and the name of a setting once.

    >>> _named("--set training.seeed", "training.seeed is not a setting")
    '--set training.seeed is not a setting'
    """
    key = where.removeprefix(SET)
    return SET + message if key != where and message.startswith(key) else f"{where}: {message}"


def _located(value: Any, kind: Any, marks: Sequence[Any], folder: Path) -> Any:
    """Return ``value`` with the paths in it that start at ``folder`` as absolute ones.

    Args:
        value: A value as YAML has it, which need not fit.
        kind: The type of the setting, in which `UserPath` says what is a path.
        marks: The annotations of the type.
        folder: Where relative paths start.
    """
    if mark := next((mark for mark in marks if isinstance(mark, UserPath)), None):
        if isinstance(value, list):
            return [mark.locate(part, folder) for part in value]
        return mark.locate(value, folder)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _located(value, parts[0], parts[1:], folder)
    if origin in (Union, types.UnionType):
        readings = (_located(value, part, (), folder) for part in parts)
        return next((reading for reading in readings if reading != value), value)
    if isinstance(value, dict):
        fields = getattr(kind, "model_fields", {})
        inner = {name: (field.annotation, field.metadata) for name, field in fields.items()}
        other = (parts[1], ()) if origin is dict and parts else (Any, ())
        return {name: _located(part, *inner.get(name, other), folder) for name, part in value.items()}
    if origin in (list, tuple) and parts:
        if isinstance(value, list):
            return [_located(part, parts[0], (), folder) for part in value]
        return _located(value, parts[0], (), folder)  # a setting that takes one value for a list of it
    return value
