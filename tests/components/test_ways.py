"""How many files of ours a row, a score, a setting, a key and a metric pass: `[tool.luffy.ways]` of pyproject.toml."""

import re
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core import PROJECT
from core.files import write_table
from core.plugins.config_files import PROFILES
from core.schemas import SAMPLE
from evaluation.commands import Grade, Report, Suite
from evaluation.settings import BenchmarkSettings, EvaluationSettings
from targets.commands import Prepare
from targets.settings import TargetSettings

WAYS = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["luffy"]["ways"]
PACKAGES = ("pipelines", "assets", "training", "evaluation", "targets", "grading", "core")
SOURCES = (".py", ".yaml")


@contextmanager
def entered() -> Iterator[set[str]]:
    """The files of the project whose functions this process calls; what imports call is not counted."""

    def note(frame: FrameType, event: str, _argument: object) -> None:
        file = frame.f_code.co_filename  # a text is compared fast, and libraries call millions of functions
        if event == "call" and file.startswith(folder) and frame.f_code.co_name != "<module>":
            files.add(file.removeprefix(folder))

    folder = f"{PROJECT}/"
    files: set[str] = set()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        files.intersection_update({file for file in files if file.startswith(PACKAGES)})


def require_within(way: str, files: set[str]) -> None:
    most = WAYS[way]["most"]
    assert len(files) <= most, f"a {way} passes {len(files)} files, and the most is {most}: {sorted(files)}"


def test_a_row(tmp_path: Path, tokenizer: Path, jsonl: Callable[..., Path], good: Callable[..., Any]) -> None:
    settings = TargetSettings(source=[str(jsonl(good(1)))], workers=1)
    first, request = (Prepare(out=tmp_path / out, tokenizer=tokenizer, targets=settings) for out in ("first", "out"))
    first.run()  # imports what runs
    with entered() as files:
        request.run()
    require_within("row", files)


def test_a_score(tmp_path: Path) -> None:
    Suite(benchmarks=BenchmarkSettings(limit=1), out=(suite := tmp_path / "suite.parquet")).run()
    for row in pq.read_table(suite).to_pylist():
        sample = {"sample": 0, "response": f"\\boxed{{{row['gold']}}}", "tokens": 3, "finish_reason": "stop", "seed": 0}
        table = pa.Table.from_pylist([{**row, **sample, "prompt": row["problem"]}], schema=SAMPLE)
        write_table(table, tmp_path / "samples" / f"{row['benchmark']}.parquet")
    settings = EvaluationSettings(grade_workers=1)

    def run(graded: Path) -> None:
        Grade(samples=tmp_path / "samples", out=graded, suite=suite, evaluation=settings).run()
        Report(base=graded, policy=graded, suite=suite, out=graded / "page.html").run()

    run(tmp_path / "first")  # imports what runs
    with entered() as files:
        run(tmp_path / "graded")
    require_within("score", files)


@pytest.mark.parametrize("way", [name for name, way in WAYS.items() if "name" in way])
def test_a_name(way: str) -> None:
    name = re.compile(rf"\b{WAYS[way]['name']}\b")
    sources = (path for package in PACKAGES for path in (PROJECT / package).rglob("*.*") if path.suffix in SOURCES)
    passed = (path for path in sources if not path.is_relative_to(PROJECT / PROFILES))  # those choose a value
    files = {str(path.relative_to(PROJECT)) for path in passed if name.search(path.read_text())}
    assert files, f"no file has {name.pattern}: put what it is called now into [tool.luffy.ways] of pyproject.toml"
    require_within(way, files)
