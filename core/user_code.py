"""The user code that an identity covers: a Python file, and the modules beside it that it imports."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from core.files import digest_bytes, digest_file


def user_code_digest(file: Path) -> str:
    """sha256 over `source_files`; of the file's bytes if it imports nothing from beside it."""
    root, files = _root(file), source_files(file)
    if files == [file]:
        return digest_file(file)
    return digest_bytes("".join(f"{path.relative_to(root)}\0{digest_file(path)}\n" for path in files).encode())


def source_files(file: Path) -> list[Path]:
    """``file`` and the modules of its folder or package that it imports, also by way of another one, in order of path.

    Imports are read from the text and nothing runs: a module that is imported by a computed name is not found.
    """
    root, found, waiting = _root(file), {file}, [file]
    while waiting:
        path = waiting.pop()
        for module in _imports(path, root):
            new = {candidate for candidate in _candidates(module, root) if candidate.is_file()} - found
            found |= new
            waiting += new
    return sorted(found)


def module_file(name: str) -> Path | None:
    """Find the file of the module ``name`` on Python's path without importing it; None if it is not there."""
    parts = name.split(".")
    for folder in (Path(entry) for entry in sys.path if entry):
        for candidate in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py")):
            if candidate.is_file():
                return candidate
    return None


def _root(file: Path) -> Path:
    """The folder of ``file``, or that of the package that it belongs to."""
    root = file.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    return root


def _imports(path: Path, root: Path) -> Iterator[tuple[str, ...]]:
    """The modules, as parts of their names from ``root`` on, that ``path`` may import; none if it is not Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # who imports it says so
        return
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
    """The files of a module and of the packages that it stands in."""
    for length in range(1, len(module) + 1):
        yield root.joinpath(*module[:length], "__init__.py")
    if module:
        yield root.joinpath(*module[:-1], f"{module[-1]}.py")
