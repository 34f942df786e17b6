"""experiments/*: partitions of recipes and seeds, and the page that compares them, on written policies and scores."""

import json
import re
from pathlib import Path

import manifests
import pyarrow.parquet as pq
import pytest

from assets.experiments import SCORES, partition
from core.errors import InputError
from core.manifest import InputRecord, write_manifest
from tests.defs.project import message
from tests.defs.test_scorecard_and_champion import BENCHMARKS, GOOD, Written, graded


class Recipes(Written):
    """Scored policies of recipes, as the partitions of the family leave them."""

    def __init__(self, project) -> None:
        super().__init__(project)
        digests = {name: f"problems of {name}" for name in BENCHMARKS}
        self.refer("benchmarks/suite", project.storage / "problems.parquet", "s" * 64, digests=digests)
        files = dict.fromkeys(("heldout", "profile"), "x.parquet")
        facts = {"rows": 1, "heldout_rows": 0, "previous": None, "prepared_digest": "p", "source": [], **files}
        self.refer("targets/train", self.trained_on, "t" * 64, source_digest="r", **facts)

    def recipe(self, name: str, *, seed: int = 0, targets: str = "t" * 64, note: str = "", **accuracies: float) -> str:
        run = self.project.storage / "training" / "policy" / f"{name}-{seed}"
        (run / "policy").mkdir(parents=True)
        (run / "policy" / "model.safetensors").write_text(f"{name} {seed}")
        described = manifests.manifest(
            base_model=InputRecord(path=Path("base"), digest=self.base),
            steps=3,
            targets=manifests.targets(digest=targets),
            request=manifests.request(seed=seed, overrides=(note,), recipe=name),
        )
        write_manifest(run / "policy", described)
        records = [
            {"step": step, "data": {"reward/on_policy": step / 3, "batch/generated_tokens": 1000}} for step in (1, 2, 3)
        ]
        (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        digest = json.loads((run / "policy" / "lineage.json").read_text())["checkpoint_digest"]
        scores = {}
        for benchmark, accuracy in accuracies.items():
            file = run / f"{benchmark}.parquet"
            pq.write_table(graded(benchmark, accuracy, digest), file)
            scores[benchmark] = {"file": str(file), "problems": f"problems of {benchmark}"}
        policy = {"path": str(run / "policy"), "digest": digest, "scores": scores}
        facts = {"policy": policy, "metrics": str(run / "metrics.jsonl"), "samples": {}}
        self.refer(f"{SCORES.to_user_string()}/{partition(name, seed)}", run, digest, **facts)
        return digest


@pytest.fixture
def recipes(build) -> Recipes:
    return Recipes(build())


def compare(recipes: Recipes):
    return recipes.project.run_job("compare_experiments")


def test_recipes_are_compared_with_the_baseline_on_one_page(recipes: Recipes):
    recipes.recipe("luffy", **GOOD)
    recipes.recipe("on_policy", **{**GOOD, "arithmetic": 0.1}, note="<script>alert(1)</script>")
    assert compare(recipes).success
    shown = recipes.project.metadata("experiments/comparison")
    assert shown["recipes"] == 2 and shown["left out"] == "none"
    page = Path(shown["file"]).read_text(encoding="utf-8")
    assert "<script" not in page and "&lt;script&gt;" in page and "http" not in page
    assert page.count("at the end</title>") == 4 and 'class="up">+' in page  # two of the recipes, two of the weights
    assert page.index("<th>on_policy") < page.index("<th>luffy")  # the baseline first
    assert "3,000" in page and "3.0" in page  # tokens and minutes
    assert "| generated tokens | 3,000 | 3,000 |" in shown["scores"]
    folder = Path(shown["file"]).parent
    assert (folder / "comparison.md").read_text() == shown["scores"] + "\n"
    assert (folder / "reward_on_policy.svg").read_text().startswith('<svg xmlns="http://www.w3.org/2000/svg"')


def test_the_seeds_of_a_recipe_are_one_experiment(build):
    recipes = Recipes(build(experiments__seeds="3"))
    for seed, accuracy in enumerate((0.8, 0.9, 1.0)):
        recipes.recipe("luffy", seed=seed, **{**GOOD, "arithmetic": accuracy})
        recipes.recipe("on_policy", seed=seed, **{**GOOD, "arithmetic": 0.1})
    recipes.recipe("sft", seed=0, **GOOD)
    assert compare(recipes).success
    shown = recipes.project.metadata("experiments/comparison")
    assert shown["left out"] == "- sft is left out because it has scores for 1 of 3 seeds"
    assert "on_policy 3, luffy 3" in shown["scores"]
    page = Path(shown["file"]).read_text(encoding="utf-8")
    assert re.search(r"\n[78]\d\.\d [89]\d\.\d 100\.0<", page) and page.count("opacity: 0.25") == 6


def test_settings_name_recipes_that_exist(build):
    with pytest.raises(InputError, match=r"there is no 'luffi', expected one of luffy, "):
        build(experiments__overrides="{luffi: [seed=1]}")


def test_recipes_of_other_targets_are_left_out_by_name(recipes: Recipes):
    recipes.recipe("luffy", **GOOD)
    recipes.recipe("on_policy", **GOOD)
    recipes.recipe("mixed_policy", targets="u" * 64, **GOOD)
    assert compare(recipes).success
    shown = recipes.project.metadata("experiments/comparison")
    assert shown["recipes"] == 2 and "its targets have changed" in shown["left out"]


def test_one_recipe_is_no_comparison(recipes: Recipes):
    recipes.recipe("luffy", **GOOD)
    assert "at least 2 recipes to compare, got 1" in message(compare(recipes))
    assert "launch a backfill" in message(compare(recipes))


def test_scores_of_a_policy_that_was_trained_anew_are_left_out(recipes: Recipes):
    recipes.recipe("luffy", **GOOD)
    recipes.recipe("on_policy", **GOOD)
    file = recipes.storage.reference_file(f"{SCORES.to_user_string()}/luffy|0")
    record = json.loads(file.read_text())
    record["policy"]["digest"] = "f" * 64
    file.write_text(json.dumps(record))
    assert "trained again" in message(compare(recipes))
