"""Relative paths that a user gives start at the user's current folder, and those in a profile at the profile's folder.

A path that leads nowhere there may start at the project, as those of the shipped profiles do.
"""

import functools
import json
import os
from pathlib import Path
from typing import Any

from core import PROJECT
from core.plugins.config_files import is_path
from core.text.parse import parse_yaml
from core.text.patterns import Match, compile_full_match, compile_pattern
from training.config.keys import quoted, unquoted
from training.config.teacher_settings import MODEL, located

# Settings that name files or folders, alone, in a list, or as the `path` or `file` of a mapping; a verifier in it has
# paths, too.
PATHS = (
    "targets.source",
    "targets.review",
    "targets.difficulty",
    "targets.filters",
    "model.source",
    "benchmarks.roots",
    "suite.benchmarks",
    "generate.problems",
    "generate.teacher",
)
FILES = ("suite.name", "checks.suite", "training.recipe")  # the path of a YAML file, or a name
OVERRIDES = "training.overrides"  # a list of KEY=VALUE, whose values may be files
OUTPUTS = "storage.root"  # a folder that need not exist yet
GLOB = "*?["
VERIFIERS = ("verifier", "verifiers")  # keys with one spec, or with several
FUNCTION = compile_full_match(r"(?P<file>.*\.py):(?P<name>\w+)")  # of a file of the user's
# Those among others in the value of an override, with their quotes if they have some. In quotes, only an absolute path
# may have a "=": otherwise the quotes hold an override of the first stage.
FUNCTIONS = compile_pattern(
    r"""'(?:/[^']*|[^'=]*)\.py:\w+'|"(?:/[^"]*|[^"=]*)\.py:\w+"|[^\s\[\],{}'"=:][^\[\],{}'"=:]*\.py:\w+"""
)


def from_user_folder(key: str, value: str, where: str) -> str:
    """Return the YAML ``value`` of the setting ``key``, with the paths that exist here made absolute.

    Other values stay as they are: they may be a name, an id of the hub, or a path in the project.

    Args:
        key: SECTION.KEY, and the keys of mappings below it.

    Raises:
        InputError: ``value`` is not YAML; the message starts with ``where``.
    """
    section, *names = key.split(".")
    setting, below = ".".join([section, *names[:1]]), names[1:]
    if setting not in (*PATHS, *FILES, OVERRIDES, OUTPUTS):
        return value
    parsed = parse_yaml(value, where)
    if key == OUTPUTS and isinstance(parsed, str) and "://" not in parsed:
        return json.dumps(str(Path(parsed).expanduser().absolute()))
    located = locate(setting, functools.reduce(lambda part, name: {name: part}, reversed(below), parsed), Path.cwd())
    located = functools.reduce(lambda part, name: part[name], below, located)
    return value if located == parsed else json.dumps(located)  # YAML, too


def locate(key: str, value: Any, folder: Path) -> Any:
    """Return the ``value`` of the setting ``key``, with the relative paths that exist in ``folder`` made absolute."""
    if key == OVERRIDES:
        return _overrides(value, folder)
    if key in FILES:
        return _located_file(value, folder)
    return _located(value, folder) if key in PATHS else value


def profile_from_user_folder(name: str) -> str:
    """Return a profile's name, or the absolute path of a YAML file, which need not exist."""
    located = _located_file(name, Path.cwd())
    return str(Path(name).expanduser().absolute()) if is_path(located) and not (PROJECT / located).exists() else located


def _overrides(value: Any, folder: Path) -> Any:
    """Return overrides of the training, with the files that their values name as absolute paths."""
    if not isinstance(value, list):
        return value
    pairs = [entry.partition("=") if isinstance(entry, str) else (entry, "", "") for entry in value]
    return [
        f"{name}={_located_value(name, path, folder)}" if path else entry
        for entry, (name, _, path) in zip(value, pairs, strict=True)
    ]


def _located_value(key: str, value: str, folder: Path) -> str:
    """Locate the value of an override: a teacher, the path of a file, or a text that names functions in files."""
    text = unquoted(value)
    if key == MODEL:
        return _quoted(text, located(text, folder), value)
    if os.path.isfile(folder / Path(text).expanduser()):  # that of Path refuses a value of many characters
        return _quoted(text, _located(text, folder), value)

    def function(match: Match) -> str:
        text, beside = unquoted(match[0]), value.replace(match[0], "")
        return _quoted(text, _located(text, folder), match[0], beside)

    return FUNCTIONS.sub(function, value)


def _quoted(text: str, path: str, value: str, beside: str = "") -> str:
    """Return the ``path`` of ``text`` for an override; its ``value`` if that is the path already."""
    return value if path == text else quoted(path, beside)


def _located_file(value: Any, folder: Path) -> Any:
    return _located(value, folder) if isinstance(value, str) and is_path(value) else value


def _located(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_located(part, folder) for part in value]
    if isinstance(value, dict):
        return {key: _located_entry(key, part, folder, "hub" in value) for key, part in value.items()}
    if not isinstance(value, str) or "://" in value:
        return value
    if function := FUNCTION(value):
        file = _located(function["file"], folder)
        somewhere = any(os.path.isfile(other / Path(file).expanduser()) for other in (Path.cwd(), PROJECT))
        return f"{file if somewhere else (folder / file).absolute()}:{function['name']}"
    pattern = any(mark in value for mark in GLOB) and not Path(value).is_absolute()
    path = folder / Path(value).expanduser()
    here = any(folder.glob(value)) if pattern else bool(value) and os.path.exists(path)
    return str(path.absolute()) if here else value


def _located_entry(key: str, value: Any, folder: Path, of_hub: bool) -> Any:
    """Locate the entry ``key`` of a source of traces, or of a benchmark whose `file` may be one of the hub."""
    if key == "sources" or key == "path" or (key == "file" and not of_hub):
        return _located(value, folder)
    return _located_verifier(key, value, folder)


def _located_verifier(key: str, value: Any, folder: Path) -> Any:
    """Return the value of the key ``verifier`` or ``verifiers``, with the files of its functions as absolute paths."""
    if key in VERIFIERS and isinstance(value, list):
        return [_located_verifier(VERIFIERS[0], spec, folder) for spec in value]
    if key not in VERIFIERS or not isinstance(value, dict):
        return value
    located = {"path": _located(value["path"], folder)} if FUNCTION(str(value.get("path"))) else {}
    return {name: _located_verifier(name, part, folder) for name, part in value.items()} | located
