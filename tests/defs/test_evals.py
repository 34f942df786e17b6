"""evals/* for real: vLLM in the training interpreter, grading here."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.evals import answers
from assets.evals.scores import recipe_advice
from core.schemas import GRADED
from tests.defs.project import Project, message

pytestmark = pytest.mark.usefixtures("training_interpreter")
KEYS = ["evals/base/arithmetic", "ood/base/arithmetic_long", "ood/base/arithmetic_mul", "ood/base/arithmetic_short"]
SMALL = {"benchmarks__limit": "4", "evaluation__max_tokens": "64"}


def test_the_base_is_scored_once_for_the_same_model_and_problems(build, monkeypatch):
    project: Project = build(**SMALL)
    assert project.run("models/base", "benchmarks/suite", KEYS[0], KEYS[3]).success
    shown = project.metadata(KEYS[3])
    assert 0 <= shown["low, %"] <= shown["accuracy, %"] <= shown["high, %"] <= 100
    assert shown["checkpoint"] == project.data_version("models/base")
    assert shown["prompt template"] == "training"
    table = pq.read_table(shown["file"])
    assert table.schema.equals(GRADED)
    assert table.num_rows == shown["dagster/row_count"] == 4
    assert set(table["finish_reason"].to_pylist()) <= {"stop", "length"}

    before = project.files()
    result = project.run(*KEYS)  # two of the four are there
    assert result.success
    after = project.files()
    assert {name: after[name] for name in before if not name.startswith("references/")} == {
        name: digest for name, digest in before.items() if not name.startswith("references/")
    }
    kept = sorted(Path(name).name for name in after if name.startswith("generations/"))
    assert kept == ["request.json"] * 4 + ["samples.parquet"] * 4
    drawn = [
        pq.read_metadata(project.storage / name).num_rows for name in after if re.match(r"samples/.*\.parquet", name)
    ]
    assert sum(drawn) == 16  # each sample once

    monkeypatch.setattr(answers, "gpu_slot", None)  # and waits for nobody
    assert build(**SMALL, evaluation__thinking="false").run(*KEYS).success  # graded anew, not generated anew
    final = project.files()
    assert sorted(Path(name).name for name in final if name.startswith("generations/")) == kept
    assert len([name for name in final if name.startswith("graded/")]) == 8
    assert not [name for name in final if ".tmp" in name]


def test_a_benchmark_that_the_suite_lacks_says_so(build):
    assert build(**SMALL, suite__only="[arithmetic]").run("models/base", "benchmarks/suite").success
    result = build(**SMALL).run("ood/base/arithmetic_mul")
    assert "benchmarks/suite lacks arithmetic_mul" in message(result)


@pytest.mark.parametrize(
    ("recipe", "right", "answers", "tools", "advised"),
    [
        ("luffy", 0, 60, False, True),
        ("luffy", 1, 60, False, False),
        ("luffy", 0, 20, False, False),
        ("sft", 0, 60, False, False),
        ("sft_rl", 0, 60, False, False),
        ("luffy", 0, 60, True, False),  # its targets show how to call them
        ("on_policy", 0, 60, True, True),
    ],
)
def test_a_base_that_solves_nothing_is_told_which_recipe_fits(tmp_path: Path, recipe, right, answers, tools, advised):
    scores = [1.0] * right + [0.0] * (answers - right)
    pq.write_table(pa.table({"score": scores}), tmp_path / "graded.parquet")
    advice = recipe_advice(recipe, [tmp_path / "graded.parquet"], tools=tools)
    assert bool(advice) == advised
    assert not advised or ("0 of 60 answers of the base are right" in advice and "training.recipe=sft" in advice)
