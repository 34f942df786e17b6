"""The example's filter and suite, by path and as an installed package."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from examples.filter.terse.filters import skips_steps

HERE = Path(__file__).parent
MODEL = HERE.parents[1] / "training" / "embedded_model" / "model"
SHOW = """
import json, sys
from pathlib import Path
from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.benchmarks.suite import load_suite
from targets.settings import build_config
from targets.prepare import prepare
name, suite, tokenizer, roots = sys.argv[1:]
values = {"embedded_split": "train_hard", "embedded_terse": 0.5, "embedded_rows": 60, "filters": [name]}
prepared = prepare(build_config(values), Path("out"), benchmarks=None, tokenizer_json=Path(tokenizer))
problems = read_suite(load_suite(suite), [Path(roots)])
print(json.dumps([prepared.counts, prepared.filter_counts[0]["title"], problems.num_rows]))
"""


@pytest.mark.parametrize(
    ("solution", "skips"), [("1+2=3\n3+4=7", False), ("1+2+4=7", True), ("-1+2=1", False), ("no sum", False)]
)
def test_a_line_with_two_operations_skips_a_step(solution: str, skips: bool) -> None:
    assert (skips_steps(SimpleNamespace(target=solution)) is not None) == skips


@pytest.mark.parametrize("installed", [False, True])
def test_the_filter_and_the_suite_are_found(
    installed: bool, install: Callable[[str], dict[str, str]], python: Callable[..., str], tmp_path: Path
) -> None:
    environment = install("filter") if installed else {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    folder = tmp_path / "installed" / "terse" if installed else HERE / "terse"
    names = ("skips_steps", "terse") if installed else (f"{folder}/filters.py:skips_steps", f"{folder}/terse.yaml")
    counts, title, problems = json.loads(python("-c", SHOW, *names, str(MODEL), str(folder), env=environment))
    assert counts["read"] == 60 and counts["skips_steps"] > 15 and counts["kept"] == 60 - counts["skips_steps"]
    assert (title, problems) == ("A line of the solution does more than one operation", 30)
