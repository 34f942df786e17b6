"""The user's code: how its functions are named and imported, and what an identity covers of it.

An identity covers a Python file, and the neighbouring modules that it imports.
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

from core import PROJECT
from core.errors import InputError, did_you_mean, first_line
from core.files import digest_bytes, digest_file

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
    """Return the name of the function in a `function_path`."""
    return path.rpartition(":")[2]


def function_file(path: str) -> Path:
    """Return the file in which the function of a `function_path` is, found without importing it.

    Raises:
        InputError: no such module.
    """
    module = path.rpartition(":")[0]
    file = Path(module) if module.endswith(".py") else module_file(module)
    if file is None:
        raise InputError(f"{path}: {_no_module(path)}")
    return file


def _no_module(path: str) -> str:
    """Say what to do about the module of a `function_path`, which is not on Python's path."""
    module, _, name = path.rpartition(":")
    if (file := Path(f"{module.replace('.', '/')}.py")).is_file():
        return f"no module {module} on PYTHONPATH: name the file instead: {file}:{name}"
    return f"no module {module}: install its package, put its folder on PYTHONPATH, or name a file.py"


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
    """Return the function of a `function_path`; its module can import from its folder."""
    module, _, name = path.rpartition(":")
    if module.endswith(".py") and (folder := str(Path(module).parent)) not in sys.path:
        sys.path.append(folder)
    return import_function(module, name)


def python_path() -> str:
    """Return ``PYTHONPATH`` for processes that the project starts: the project, and the user's folders."""
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
        InputError: its import fails, there is no such function, it takes others, or its body runs only when awaited.
    """
    try:
        function = load_function(path)
    except AttributeError:
        raise InputError(f"{path}: there is no such function in it") from None
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's module raises
        raise InputError(f"{path}: {import_problem(path, error)}") from error
    if inspect.iscoroutinefunction(function):
        raise InputError(f"{path}: expected a plain function, not an async function, because nothing would await it")
    names = ", ".join(arguments)
    try:
        inspect.signature(function).bind(*arguments)
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: expected a function of ({names}); {error}") from None


def import_problem(path: str, error: BaseException) -> str:
    """Say what went wrong when the module of a `function_path` was imported, and what to do where that is known."""
    module, _, name = path.rpartition(":")
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return _no_module(path)
    problem = f"its import raised {type(error).__name__}: {first_line(error)}"
    if module.endswith(".py") and isinstance(error, ImportError) and "attempted relative import" in str(error):
        file = Path(module)
        root = _root(file) if _root(file) != file.parent else file.parent.parent
        dotted = ".".join(file.relative_to(root).with_suffix("").parts)
        return f"{problem}: a file has no package: name it {dotted}:{name}, with {root} on PYTHONPATH"
    return problem


def load_or_explain(path: str, where: str) -> Callable[..., Any]:
    """Return what `load_function` does.

    Raises:
        InputError: its module cannot be imported, whatever that raises; the message begins with ``where``.
    """
    try:
        return load_function(path)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{where}: {import_problem(path, error)}") from error


def import_function(module: str, name: str) -> Callable[..., Any]:
    """Return the function ``name`` of a file (``.py``) or of an importable module.

    Raises:
        ImportError, AttributeError: there is none.
        InputError: a file imports a neighbour, and Python has another module of that name.
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
    """Raise InputError if ``file`` imports a neighbour and Python would take another module for it.

    Two files of the user's from different folders may import helpers of one name, and a helper may have the name of a
    package: one of the two would run, and the identity would cover the other.
    """
    folder = file.parent
    try:
        files = source_files(file)
        plain = {module[0] for path in files for level, module in _imports(path) if not level}
    except InputError:
        return  # not Python: its import says where
    if _root(file) != folder:
        plain -= sys.stdlib_module_names  # a module of a package has its package's name, too, and may be called so
    beside = {path.relative_to(folder).parts[0] for path in files if path != file and path.is_relative_to(folder)}
    for top in sorted(beside):
        other = _origin(name) if (name := top.removesuffix(".py")) in plain else None
        if other and other not in (path.resolve() for path in (folder / top, folder / top / "__init__.py")):
            raise InputError(f"{file} imports {folder / top}, but Python has {other} under that name: rename yours")


def _origin(top: str) -> Path | None:
    """Return the file that Python imports as module ``top``; None if there is none or no `__init__.py`."""
    spec = getattr(sys.modules[top], "__spec__", None) if top in sys.modules else importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).resolve() if spec.has_location else Path(spec.origin)


def user_code_digest(file: Path) -> str:
    """Return the sha256 over `source_digests`, or of the file's bytes if it imports no neighbour."""
    digests = source_digests(file)
    if len(digests) == 1:
        return digest_file(file)
    return digest_bytes("".join(f"{path}\0{digest}\n" for path, digest in digests.items()).encode())


def source_digests(file: Path) -> dict[str, str]:
    """Map each of `source_files`, relative to the folder in which the names of modules start, to its sha256."""
    root = _root(file)
    return {os.path.relpath(path, root): digest_file(path) for path in source_files(file)}


def source_files(file: Path) -> list[Path]:
    """List ``file`` and the modules of its folder or package that it imports, also by way of another one, by path.

    Imports are read from the text and nothing runs: a module that is imported by a computed name is not found.

    Raises:
        InputError: one of the files is not Python.
    """
    root = _root(file)
    found = {path for path in _candidates(file.relative_to(root).with_suffix("").parts, root) if path.is_file()}
    waiting = list(found)
    while waiting:
        path = waiting.pop()
        for level, module in _imports(path):
            for folder in _folders(path, level, module[0], file):
                new = {candidate for candidate in _candidates(module, folder) if candidate.is_file()} - found
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
    """Return the folder of ``file``, or of the package that it belongs to."""
    root = file.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    return root


def _imports(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the modules that ``path`` may import: the number of dots before the name, and the parts of the name.

    The name of a relative import starts with the package in which it looks: ``from . import x`` in ``p/q.py`` is
    ``(1, ("p", "x"))``.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path}: not Python: {first_line(error)}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((0, tuple(alias.name.split("."))) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level < len(path.parents):
            package = (path.parents[node.level - 1].name,) if node.level else ()
            module = (*package, *(node.module.split(".") if node.module else ()))
            yield node.level, module
            yield from ((node.level, (*module, alias.name)) for alias in node.names)


def _folders(path: Path, level: int, top: str, file: Path) -> set[Path]:
    """Return the folders in which the package or module ``top`` may be that ``path``, a part of ``file``, imports.

    A package need not have an `__init__.py`, so a folder above ``path`` may be the package ``top``. What stands
    next to an installed package or module is not part of it.
    """
    if level:
        return {path.parents[level]}
    root, beside = _root(file), file.parent
    folders = {parent.parent for parent in [one for one in path.parents if one.name == top][:1]}
    if top == file.relative_to(root).parts[0].removesuffix(".py") or (root == beside and root.name not in INSTALLED):
        folders.add(root)
    if root != beside and top not in sys.stdlib_module_names:
        folders.add(beside)  # `load_function` puts it on Python's path, behind the standard library
    return folders


def _candidates(module: tuple[str, ...], root: Path) -> Iterator[Path]:
    """Yield the files of a module and of the packages that it stands in."""
    for length in range(1, len(module) + 1):
        yield root.joinpath(*module[:length], "__init__.py")
    if module:
        yield root.joinpath(*module[:-1], f"{module[-1]}.py")
