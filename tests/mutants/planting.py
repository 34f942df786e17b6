"""The table of planted faults, and how one gets into a process: see `run.py`.

A fault replaces one function of the product. `run.py` names it in the variable `MUTANT`, and each Python process that
finds this folder on its path plants it while it imports the function's module, so that whatever took hold of the
function there has the fault too: registries, decorators, other modules.
"""

import ast
import sys
from collections.abc import Callable
from functools import wraps
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any, NamedTuple

VARIABLE = "MUTANT"
Function = Callable[..., Any]


class Mutant(NamedTuple):
    """``wrong`` takes the original function and its arguments; ``test`` is the file, or the test in it, that fails."""

    module: str
    function: str
    test: str
    wrong: Function


MUTANTS: dict[str, Mutant] = {}


def mutant(where: str, test: str) -> Callable[[Function], Function]:
    """Enter a fault, named like the decorated function, into the table.

    Args:
        where: the function that it replaces, ``module:function`` or ``module:Class.method``.
        test: what notices it, below ``tests/``.
    """

    def enter(wrong: Function) -> Function:
        assert wrong.__name__ not in MUTANTS, wrong.__name__
        MUTANTS[wrong.__name__] = Mutant(*where.split(":"), f"tests/{test}", wrong)
        return wrong

    return enter


def definition(tree: ast.Module, function: str) -> ast.FunctionDef:
    """Return the definition of ``function`` in a module; LookupError if it has none."""
    body: list[ast.stmt] = tree.body
    for name in function.split("."):
        node = next((node for node in body if getattr(node, "name", None) == name), None)
        if node is None:
            raise LookupError(function)
        body = getattr(node, "body", [])
    assert isinstance(node, ast.FunctionDef), function
    return node


class PlantingLoader(SourceFileLoader):
    """Loads a module in which the function of a mutant has the decorator `planted`."""

    def __init__(self, name: str, path: str, planted: Mutant) -> None:
        super().__init__(name, path)
        self._planted = planted

    def get_code(self, fullname: str) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        tree = ast.parse(self.get_data(self.path))
        decorator = ast.parse(f"__import__('sys').modules['planting'].decorator({fullname!r})", mode="eval").body
        definition(tree, self._planted.function).decorator_list.append(decorator)
        return compile(ast.fix_missing_locations(tree), self.path, "exec")


class PlantingFinder:
    """Finds the module of a mutant, before Python's own finders."""

    def __init__(self, planted: Mutant) -> None:
        self._planted = planted

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == self._planted.module else None
        if spec and spec.origin:
            spec.loader = PlantingLoader(name, spec.origin, self._planted)
        return spec


def plant(planted: Mutant) -> None:
    """Plant a fault in this process."""
    sys.meta_path.insert(0, PlantingFinder(planted))


def decorator(module: str) -> Callable[[Function], Function]:
    """Return what puts the fault of ``module`` in the place of a function."""
    import os

    planted = MUTANTS[os.environ[VARIABLE]]
    assert planted.module == module

    def replace(original: Function) -> Function:
        return wraps(original)(lambda *arguments, **options: planted.wrong(original, *arguments, **options))

    return replace
