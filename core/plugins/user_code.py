"""The user's own code: how its functions are named and imported, and what of it an identity covers.

An identity covers a Python file, and the modules beside it that it imports.
"""

import ast
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from core.errors import InputError, did_you_mean, first_line
from core.files import PROJECT, digest_bytes, digest_file

ARGUMENTS = ("data_source", "solution_str", "ground_truth", "extra_info")  # of a reward function, as verl calls it
INSTALLED = ("site-packages", "dist-packages")  # folders whose other packages are not the user's code


def function_path(value: str, folder: Path) -> str:
    """Return ``value``, ``FILE.py:FUNCTION`` or ``package.module:FUNCTION``, with its file as an absolute path.

    Args:
        folder: The folder from which a relative path starts.

    Raises:
        ValueError: another form, or there is no such file.
    """
    module, _, name = value.rpartition(":")
    if not module or not name.isidentifier():
        raise ValueError("expected file.py:function or package.module:function")
    if not module.endswith(".py"):
        return value
    file = folder / Path(module).expanduser()
    if not file.is_file():
        raise ValueError(f"no file {file}")
    return f"{file.resolve()}:{name}"


def function_name(path: str) -> str:
    """Return the function's own name in a `function_path`."""
    return path.rpartition(":")[2]


def function_file(path: str) -> Path:
    """Return the file in which the function of a `function_path` is, found without importing it.

    Raises:
        InputError: no such module.
    """
    module = path.rpartition(":")[0]
    file = Path(module) if module.endswith(".py") else module_file(module)
    if file is None:
        raise InputError(
            f"{path}: no module {module}: install its package, put its folder on PYTHONPATH, or name a file.py"
        )
    return file


def check_defined(path: str) -> None:
    """Raise ValueError if the Python file of a `function_path` does not define its function.

    The file is read and not imported, so that a name that it only makes as it runs does not count as missing.
    """
    file, _, name = path.rpartition(":")
    if not file.endswith(".py"):
        return
    try:
        nodes = list(ast.walk(ast.parse(Path(file).read_bytes())))
    except (SyntaxError, ValueError):
        return  # its import says where
    functions = [node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    names = {*functions, *(node.id for node in nodes if isinstance(node, ast.Name))}
    names |= {part for node in nodes if isinstance(node, ast.alias) for part in (node.asname, node.name)}
    if not names & {name, "*", "globals", "__getattr__", "exec"}:
        raise ValueError(f"{path}: there is no such function in it{did_you_mean(name, functions)}")


@cache
def load_function(path: str) -> Callable[..., Any]:
    """Return the function of a `function_path`; what its module imports from beside it is found."""
    module, _, name = path.rpartition(":")
    if module.endswith(".py") and (folder := str(Path(module).parent)) not in sys.path:
        sys.path.append(folder)
    return import_function(module, name)


def python_path() -> str:
    """Return ``PYTHONPATH`` for processes that the project starts: the project, and the folders of the user's own."""
    given = (folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder)
    return os.pathsep.join(dict.fromkeys([str(PROJECT), *(str(Path(folder).absolute()) for folder in given)]))


class UserFunctionError(RuntimeError):
    """An exception of a function of the user's."""


@cache
def named_in_errors(path: str) -> Callable[..., Any]:
    """Load a function as `load_function` does; its exceptions become a `UserFunctionError` that names it."""
    function = load_function(path)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (Exception, SystemExit) as error:  # whatever the user's function raises
            raise UserFunctionError(f"{path} raised {type(error).__name__}: {first_line(error)}") from error

    return call


def check_function(path: str, arguments: Iterable[str]) -> None:
    """Import the function of a `function_path` and check that it takes ``arguments`` by position.

    Raises:
        InputError: its import fails, there is no such function, or it takes others.
    """
    try:
        function = load_function(path)
    except AttributeError:
        raise InputError(f"{path}: there is no such function in it") from None
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's module raises
        raise InputError(f"{path}: its import raised {type(error).__name__}: {first_line(error)}") from error
    names = ", ".join(arguments)
    try:
        inspect.signature(function).bind(*arguments)
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: expected a function of ({names}); {error}") from None


def import_function(module: str, name: str) -> Callable[..., Any]:
    """Return the function ``name`` of a file (``.py``) or of an importable module.

    Raises:
        ImportError, AttributeError: there is none.
        InputError: a file imports one beside it, in whose place Python has another module of that name.
        Exception: whatever its import raises.
    """
    if not module.endswith(".py"):
        return getattr(importlib.import_module(module), name)
    _check_names_beside(Path(module))
    unique = f"user_code_{Path(module).stem}_{digest_bytes(module.encode())[:8]}"  # two files may have one name
    spec = importlib.util.spec_from_file_location(unique, module)
    assert spec and spec.loader
    imported = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = imported  # dataclasses and pickle expect it there
    spec.loader.exec_module(imported)
    return getattr(imported, name)


def _check_names_beside(file: Path) -> None:
    """Raise InputError if Python would take another module for one beside ``file`` that it imports.

    Two files of the user's from different folders may import helpers of one name, and a helper may have the name of a
    package: one of the two would run, and the identity would cover the other.
    """
    root = _root(file)
    try:
        beside = [path.relative_to(root).parts[0] for path in source_files(file) if path != file]
    except InputError:
        return  # not Python: its import says where
    for top in beside if root == file.parent else ():  # the modules of a package have its name
        other = _origin(top.removesuffix(".py"))
        if other and other not in (path.resolve() for path in (root / top, root / top / "__init__.py")):
            raise InputError(f"{file} imports {root / top}, but Python has {other} under that name: rename yours")


def _origin(top: str) -> Path | None:
    """Return the file that Python imports as module ``top``; None if there is none or no `__init__.py`."""
    spec = getattr(sys.modules[top], "__spec__", None) if top in sys.modules else importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).resolve() if spec.has_location else Path(spec.origin)


