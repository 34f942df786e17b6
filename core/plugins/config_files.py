"""The configuration files of the project, of installed packages and of the user: recipes, profiles and suites.

A package adds files by an entry point that names the package that has them. `docs/plugins.md` lists the groups.
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
    from importlib.metadata import EntryPoint, EntryPoints

RECIPES, HARDWARE = "training/config/recipe", "training/config/hardware"
PROFILES, SUITES = "pipelines/profiles", "evaluation/benchmarks/suites"
# The groups of files, by the folder here whose files they join.
GROUPS = {RECIPES: "luffy.recipes", PROFILES: "luffy.profiles", SUITES: "luffy.suites"}
YAML = (".yaml", ".yml")
SELF = "_self_"  # an entry of a recipe's parents: its own place among them


def entries(group: str) -> list[str]:
    """Return the names that packages declare in ``group``; `entry` looks one up."""
    return list(dict.fromkeys(point.name for point in _entries(group, tuple(sys.path))))


def entry(group: str, name: str) -> str | None:
    """Return what packages declare as ``name`` in ``group``, ``module:object``; None if none does.

    Raises:
        InputError: two packages declare the name, or the one that does has no such module.
    """
    points = [point for point in _entries(group, tuple(sys.path)) if point.name == name]
    if len(points) > 1:
        both = " and ".join(point.value for point in points[:2])
        raise InputError(f"{group}: two packages declare {name}: {both}; rename one of them, or uninstall it")
    if not points:
        return None
    module, colon, _ = points[0].value.partition(":")
    if not colon or _module_file(module) is None:
        raise InputError(_complaint(points[0], group, "expected the name of a module of it, a colon and a function"))
    return points[0].value


@cache
def _entries(group: str, folders: tuple[str, ...]) -> list["EntryPoint"]:
    """Return the entry points of ``group``, one for each name and value."""
    points = {(point.name, point.value): point for point in _installed(folders).select(group=group)}
    return [point for _, point in sorted(points.items())]


@cache  # reading them takes 10 to 40 ms
def _installed(_folders: tuple[str, ...]) -> "EntryPoints":
    from importlib.metadata import entry_points  # here: importing it is a tenth of the time of `luffy --help`

    return cast("EntryPoints", entry_points())  # Python 3.11 has a type of its own for all groups


def check_not_declared(name: str, group: str) -> None:
    """Raise InputError if a package declares ``name``, which is one of the project's own, in ``group``."""
    for value in (point.value for point in _entries(group, tuple(sys.path)) if point.name == name):
        raise InputError(f"{group}: {value} is declared as {name}, which is a name of the project; rename yours")


def config_names(folder: str) -> list[str]:
    """Return the names of the files of a folder of the project, and of those that packages add to it."""
    return sorted({file.stem for place in (PROJECT / folder, *_packages(folder)) for file in place.glob("*.yaml")})


def config_file(folder: str, name: str, *, beside: Path | None = None) -> Path:
    """Return the file that ``name`` stands for: one of ``folder``, one that a package adds, or a path of a YAML file.

    Args:
        folder: A folder of the project, such as `RECIPES`.
        beside: a user's file; a name or relative path is looked up first in its folder.

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
    if broken := _broken(folder):
        raise InputError(f"no {kind} {name!r} among those that can be read; {'; '.join(broken)}")
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
        extended_by: the files that have it as a parent, the first one first.

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


def trains_on_heldout(recipe: str) -> bool:
    """Return whether ``recipe`` trains in two stages, the second of them on held-out targets."""
    for file in config_files(RECIPES, recipe):
        config = read_yaml(file, "recipe")
        if "first_stage" in config:  # the nearest counts
            stage = config["first_stage"]
            if stage and not (isinstance(stage, dict) and isinstance(stage.get("recipe"), str)):
                raise InputError(f"recipe {file}: first_stage: got {stage!r:.80}, expected {{recipe: NAME, set: []}}")
            return bool(stage) and stage.get("heldout", True)
    return False


def below_project(name: str) -> str:
    """Return a path as an absolute one; a relative path starts at the project; a name as it is."""
    return str(PROJECT / Path(name).expanduser()) if is_path(name) else name


def _kind(folder: str) -> str:
    """Return what messages call a file of ``folder``."""
    return Path(folder).name.removesuffix("s")


@cache
def _shipped(folder: str) -> frozenset[str]:
    return frozenset(file.stem for file in (PROJECT / folder).glob("*.yaml"))


@cache
def _packages(folder: str) -> tuple[Path, ...]:
    """Return the folders of the packages that add files to ``folder``, without the folders of broken entry points."""
    return tuple(file.parent for point in _declared(folder) if (file := _package_file(point)) is not None)


def _broken(folder: str) -> list[str]:
    """Return what is wrong with the entry points that name no package."""
    expected = "expected the name of a package, a folder with an __init__.py"
    return [_complaint(point, GROUPS[folder], expected) for point in _declared(folder) if _package_file(point) is None]


def _complaint(point: "EntryPoint", group: str, expected: str) -> str:
    package = point.dist.name if point.dist else "a package"
    return (
        f"the package {package} declares {point.name} = {point.value} in {group}, which is not there: {expected}; "
        f"mend {package} and install it again, or uninstall it"
    )


def _declared(folder: str) -> list["EntryPoint"]:
    return _entries(GROUPS[folder], tuple(sys.path)) if folder in GROUPS else []


def _package_file(point: "EntryPoint") -> Path | None:
    """Return the `__init__.py` of the package that an entry point names; None if there is no such package."""
    file = _module_file(point.value)
    return file if file is not None and file.name == "__init__.py" else None


def _module_file(name: str) -> Path | None:
    return module_file(name) if all(part.isidentifier() for part in name.split(".")) else None
