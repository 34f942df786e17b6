"""Compose a run: the defaults of its sections, the parents of its recipe, the recipe, a hardware profile and ``--set``.

Neither OmegaConf, verl nor torch is imported, so that the orchestration can ask for the identity of a run, too.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from core import PROJECT
from core.errors import InputError
from core.files import read_yaml
from core.parquet import is_there
from core.plugins.config_files import (
    HARDWARE,
    RECIPES,
    SELF,
    config_file,
    config_files,
    is_shipped,
    recipe_name,
)
from core.plugins.user_code import function_file, module_file
from core.text.parse import parse_yaml
from core.text.patterns import compile_full_match
from training.config.overrides import SFT, needs_rollouts, read_by
from training.config.run import Mistake, Run, validate
from training.config.teacher_settings import MODEL as TEACHER
from training.config.teacher_settings import located
from training.config.verl_keys import leaf_values, within
from training.methods import merged as merged_method
from training.plugins import METHODS

MODULE = "pkg://"  # what verl takes for a module where it expects a file
# Keys that name a file whose content decides numbers: it is part of the identity of a run.
FILES = (
    "reward.custom_reward_function.path",
    "reward.reward_manager.module.path",
    "data.val_files",
    "actor_rollout_ref.rollout.quantization_config_file",
    "actor_rollout_ref.actor.fsdp_config.qat.quantization_config_path",
)
METHOD, TRACKED, STAGE = "method.type", "run.trackers", "first_stage"
NAMING = METHOD, TRACKED, TEACHER, f"{STAGE}.recipe"  # keys that may name a file, too
RECIPE = "recipe "  # begins the name of a recipe among the files of a run
UNIONS = ("method", "rollouts")  # sections whose type decides what else is in them
DEFAULTS = {"rollouts": {"type": "sync"}}
EXPONENT = compile_full_match(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")  # such as 1e-6, a text to YAML 1.1


class Layer(NamedTuple):
    """The values of one file, or of ``--set``, with absolute paths; ``where`` begins a message about them."""

    where: str
    values: dict[str, Any]
    by_user: bool


@dataclass(frozen=True)
class Composed:
    """A run, and the user's files that decide what it computes, by the keys that name them."""

    run: Run
    files: dict[str, Path]
    first_stage: Run | None = None


def compose(recipe: str, hardware: str, overrides: Sequence[str]) -> Composed:
    """Return the run that a recipe, a hardware profile and ``overrides`` (KEY=VALUE) describe.

    Raises:
        InputError: no such recipe, profile, key or file; a value that is not allowed; two that exclude each other.
    """
    recipes = list(config_files(RECIPES, recipe))  # it checks the parents, too
    layers = [
        Layer("", DEFAULTS, by_user=False),
        *_files(RECIPES, recipe),
        *_files(HARDWARE, hardware),
        _given(overrides),
    ]
    values: dict[str, Any] = {}
    for layer in layers:
        values = merged(values, layer.values)
    try:
        run = validate(values)
    except Mistake as mistake:
        raise InputError(f"{_where(mistake.key, layers)}{mistake}") from None
    if run.first_stage and not any(layer.values.get(STAGE) for layer in layers[:-1]):
        raise InputError(
            f"first_stage: the recipe {recipe_name(recipe)} has one stage, and an override cannot add another: write a "
            "recipe with first_stage: {recipe: NAME, set: []}"
        )
    if run.method.get("type") == SFT:
        for layer in (layer for layer in layers if layer.by_user):
            for key in (key for key, _ in leaf_values(layer.values) if needs_rollouts(key)):
                raise InputError(
                    f"{layer.where}{key} has no effect with method.type=sft: supervised training has no rollouts. "
                    "Leave it out"
                )
    files = {f"{RECIPE}{file.stem}": file for file in recipes if not is_shipped(file)}
    files |= dict(_named_files(values, layers))
    if not run.first_stage:
        return Composed(run, files)
    shared = read_by(run.first_stage.recipe, [text for text in overrides if not text.startswith(STAGE)])[0]
    stage = compose(run.first_stage.recipe, hardware, [*shared, *run.first_stage.set])
    for key, file in stage.files.items():
        files[key if file in files.values() or key.startswith(RECIPE) else f"first stage: {key}"] = file
    return Composed(run, files, stage.run)


def merged(values: dict[str, Any], others: dict[str, Any], unions: Collection[str] = UNIONS) -> dict[str, Any]:
    """Return ``values`` with ``others``, which win; another type of a section of ``unions`` replaces what is in it."""
    result = dict(values)
    for key, value in others.items():
        old = result.get(key)
        if key == "method" and key in unions and isinstance(old, dict):
            value = merged_method(old, value)
        elif isinstance(old, dict) and isinstance(value, dict):
            replaced = key in unions and None is not old.get("type") != value.get("type", old.get("type"))
            value = value if replaced else merged(old, value, ())
        result[key] = value
    return result


