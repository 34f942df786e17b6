"""The configuration files of the project, of installed packages and of the user: recipes, profiles and suites.

A package adds files by an entry point that names a package whose folder holds them. `docs/plugins.md` lists the groups.
"""

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from core import PROJECT
from core.errors import InputError, did_you_mean
from core.files import read_yaml
from core.plugins.user_code import module_file

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

RECIPES, HARDWARE = "training/config/recipe", "training/config/hardware"
PROFILES, SUITES = "pipelines/profiles", "evaluation/benchmarks/suites"
# The groups of files, by the folder here whose files they join.
GROUPS = {RECIPES: "luffy.recipes", PROFILES: "luffy.profiles", SUITES: "luffy.suites"}
YAML = (".yaml", ".yml")
SELF = "_self_"  # an entry of a recipe's parents: its own place among them


def entries(group: str) -> list[str]:
    """Return the names that packages declare in ``group``; `entry` looks one up."""
    return list(dict(_entries(group, tuple(sys.path))))


def entry(group: str, name: str) -> str | None:
    """Return what packages declare as ``name`` in ``group``: ``module`` or ``module:function``; None if none does.

    Raises:
        InputError: two packages declare the name.
    """
    values = [value for declared, value in _entries(group, tuple(sys.path)) if declared == name]
    if len(values) > 1:
        both = " and ".join(values[:2])
        raise InputError(f"{group}: two packages declare {name}: {both}; rename one of them, or uninstall it")
    return values[0] if values else None