def user_code_digest(file: Path) -> str:
    """Return the sha256 over `source_digests`, or of the file's bytes if it imports nothing from beside it."""
    digests = source_digests(file)
    if len(digests) == 1:
        return digest_file(file)
    return digest_bytes("".join(f"{path}\0{digest}\n" for path, digest in digests.items()).encode())


def source_digests(file: Path) -> dict[str, str]:
    """Map each of `source_files`, relative to the folder in which the names of modules start, to its sha256."""
    root = _root(file)
    return {path.relative_to(root).as_posix(): digest_file(path) for path in source_files(file)}


def source_files(file: Path) -> list[Path]:
    """List ``file`` and the modules of its folder or package that it imports, also by way of another one, by path.

    Imports are read from the text and nothing runs: a module that is imported by a computed name is not found.

    Raises:
        InputError: one of the files is not Python.
    """
    root = _root(file)
    top = file.relative_to(root).parts[0].removesuffix(".py")
    alone = root != file.parent or root.name in INSTALLED  # a package: what stands beside it is not part of it
    found = {path for path in _candidates(file.relative_to(root).with_suffix("").parts, root) if path.is_file()}
    waiting = list(found)
    while waiting:
        path = waiting.pop()
        for module in _imports(path, root):
            if not alone or module[:1] == (top,):
                new = {candidate for candidate in _candidates(module, root) if candidate.is_file()} - found
                found |= new
                waiting += new
    return sorted(found)


def module_file(name: str) -> Path | None:
    """Find the file of the module ``name`` without importing it; None if there is none."""
    top, *rest = name.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or (not rest and spec.origin is None):
        return None
    if not rest:
        return Path(str(spec.origin))
    for folder in map(Path, spec.submodule_search_locations or ()):
        for candidate in (folder.joinpath(*rest).with_suffix(".py"), folder.joinpath(*rest, "__init__.py")):
            if candidate.is_file():
                return candidate
    return None


def _root(file: Path) -> Path:
    """Return the folder of ``file``, or that of the package that it belongs to."""
    root = file.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    return root


def _imports(path: Path, root: Path) -> Iterator[tuple[str, ...]]:
    """Yield the modules, as parts of their names from ``root`` on, that ``path`` may import."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path}: not Python: {first_line(error)}") from None
    package = path.relative_to(root).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - (node.level - 1)] if node.level else ()
            module = (*above, *(node.module.split(".") if node.module else ()))
            yield module
            yield from ((*module, alias.name) for alias in node.names)


def _candidates(module: tuple[str, ...], root: Path) -> Iterator[Path]:
    """Yield the files of a module and of the packages that it stands in."""
    for length in range(1, len(module) + 1):
        yield root.joinpath(*module[:length], "__init__.py")
    if module:
        yield root.joinpath(*module[:-1], f"{module[-1]}.py")
