"""experiments/*: partitions of recipes, and the page that compares them, on written policies and scores."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from assets.experiments import RECIPES, SCORES
from evaluation.experiments import lines
from tests.defs.house import message
from tests.defs.test_scorecard_and_champion import BENCHMARKS, GOOD, Written, graded
from training.lineage import write_manifest


class Recipes(Written):
    """Scored policies of recipes, as the partitions of the family leave them."""

    def __init__(self, house) -> None:
        super().__init__(house)
        digests = {name: f"problems of {name}" for name in BENCHMARKS}
        self.refer("benchmarks/suite", house.storage / "problems.parquet", "s" * 64, {"digests": digests})
        self.refer("targets/train", self.trained_on, "t" * 64)

    def recipe(self, name: str, *, targets: str = "t" * 64, note: str = "", **accuracies: float) -> str:
        run = self.house.storage / "training" / "policy" / name
        (run / "policy").mkdir(parents=True)
        (run / "policy" / "model.safetensors").write_text(name)
        manifest = {
            "base_model": {"digest": self.base},
            "steps": 3,
            "targets": {"digest": targets},
            "request": {"seed": 0, "hardware": "cpu", "overrides": [note], "recipe": name},
        }
        write_manifest(run / "policy", manifest)
        records = [{"step": step, "data": {"reward/on_policy": step / 3}} for step in (1, 2, 3)]
        (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        digest = json.loads((run / "policy" / "lineage.json").read_text())["checkpoint_digest"]
        scores = {}
        for benchmark, accuracy in accuracies.items():
            file = run / f"{benchmark}.parquet"
            pq.write_table(graded(benchmark, accuracy, digest), file)
            scores[benchmark] = {"file": str(file), "problems": f"problems of {benchmark}"}
        details = {"checkpoint": digest, "policy": str(run / "policy"), "scores": scores}
        details["metrics"] = str(run / "metrics.jsonl")
        self.refer(f"{SCORES.to_user_string()}/{name}", run, digest, details)
        return digest


@pytest.fixture
def recipes(build) -> Recipes:
    return Recipes(build())


def compare(recipes: Recipes):
    return recipes.house.run_job("compare_experiments")


def test_recipes_are_compared_with_the_baseline_on_one_page(recipes: Recipes):
    recipes.recipe("luffy", **GOOD)
    recipes.recipe("on_policy", **{**GOOD, "arithmetic": 0.1}, note="<script>alert(1)</script>")
    assert compare(recipes).success
    shown = recipes.house.metadata("experiments/comparison")
    assert shown["recipes"] == 2 and shown["left out"] == "none"
    page = Path(shown["page"]).read_text(encoding="utf-8")
    assert "<script" not in page and "&lt;script&gt;" in page and "http" not in page
    assert page.count("<polyline") == 2 and 'class="up">+' in page
    assert page.index("<th>on_policy</th>") < page.index("<th>luffy</th>")  # the baseline first
    row = shown["scores"].splitlines()[2]
    assert "%" in row and " to " in row


def test_recipes_of_other_targets_are_left_out_by_name(recipes: Recipes):
    recipes.recipe("luffy", **GOOD)
    recipes.recipe("on_policy", **GOOD)
    recipes.recipe("mixed_policy", targets="u" * 64, **GOOD)
    assert compare(recipes).success
    shown = recipes.house.metadata("experiments/comparison")
    assert shown["recipes"] == 2 and "its targets are not the present ones" in shown["left out"]


def test_one_recipe_is_no_comparison(recipes: Recipes):
    recipes.recipe("luffy", **GOOD)
    assert "1 recipes to compare" in message(compare(recipes))
    assert "launch a backfill" in message(compare(recipes))


def test_scores_of_a_policy_that_was_trained_anew_are_left_out(recipes: Recipes):
    recipes.recipe("luffy", **GOOD)
    recipes.recipe("on_policy", **GOOD)
    file = recipes.storage.reference_file(f"{SCORES.to_user_string()}/luffy")
    record = json.loads(file.read_text())
    record["details"]["checkpoint"] = "f" * 64
    file.write_text(json.dumps(record))
    assert "trained anew" in message(compare(recipes))


def test_the_partitions_are_the_recipes():
    assert {"luffy", "on_policy"} <= set(RECIPES)


def test_curves_share_an_axis():
    drawn = lines("Reward <b>", [("a", [(1, 0.0), (2, 1.0)]), ("b", [(1, 0.5), (4, 0.5)])])
    assert drawn.count("<polyline") == 2 and "step 4" in drawn and "<b>" not in drawn
    flat = lines("Flat", [("a", [(1, 2.0), (2, 2.0)]), ("b", [])])
    assert flat.count("<polyline") == 1 and "nan" not in flat