def _files(folder: str, name: str, beside: Path | None = None) -> Iterator[Layer]:
    """Yield the file of `RECIPES` or `HARDWARE` that ``name`` stands for, and its parents, in their order."""
    file = config_file(folder, name, beside=beside)
    shipped = is_shipped(file)
    where = "" if shipped else f"{Path(folder).name} {file}: "
    values = dict(read_yaml(file, Path(folder).name))
    parents = values.pop("defaults", [])
    for entry in parents if SELF in parents else [*parents, SELF]:
        if entry == SELF:
            content = nested(values.items())
            yield Layer(where, content if shipped else _located(content, file.parent, file), by_user=not shipped)
        else:
            yield from _files(folder, entry, file)


def _given(overrides: Iterable[str]) -> Layer:
    """Return the layer of ``overrides``, with relative paths resolved against the current folder."""
    values = nested(map(parse_override, overrides))
    return Layer("", _located(values, Path.cwd()), by_user=True)


def parse_override(text: str) -> tuple[str, Any]:
    """Return the key of an override, and its value, which is YAML; InputError if it is unreadable."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise InputError(f"--set {text}: expected KEY=VALUE")
    try:
        return key, parse_yaml(value, f"--set {text}")
    except InputError as error:
        raise InputError(f"{error}: expected a value in YAML: put it in quotes") from None


def nested(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return nested mappings of dotted keys and their values."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        *sections, name = key.split(".")
        node: Any = {name: _numbers(value)}
        for section in reversed(sections):
            node = {section: node}
        result = merged(result, node, ("rollouts",))
    return result


def _numbers(value: Any) -> Any:
    """Return ``value`` with each text like 1e-6 as the number."""
    if isinstance(value, dict):
        return {key: _numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_numbers(part) for part in value]
    return float(value) if isinstance(value, str) and EXPONENT(value) else value


def _located(values: dict[str, Any], folder: Path, recipe: Path | None = None) -> dict[str, Any]:
    """Return ``values`` with the paths of files, functions, recipes and of a teacher as absolute ones.

    A training does not run in the user's folder. A path that leads nowhere counts once no other layer replaces it.
    """

    def absolute(value: Any) -> Any:
        return str((folder / Path(value).expanduser()).absolute())

    def function(value: Any) -> Any:
        return absolute(value) if isinstance(value, str) and ".py:" in value else value

    def path_of(key: str, value: Any) -> Any:
        if key == TRACKED and isinstance(value, list):
            return [function(name) for name in value]
        if not isinstance(value, str) or not value:
            return value
        if key in FILES:
            return value if value.startswith(MODULE) else absolute(value)
        if key == f"{STAGE}.recipe":
            file = config_file(RECIPES, value, beside=recipe)
            return value if is_shipped(file) else str(file)
        return located(value, folder) if key == TEACHER else function(value)

    paths = ((key, path_of(key, value)) for key, value in leaf_values(values) if key in (*FILES, *NAMING))
    return merged(values, nested(paths), unions=())


def _where(key: str, layers: Sequence[Layer]) -> str:
    """Return how a message about a key begins: with the last layer that sets it, or a section around it."""
    for layer in reversed(layers):
        if any(name == key or within(name, [key]) or within(key, [name]) for name, _ in leaf_values(layer.values)):
            return layer.where
    return ""


def _named_files(values: dict[str, Any], layers: Sequence[Layer]) -> Iterator[tuple[str, Path]]:
    """Yield the user's files that keys name: of a function its module, of a package one on Python's path."""
    flat = dict(leaf_values(values))
    try:
        if method := METHODS.outside(flat.get(METHOD)):
            yield METHOD, function_file(method)
    except (InputError, ValueError) as error:
        named = "" if isinstance(error, InputError) else f"{flat[METHOD]}: "
        raise InputError(f"{_where(METHOD, layers)}{METHOD}: {named}{error}") from None
    for key in (key for key in FILES if isinstance(flat.get(key), str) and flat[key]):
        if file := _file_of(flat[key], f"{_where(key, layers)}{key}: {flat[key]}"):
            yield key, file


def _file_of(value: str, where: str) -> Path | None:
    """Return the file that the value of a key of `FILES` names; None for code of the project, which has a number."""
    if not value.startswith(MODULE):
        if is_there(Path(value)):
            return Path(value)
        raise InputError(f"{where}: {absence(Path(value))}: give the path of a file")
    name = value.removeprefix(MODULE)
    if (file := module_file(name)) is None:
        raise InputError(f"{where}: no such module: put its folder on PYTHONPATH, or give the path of a file")
    return None if file.is_relative_to(PROJECT / name.split(".")[0]) else file


def absence(path: Path) -> str:
    """Say why ``path`` names no file."""
    return "is a folder" if path.is_dir() else "no such file"
