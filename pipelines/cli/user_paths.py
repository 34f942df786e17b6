"""Paths that a user gives: a relative one is seen from the user's folder, not from the project's."""

import json
from pathlib import Path
from typing import Any

from core.text.parse import parse_yaml
from core.text.patterns import compile_full_match

# Settings that name files or folders, alone, in a list, or as the `path` of a mapping; a verifier in it has paths, too.
PATHS = (
    "targets.source",
    "targets.review",
    "targets.difficulty",
    "targets.filters",
    "model.source",
    "benchmarks.roots",
    "suite.name",
    "suite.benchmarks",
    "checks.suite",
    "generate.problems",
    "generate.teacher",
    "training.recipe",
)
OVERRIDES = "training.overrides"  # a list of KEY=VALUE, whose values may be files
OUTPUTS = "storage.root"  # a folder that need not exist yet
GLOB = "*?["
VERIFIERS = ("verifier", "verifiers")  # keys with one spec, or with several
FUNCTION = compile_full_match(r"(?P<file>.*\.py):(?P<name>\w+)")  # of a file of the user's


def from_user_folder(key: str, value: str, where: str) -> str:
    """The YAML ``value`` of the setting ``key``, with the paths in it that lead somewhere here as absolute ones.

    What leads nowhere here stays: it may be a name, an id of the hub, or a path in the project.

    Raises:
        InputError: ``value`` is not YAML; the message starts with ``where``.
    """
    if key not in (*PATHS, OVERRIDES, OUTPUTS):
        return value
    parsed = parse_yaml(value, where)
    if key == OUTPUTS and isinstance(parsed, str) and "://" not in parsed:
        return json.dumps(str(Path(parsed).expanduser().absolute()))
    located = _overrides(parsed) if key == OVERRIDES else _located(parsed)
    return value if located == parsed else json.dumps(located)  # YAML, too


def profile_from_user_folder(name: str) -> str:
    """A profile's name, or the absolute path of the YAML file that it is seen as from here."""
    return _located(name) if name.endswith((".yaml", ".yml")) else name


def _overrides(value: Any) -> Any:
    """Overrides of the training, with the files that their values name as absolute paths."""
    if not isinstance(value, list):
        return value
    pairs = [entry.partition("=") if isinstance(entry, str) else (entry, "", "") for entry in value]
    return [
        f"{name}={_located(path)}" if path and (Path(path).is_file() or FUNCTION(path)) else entry
        for entry, (name, _, path) in zip(value, pairs, strict=True)
    ]


def _located(value: Any) -> Any:
    if isinstance(value, list):
        return [_located(part) for part in value]
    if isinstance(value, dict):
        return {key: _located(part) if key == "path" else _located_verifier(key, part) for key, part in value.items()}
    if not isinstance(value, str) or "://" in value:
        return value
    if function := FUNCTION(value):
        return f"{_located(function['file'])}:{function['name']}"
    pattern = any(mark in value for mark in GLOB) and not Path(value).is_absolute()
    here = any(Path.cwd().glob(value)) if pattern else bool(value) and Path(value).expanduser().exists()
    return str(Path(value).expanduser().absolute()) if here else value


def _located_verifier(key: str, value: Any) -> Any:
    """The value of the key ``verifier`` or ``verifiers``, with the files of functions in it as absolute paths."""
    if key in VERIFIERS and isinstance(value, list):
        return [_located_verifier(VERIFIERS[0], spec) for spec in value]
    if key not in VERIFIERS or not isinstance(value, dict):
        return value
    located = {"path": _located(value["path"])} if FUNCTION(str(value.get("path"))) else {}
    return {name: _located_verifier(name, part) for name, part in value.items()} | located
