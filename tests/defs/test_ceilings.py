"""The project stays within ``[tool.luffy.ceilings]`` of pyproject.toml, and no line is saved by density."""

import ast
import tokenize
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LUFFY = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["luffy"]
CEILINGS = LUFFY["ceilings"]
PACKAGES = [name for name, limits in CEILINGS.items() if "density" in limits]
NO_CODE = {"COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER"}
REMEDY = (
    "Remove a concept (docs/decisions.md lists what went), or raise `most` in [tool.luffy.ceilings] of pyproject.toml "
    "and say in the commit what that bought."
)


def files_of(*patterns: str) -> list[Path]:
    return sorted(file for pattern in patterns for file in ROOT.glob(pattern))


def lines_of(files: Sequence[Path]) -> int:
    return sum(len(file.read_text().splitlines()) for file in files)


def tokens(file: Path) -> Iterator[tuple[tokenize.TokenInfo, bool]]:
    """Each token of code, and whether it is a docstring: a string that is a statement of its own."""
    before = "NEWLINE"
    with file.open() as lines:
        for token in tokenize.generate_tokens(lines.readline):
            kind = tokenize.tok_name[token.type]
            if kind not in NO_CODE:
                yield token, kind == "STRING" and before in {"NEWLINE", "INDENT", "DEDENT"}
            before = before if kind in {"NL", "COMMENT"} else kind


def nested(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.IfExp) and any(isinstance(part, ast.IfExp) for part in list(ast.walk(node))[1:]):
            yield f"{file.relative_to(ROOT)}:{node.lineno}"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_stays_within_its_ceiling(package: str) -> None:
    limits, files = CEILINGS[package], files_of(f"{package}/**/*.py")
    lines = lines_of(files)
    assert lines <= limits["most"], f"{package} has {lines:,} lines; its ceiling is {limits['most']:,}. {REMEDY}"
    code = sum(not docstring for file in files for _, docstring in tokens(file))
    assert code <= 1.03 * limits["density"] * lines, (
        f"{package} has {code / lines:.2f} tokens per line, more than {1.03 * limits['density']:.2f}: write fewer "
        "things in a line, and keep the comments and blank lines that help"
    )
    inner = [place for file in files for place in nested(file)]
    assert len(inner) <= limits["nested"], f"use if statements, not conditional expressions inside others: {inner}"


@pytest.mark.parametrize("package", ["docs", "config"])
def test_documentation_and_configuration_stay_within_their_ceilings(package: str) -> None:
    pages = [
        page for page in files_of("*.md", "docs/*.md", "deploy/*.md", "examples/**/*.md") if page.name != "CHANGELOG.md"
    ]
    words = sum(len(page.read_text().split()) for page in pages)
    config = [file for file in files_of("training/config/**/*.yaml") if file.name != "published.yaml"]
    size = {"docs": words, "config": lines_of(config)}[package]
    assert size <= CEILINGS[package]["most"], (
        f"{package}: {size:,}; the ceiling is {CEILINGS[package]['most']:,}. {REMEDY}"
    )


def test_the_formulas_stay_explained() -> None:
    files = files_of("training/algorithms/**/*.py", "training/methods/**/*.py")
    docstrings = [token for file in files for token, docstring in tokens(file) if docstring]
    lines = sum(token.end[0] - token.start[0] + 1 for token in docstrings)
    least = LUFFY["docstring_lines"]
    assert lines >= least, f"algorithms and methods have {lines} lines of docstrings; {least} explained the formulas"