@cache
def _entries(group: str, folders: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the names and values of the entry points of ``group``, each pair once."""
    return sorted({(point.name, point.value) for point in _installed(folders).select(group=group)})


@cache  # reading them takes 10 to 40 ms
def _installed(_folders: tuple[str, ...]) -> "EntryPoints":
    from importlib.metadata import entry_points  # here: importing it is a tenth of the time of `luffy --help`

    return cast("EntryPoints", entry_points())  # Python 3.11 has a type of its own for all groups


def check_not_declared(name: str, group: str) -> None:
    """Raise InputError if a package declares ``name``, which is one of the project's own, in ``group``."""
    if value := entry(group, name):
        raise InputError(f"{group}: {value} is declared as {name}, which is a name of the project; rename yours")


def config_names(folder: str) -> list[str]:
    """Return the names of the files of a folder of the project, and of those that packages add to it."""
    return sorted({file.stem for place in (PROJECT / folder, *_packages(folder)) for file in place.glob("*.yaml")})


def config_file(folder: str, name: str, *, beside: Path | None = None) -> Path:
    """Return the file that ``name`` stands for: one of ``folder``, one that a package adds, or a path of a YAML file.

    Args:
        folder: A folder of the project, such as `RECIPES`.
        beside: a file of the user's, in whose folder the name, or a relative path, is looked up first.

    Raises:
        InputError: there is none, or a file of the user's has the name of a shipped one.
    """
    here, kind = PROJECT / folder, _kind(folder)
    shipped = here / f"{name}.yaml"
    if shipped.is_file() and ".." not in Path(name).parts and not Path(name).is_absolute():
        for package in _packages(folder):
            _refuse_name_of_shipped(package / shipped.name, folder)
        return shipped
    path, near = Path(name).expanduser(), [beside.parent] if beside else []
    if is_path(name):
        places = [near or [Path()]]
    elif not path.name:
        places = []
    else:
        path, places = path.with_name(f"{path.name}.yaml"), [near, _packages(folder)]
    for group in places if folder in GROUPS else ():
        found = [file for place in group if (file := (place / path).absolute()).is_file()]
        if len(found) > 1:
            raise InputError(f"{kind} {name}: two packages have it: {found[0]} and {found[1]}; give one of the paths")
        if found:
            _refuse_name_of_shipped(found[0], folder)
            return found[0]
    names = config_names(folder)
    more = ", or the path of a YAML file" if folder in GROUPS else ""
    raise InputError(f"no {kind} {name!r}{did_you_mean(name, names) or ':'} expected one of {', '.join(names)}{more}")


def _refuse_name_of_shipped(file: Path, folder: str) -> None:
    if file.is_file() and file.stem in _shipped(folder) and file.parent != PROJECT / folder:
        raise InputError(f"{_kind(folder)} {file}: {file.stem} is the name of a shipped one; rename the file")


def config_files(
    folder: str, name: str, *, beside: Path | None = None, extended_by: tuple[Path, ...] = ()
) -> Iterator[Path]:
    """Yield the file ``name`` of `RECIPES` or `HARDWARE`, then its parents, each followed by the parents of its own.

    Args:
        folder: A folder of the project.
        name: A name or path, as for `config_file`.
        beside: likewise.
        extended_by: the files whose parent it is, the first one first.

    Raises:
        InputError: there is no such file or parent, or a file is a parent of itself.
    """
    try:
        file = config_file(folder, name, beside=beside)
    except InputError as error:
        raise InputError(f"{_kind(folder)} {beside}: defaults: {error}" if beside else str(error)) from None
    if file in extended_by:
        chain = " -> ".join(path.stem for path in (*extended_by, file))
        raise InputError(f"{_kind(folder)} {file}: it is a parent of itself ({chain}); remove it from `defaults`")
    yield file
    parents = read_yaml(file, _kind(folder)).get("defaults", [])
    if not isinstance(parents, list) or not all(isinstance(parent, str) and not is_path(parent) for parent in parents):
        raise InputError(f"{_kind(folder)} {file}: defaults: got {parents!r:.80}, expected a list of names")
    for parent in parents:
        if parent != SELF:
            yield from config_files(folder, parent, beside=file, extended_by=(*extended_by, file))


def is_shipped(file: Path) -> bool:
    """Return whether ``file`` is one of the project's recipes or hardware profiles, and none of the user's."""
    return file.parent in (PROJECT / RECIPES, PROJECT / HARDWARE)


def is_path(name: str) -> bool:
    """Return whether ``name`` is the path of a YAML file, and no name."""
    return Path(name).suffix in YAML


def recipe_name(recipe: str) -> str:
    """Return what a recipe is called: a file of the user's by its name without folder and ending.

    >>> recipe_name("methods/mine.yaml"), recipe_name("luffy")
    ('mine', 'luffy')
    """
    return Path(recipe).stem if is_path(recipe) else recipe


def first_stage(recipe: str) -> str | None:
    """Return the recipe of the first stage of ``recipe``, as `config_file` finds it; None if it has one stage."""
    for file in config_files(RECIPES, recipe):
        config = read_yaml(file, "recipe")
        if "first_stage" in config:  # the nearest counts
            stage = config["first_stage"]
            if stage and not (isinstance(stage, dict) and isinstance(stage.get("recipe"), str)):
                raise InputError(f"recipe {file}: first_stage: got {stage!r:.80}, expected {{recipe: NAME, set: []}}")
            return located_recipe(stage["recipe"], file) if stage else None
    return None


def located_recipe(name: str, beside: Path) -> str:
    """Locate ``name`` in the recipe ``beside`` it: return the name of a shipped recipe, or the path of the user's."""
    file = config_file(RECIPES, name, beside=beside)
    return name if is_shipped(file) else str(file)


def below_project(name: str) -> str:
    """Return a path as an absolute one, whose start is the project where it is relative; a name as it is."""
    return str(PROJECT / Path(name).expanduser()) if is_path(name) else name


def _kind(folder: str) -> str:
    """Return what messages call a file of ``folder``."""
    return Path(folder).name.removesuffix("s")


@cache
def _shipped(folder: str) -> frozenset[str]:
    return frozenset(file.stem for file in (PROJECT / folder).glob("*.yaml"))


@cache
def _packages(folder: str) -> tuple[Path, ...]:
    """Return the folders of the packages that add files to ``folder``."""
    folders: list[Path] = []
    for name, module in _entries(GROUPS[folder], tuple(sys.path)) if folder in GROUPS else ():
        if (file := module_file(module)) is None:
            raise InputError(f"entry point {name} of {GROUPS[folder]}: no package {module}; install it again")
        folders.append(file.parent)
    return tuple(folders)
