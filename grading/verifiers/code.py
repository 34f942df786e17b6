"""A Python program that passes tests: pairs of stdin and stdout, or assertions. It runs in a sandbox."""

import ast
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from core.errors import InputError, first_line
from grading.answers.extraction import CODE_BLOCK, python_block
from grading.isolation.sandbox import Bubblewrap, Limits, Sandbox, SandboxFailed, Unprotected
from grading.isolation.sandbox_fusion import SandboxFusion
from grading.verdict import Undecided, UnfitGold
from grading.verifiers.verifier import Resources, Verifier, VerifierOptions

ENTRY_POINT = "entry_point"  # the field with the name of the function to which HumanEval's `check` is applied
BUBBLEWRAP, NONE = "bubblewrap", "none"
EXPECTED = (
    'expected {"inputs": [...], "outputs": [...]}, a list of {"input": ..., "output": ...}, or assertions '
    "(a list or a text)"
)


class CodeOptions(VerifierOptions):
    """``tests``: the field of a row that holds its tests; by default its gold answer does.

    ``sandbox``: "bubblewrap", the url of a SandboxFusion server, or "none". The limits hold for one test;
    ``limit_s`` is processor time.
    """

    answer: str = CODE_BLOCK
    tests: str | None = None
    sandbox: str = BUBBLEWRAP
    limit_s: float = Field(5.0, gt=0)
    memory_mb: int = Field(512, ge=64)
    processes: int = Field(16, ge=1)

    @field_validator("sandbox")
    @classmethod
    def _is_known(cls, value: str) -> str:
        parts = urlsplit(value)
        if value not in (BUBBLEWRAP, NONE) and not (parts.scheme in ("http", "https") and parts.hostname):
            raise ValueError(f"expected {BUBBLEWRAP}, the url of a SandboxFusion server, or {NONE}")
        return value


class Tests(NamedTuple):
    """Pairs of stdin and the stdout that is expected, or one text of assertions."""

    pairs: Sequence[tuple[str, str]] = ()
    assertions: str = ""


def _sandbox_of(name: str, limits: Limits) -> Sandbox:
    if name == BUBBLEWRAP:
        return Bubblewrap(limits)
    return Unprotected(limits) if name == NONE else SandboxFusion(name, limits)


class CodeVerifier(Verifier):
    """All tests have to pass; the first that does not is the reason.

    Assertions run in the process of the program, which could be written to deceive them. What is expected of stdout
    never enters the sandbox.
    """

    Options = CodeOptions

    def __init__(self, options: CodeOptions, resources: Resources) -> None:
        super().__init__(options, resources)
        limits = Limits(options.limit_s, options.memory_mb << 20, options.processes)
        try:
            self._sandbox = _sandbox_of(options.sandbox, limits)
        except InputError as error:
            raise InputError(f"verifier code: {error}") from None

    @classmethod
    def identity(cls, options: Mapping[str, Any]) -> Any:
        """Where a program runs does not decide whether it is right."""
        return {name: value for name, value in options.items() if name != "sandbox"}

    @classmethod
    def requires_fields(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (options["tests"],) if options.get("tests") else ()

    def extract(self, part: str, gold: str, fields: Mapping[str, Any]) -> str | None:
        return python_block(part) if self.options.answer == CODE_BLOCK else super().extract(part, gold, fields)

    def expected(self, gold: str, fields: Mapping[str, Any]) -> Tests:
        name = self.options.tests
        if name is not None and name not in fields:
            raise UnfitGold(f"the row has no field {name!r}, which tests names")
        return read_tests(gold if name is None else fields[name], fields.get(ENTRY_POINT))

    def compare(self, answer: str, expected: Tests) -> tuple[bool, str]:
        try:
            problem = self._failure(answer, expected)
        except SandboxFailed as error:
            raise Undecided(f"the sandbox failed: {first_line(error)}") from None
        return not problem, problem or "all tests pass"

    def _failure(self, program: str, tests: Tests) -> str:
        if tests.assertions:
            passed = secrets.token_hex(16)  # printed at the end, so that a program that exits early does not pass
            run = self._sandbox.run(f"{program}\n\n{tests.assertions}\n\nprint('\\n{passed}')\n", "")
            said = run.stdout.rstrip("\n").rpartition("\n")[2] == passed
            return run.problem or ("" if said else "it ended before the last assertion")
        for number, (stdin, expected) in enumerate(tests.pairs, start=1):
            run = self._sandbox.run(program, stdin)
            if run.problem:
                return f"test {number}: {run.problem}"
            if _lines(run.stdout) != _lines(expected):
                return f"test {number}: printed {run.stdout[:60]!r}, expected {expected[:60]!r}"
        return ""


def read_tests(value: Any, entry_point: Any = None) -> Tests:
    """Return the tests in a gold answer or a field.

    Args:
        entry_point: the name of the function that a ``check(candidate)`` which nobody calls tests, as in HumanEval.

    >>> read_tests('{"inputs": ["1"], "outputs": ["2"]}'), read_tests("assert f(1) == 2")
    (Tests(pairs=[('1', '2')], assertions=''), Tests(pairs=(), assertions='assert f(1) == 2'))

    Raises:
        UnfitGold: they have no known form, or there are none.
    """
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UnfitGold(f"the tests are not JSON: {first_line(error)}") from None
    if isinstance(value, Mapping):
        inputs, outputs = value.get("inputs"), value.get("outputs")
        if not _are_texts(inputs) or not _are_texts(outputs) or len(inputs) != len(outputs) or "fn_name" in value:
            raise UnfitGold(f"tests that are not read: {EXPECTED}, with texts")
        return Tests(list(zip(inputs, outputs, strict=True)))
    if isinstance(value, Sequence) and value and all(isinstance(one, Mapping) for one in value):
        rows: list[Mapping[str, Any]] = list(value)
        return read_tests({f"{name}s": [row.get(name) for row in rows] for name in ("input", "output")})
    assertions = value if isinstance(value, str) else "\n".join(value) if _are_texts(value) else ""
    try:
        tree = ast.parse(assertions)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnfitGold(f"the assertions are not Python: {first_line(error)}") from None
    nodes = list(_nodes_that_run(tree))
    defines_check = any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body)
    if defines_check and not any(isinstance(node, ast.Name) and node.id == "check" for node in nodes):
        if not isinstance(entry_point, str) or not entry_point.isidentifier():
            raise UnfitGold(
                f"nothing calls check, which has the tests: call it at their end, or add the field {ENTRY_POINT} "
                "with the name of the function that it tests"
            )
        return read_tests(f"{assertions}\n\ncheck({entry_point})")
    if not any(isinstance(node, ast.Assert | ast.Raise) for node in nodes):
        raise UnfitGold(f"there are no tests: {EXPECTED}, outside functions or in functions that they call")
    return Tests(assertions=assertions)


def _nodes_that_run(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes outside functions, and the nodes of the functions that they name."""
    bodies: dict[str, list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            bodies.setdefault(node.name, []).extend(node.body)
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        waiting.extend(bodies.pop(name, []))
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting.extend(ast.iter_child_nodes(node))


def _are_texts(values: Any) -> TypeGuard[Sequence[str]]:
    return isinstance(values, Sequence) and bool(values) and all(isinstance(value, str) for value in values)


def _lines(text: str) -> list[str]:
    """Lines without the blanks at their ends, and without empty ones at the end."""
    return [line.rstrip() for line in text.rstrip().splitlines()]
