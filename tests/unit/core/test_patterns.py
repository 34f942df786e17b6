"""No pattern takes more than linear time on any text: all of them are found, and measured on hostile texts."""

import ast
import importlib
import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from core import PROJECT
from core.schemas import BENCHMARK
from core.text.patterns import MATCHED, SEARCHED, FullMatch, Pattern
from grading import contamination
from grading.answers import choices, extraction, pairs, spelling
from targets.filter.filters import FILTERS
from targets.filter.worker import Worker
from targets.read.response_format import parse_response
from targets.select.dedupe import NUMBERS_AND_OPERATORS, problem_text
from targets.settings import TargetSettings
from targets.trace import Trace

PACKAGES = ("core", "grading", "targets", "evaluation", "training", "assets")
LIMIT = 2.6  # t(2n) / t(n); quadratic time gives 4
MEASURABLE_S = 0.0002
FIRST_CHARACTERS, MOST_CHARACTERS = 250, 32_000
MOST_LITERALS = 8
SIZES, LEAST_TRIES, MOST_TRIES = 3, 2, 5  # a busy machine delays some measurements, and never all
REPEATS, PAUSE_S = 5, 0.2

FAMILIES: dict[str, Callable[[int], str]] = {
    "blanks": lambda n: " " * n,
    "blanks, then a letter": lambda n: " " * n + "x",
    "newlines": lambda n: "\n" * n,
    "blank lines": lambda n: " \n\t\n" * (n // 4),
    "a letter, then blanks": lambda n: "A" + " " * n + "x",
    "digits": lambda n: "1" * n,
    "digits, then a letter": lambda n: "1" * n + "x",
    "grouped digits": lambda n: "1" + ",000" * (n // 4) + ",",
    "dotted digits": lambda n: "1." * (n // 2) + "x",
    "letters": lambda n: "A" * n,
    "words": lambda n: "Aa bb " * (n // 6),
    "capital letters and brackets": lambda n: "(A " * (n // 3),
    "open braces": lambda n: "{" * n,
    "open texts": lambda n: "\\text{" * (n // 6),
    "open texts and blanks": lambda n: "\\text{ \\text {" * (n // 14) + " " * (n // 2),
    "units": lambda n: "1\\text{" + " " * n + "/",
    "backslashes": lambda n: "\\" * n,
    "answers": lambda n: "Answer:" * (n // 7),
    "an answer, then newlines": lambda n: "Answer:" + "\n" * n + "none",
    "answers and blanks": lambda n: "Answer is  \n" * (n // 12),
    "open images": lambda n: "![" * (n // 2),
    "open drawings": lambda n: "[asy]" * (n // 5),
    "signs and comparisons": lambda n: "-<=\\le " * (n // 7),
    "other scripts": lambda n: "\u00e9\u4e2d\u0661\u00b2" * (n // 4),
}


def modules_with_patterns() -> Iterator[str]:
    for package in PACKAGES:
        for path in sorted((PROJECT / package).rglob("*.py")):
            if "core.text.patterns" in imports(path):
                yield path.relative_to(PROJECT).with_suffix("").as_posix().replace("/", ".")


def imports(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


for name in modules_with_patterns():
    importlib.import_module(name)


Scan = Callable[[str], object]


def search_all(pattern: Pattern) -> Scan:
    def scan(text: str) -> None:
        deque(pattern.finditer(text), maxlen=0)
        pattern.match(text)

    return scan


def expression(match: FullMatch) -> str:
    return cast(Pattern, match.__self__).pattern  # pyright: ignore[reportFunctionMemberAccess]


MEASURED: dict[str, Scan] = {pattern.pattern: search_all(pattern) for pattern in SEARCHED}
MEASURED |= {f"whole: {expression(match)}": match for match in MATCHED}
TRACE = Trace("id", "source", 0)
WORKER = cast(
    Worker,
    SimpleNamespace(
        config=TargetSettings(),
        is_mathematics=lambda trace: True,
        is_boxed=lambda trace: True,
        benchmark_match=lambda problem: None,
    ),
)
# What reads texts of data with loops and patterns of its own.
FUNCTIONS: dict[str, Scan] = {
    "extract_boxed": extraction.extract_boxed,
    "an unclosed box": lambda text: extraction.extract_boxed(f"\\boxed{{{text}"),
    "extract_choice": choices.extract_choice,
    "an option with text": lambda text: choices.extract_choice(f"\\boxed{{{text}}}"),
    "normalize": spelling.normalize,
    "normalize a matrix": lambda text: spelling.normalize("\\begin{matrix}" + text),
    "without_label": lambda text: pairs.without_label(text, text),
    "extract_choices": choices.extract_choices,
    "same_choices": lambda text: choices.same_choices(text, "A, C"),
    "compare_numbers": lambda text: pairs.compare_numbers(text, text),
    "with_decimal_point": lambda text: pairs.with_decimal_point(text, "3.5"),
    "parse_response": lambda text: parse_response(text, split_plain=True),
    "thoughts that are split": lambda text: parse_response(f"<|im_start|>think{text}\\boxed{{1}}{text}"),
    "NUMBERS_AND_OPERATORS": lambda text: NUMBERS_AND_OPERATORS.findall(problem_text(text)),
    "benchmark words": lambda text: contamination.overlaps([text], BENCHMARK.empty_table()),
    **{
        f"rule {entry.name}": lambda text, rule=entry.rule: rule(
            replace(TRACE, problem=text, gold=text, target=text), WORKER
        )
        for entry in FILTERS
        if entry.rule and entry.name not in ("contaminated", "prompt_too_long", "target_too_long")
    },
}


def literals(source: str) -> list[str]:
    """The texts that stand in an expression as they are."""
    without = re.sub(r"\(\?[a-zA-Z:!=<]+|\[[^\]]*\]|\{[\d,]+\}|\\[a-zA-Z]\b", "\0", source)
    pieces = re.split(r"[\0()|?*+^$.]|(?<!\\)[\[\]]", without)
    return sorted({re.sub(r"\\(\W)", r"\1", piece) for piece in pieces if piece.strip("\\")}, key=len)[-MOST_LITERALS:]


def hostile_texts(source: str) -> Iterator[tuple[str, Callable[[int], str]]]:
    yield from FAMILIES.items()
    for text in literals(source):
        yield f"{text!r} again and again", lambda n, text=text: text * (n // len(text))
        yield f"{text!r}, then blanks", lambda n, text=text: text + " " * n + "!"
        yield f"{text!r} and blanks", lambda n, text=text: f"{text}  \n" * (n // (len(text) + 3))
    if together := "".join(literals(source)):
        yield "all its texts together", lambda n: together * (n // len(together))


def seconds(scan: Scan, text: str) -> float:
    """CPU seconds, because a busy machine stretches others."""
    began = time.thread_time()
    scan(text)
    return time.thread_time() - began


def growth(scan: Scan, family: Callable[[int], str]) -> float:
    """t(2n) / t(n) from the first n on at which the time can be measured; 0 if it is too short at any."""
    n = FIRST_CHARACTERS
    while seconds(scan, family(n)) < MEASURABLE_S:
        n *= 2
        if n > MOST_CHARACTERS:
            return 0.0
    for size in (n << k for k in range(SIZES)):
        short, long = family(size), family(2 * size)
        shorter = longer = ratio = math.inf
        for tried in range(1, MOST_TRIES + 1):
            shorter, longer = min(shorter, seconds(scan, short)), min(longer, seconds(scan, long))
            ratio = longer / shorter
            if tried >= LEAST_TRIES and ratio < LIMIT:
                return ratio
    return ratio


def too_slow(source: str, scan: Scan) -> dict[str, float]:
    """The families of texts on which the time grows faster whenever it is measured, with t(2n) / t(n)."""
    ratios = {name: growth(scan, family) for name, family in hostile_texts(source)}
    suspects = {name: family for name, family in hostile_texts(source) if ratios[name] >= LIMIT}
    for _ in range(REPEATS if suspects else 0):
        time.sleep(PAUSE_S)  # a neighbour on the same core can stretch all that is measured within milliseconds
        ratios |= {name: min(ratios[name], growth(scan, family)) for name, family in suspects.items()}
    return {name: round(ratio, 1) for name, ratio in ratios.items() if ratio >= LIMIT}


@pytest.mark.parametrize("source", MEASURED, ids=lambda source: source[:40])
def test_twice_the_text_takes_about_twice_the_time(source: str) -> None:
    assert not too_slow(source.removeprefix("whole: "), MEASURED[source])


def test_patterns_are_compiled_in_one_place() -> None:
    compiling = {
        path.relative_to(PROJECT).as_posix()
        for package in PACKAGES
        for path in (PROJECT / package).rglob("*.py")
        if imports(path) & {"re", "re2", "regex"}
    }
    assert compiling == {"core/text/patterns.py"}, "compile patterns through core.text.patterns"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_read_data_are_linear(name: str) -> None:
    texts = "Wait \\boxed ! <|im_end|> </think> <|im_start|> \\begin{matrix}1/2 3% [asy]".replace(" ", "|")
    assert not too_slow(texts, FUNCTIONS[name])


@pytest.mark.parametrize(("source", "family"), [(r"\s*:\s*x", "newlines"), (r"!\[[^\]]*\]\(", "open images")])
def test_the_measurement_finds_what_is_not_linear(source: str, family: str) -> None:
    scan = search_all(re.compile(source))
    assert max(growth(scan, FAMILIES[family]) for _ in range(3)) >= LIMIT  # a delay can hide it once
