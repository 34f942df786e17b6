"""experiments/*: partitions of recipes and seeds, and the page that compares them, on written policies and scores."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import manifests
import pyarrow.parquet as pq
import pytest

from assets.experiments.runs import SCORES, partition
from core.errors import InputError
from core.model.lineage_file import InputRecord, write_manifest
from tests.defs.project import message, settings_of
from tests.defs.written_scores import BENCHMARKS, GOOD, Written, graded

RECORDS = [{"reward/on_policy": step / 3, "batch/generated_tokens": 1000} for step in (1, 2, 3)]


class Recipes(Written):
    """Scored policies of recipes, as the partitions of the family leave them."""

    def __init__(self, project) -> None:
        super().__init__(project)
        digests = {name: f"problems of {name}" for name in BENCHMARKS}
        self.refer("benchmarks/suite", project.storage / "problems.parquet", "s" * 64, digests=digests)
        files = dict.fromkeys(("heldout", "profile"), "x.parquet")
        facts = {"rows": 1, "heldout_rows": 0, "previous": None, "prepared_digest": "p", "source": [], **files}
        self.refer("targets/train", self.trained_on, "t" * 64, source_digest="r", **facts)

    def recipe(
        self,
        name: str,
        *,
        seed: int = 0,
        targets: str = "t" * 64,
        note: str = "",
        config: Mapping[str, Any] = manifests.CONFIG,
        records: Sequence[Mapping[str, float]] = RECORDS,
        **accuracies: float,
    ) -> str:
        run = self.project.storage / "training" / "policy" / f"{name}-{seed}"
        (run / "policy").mkdir(parents=True)
        (run / "policy" / "model.safetensors").write_text(f"{name} {seed}")
        described = manifests.manifest(
            base_model=InputRecord(path=Path("base"), digest=self.base),
            steps=len(records),
            config=config,
            targets=manifests.targets(digest=targets),
            request=manifests.request(seed=seed, overrides=(note,), recipe=name),
        )
        write_manifest(run / "policy", described)
        lines = [json.dumps({"step": step, "data": data}) + "\n" for step, data in enumerate(records, 1)]
        (run / "metrics.jsonl").write_text("".join(lines))
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

    def variant(self, name: str, seed: int, rollouts: str, accuracy: float) -> None:
        """A scored run of a variant whose reward goes from 0.5 to ``accuracy``."""
        correction = {"type": "tis", "low": 0.5, "high": 5.0}
        options = {
            "rollouts": rollouts,
            "rollout_precision": "float32",
            "max_staleness": 4,
            "mixed": {"rollout_correction": correction},
        }
        rewards = [0.5] * 5 + [accuracy] * 5
        data = {"actor/grad_norm": 1.5, "rollout_correction/kept_share": 1.0}
        data |= {"rollout_correction/abs_log_ratio_mean": 0.1, "rollout_correction/abs_log_ratio_max": 2.0}
        records = [{"reward/on_policy": reward, "drift/age_4": 0.1, **data} for reward in rewards]
        self.recipe(
            name, seed=seed, config={**manifests.CONFIG, **options}, records=records, **{**GOOD, "arithmetic": accuracy}
        )


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


def test_recipes_with_different_seeds_are_ranked_and_compared_over_those_that_both_have(build):
    recipes = Recipes(build(experiments__seeds="4"))
    for seed, accuracy in enumerate((0.9, 0.1, 0.95, 1.0)):
        recipes.recipe("luffy", seed=seed, **{**GOOD, "arithmetic": accuracy})
        recipes.recipe("on_policy", seed=seed, **{**GOOD, "arithmetic": 0.1})
    for seed in (0, 2):
        recipes.recipe("hpt", seed=seed, **{**GOOD, "arithmetic": 1.0})
    assert compare(recipes).success
    shown = recipes.project.metadata("experiments/comparison")
    assert shown["left out"] == "none"
    assert "hpt has scores for 2 of 4 seeds: its differences are over the seeds that both have" in shown["scores"]
    ranking = shown["scores"].partition("\n\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split(" | ")[0] for line in ranking[2:]] == ["| hpt", "| luffy", "| on_policy"]
    # Two of 70 divisions of the eight seeds are as far apart: this one, and the same with the names exchanged.
    assert ranking[3].endswith("| 3 of 4 [30.1%, 95.4%] | 0.029 |")
    assert ranking[4].endswith("| 0 of 4 [0.0%, 49.0%] |  |")
    assert "the strongest first" in Path(shown["file"]).read_text(encoding="utf-8")


def test_a_seed_that_one_recipe_alone_has_is_no_reason_to_leave_out_the_others(build):
    recipes = Recipes(build(experiments__seeds="2"))
    for seed in (0, 1):
        recipes.recipe("luffy", seed=seed, **GOOD)
    recipes.recipe("on_policy", **GOOD)
    recipes.recipe("sft", **GOOD)
    assert compare(recipes).success
    shown = recipes.project.metadata("experiments/comparison")
    assert shown["left out"] == "none" and shown["recipes"] == 3
    assert "luffy is compared by one of its 2 seeds" in shown["scores"]


def test_settings_name_recipes_that_exist(build):
    with pytest.raises(InputError, match=r"no recipe 'luffi'; did you mean luffy\? expected one of chord_mu, "):
        build(experiments__overrides="{luffi: [seed=1]}")


VARIANTS = """{
  fresh: {recipe: luffy, overrides: [mixed.rollout_correction.type=tis]},
  stale: {recipe: luffy, overrides: [rollouts=separate_async, max_staleness=4]}
}"""


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"variants": "{luffy: {recipe: on_policy}}"}, "'luffy' is the name of a recipe"),
        ({"variants": "{a|b: {recipe: luffy}}"}, "should match pattern"),
        ({"variants": "{a: {recipe: luffi}}"}, r"no recipe 'luffi'; did you mean luffy\? expected one of chord_mu, "),
        ({"variants": "{a: {recipe: luffy, overrides: [paths.run=x]}}"}, "paths.run says where a run writes"),
        (
            {"recipes": "[stalest]", "variants": VARIANTS},
            r"recipes: there is no 'stalest'; did you mean stale\? expected one of .*, fresh, stale",
        ),
        ({"baseline": "stalest"}, "baseline: there is no 'stalest', expected one of "),
    ],
)
def test_variants_that_cannot_be_trained_are_refused(build, settings: dict[str, str], said: str):
    with pytest.raises(InputError, match=said):
        build(**{f"experiments__{key}": value for key, value in settings.items()})


def test_variants_are_trained_by_their_recipe_and_settings():
    options = settings_of(LUFFY__EXPERIMENTS__VARIANTS=VARIANTS, LUFFY__EXPERIMENTS__BASELINE="fresh").experiments
    assert options.trained() == ["fresh", "stale"]
    stale = options.of("stale")
    assert (stale.recipe, stale.overrides[-1]) == ("luffy", "max_staleness=4")
    assert options.of("sft").recipe == "sft"


def test_recipes_and_variants_can_have_numbers_of_seeds_of_their_own():
    seeds = "{default: 3, luffy: 8, stale: 5}"
    options = settings_of(LUFFY__EXPERIMENTS__SEEDS=seeds, LUFFY__EXPERIMENTS__VARIANTS=VARIANTS).experiments
    assert [options.seeds_of(name) for name in ("sft", "luffy", "fresh", "stale")] == [3, 8, 3, 5]
    assert options.most_seeds() == 8
    assert settings_of(LUFFY__EXPERIMENTS__SEEDS="2").experiments.seeds_of("luffy") == 2
    named = settings_of(LUFFY__EXPERIMENTS__SEEDS__LUFFY="8").experiments
    assert [named.seeds_of(name) for name in ("sft", "luffy")] == [1, 8]


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        ("0", "greater than"),
        ("{default: 3, luffy: 0}", "greater than"),
        ("{default: 1, luffi: 8}", r"there is no 'luffi'; did you mean luffy\? expected one of default, "),
    ],
)
def test_numbers_of_seeds_that_cannot_be_are_refused(build, seeds: str, said: str):
    with pytest.raises(InputError, match=rf"experiments\.seeds.*{said}"):
        build(experiments__seeds=seeds)


def test_variants_get_a_report_on_their_drift(build):
    recipes = Recipes(build(experiments__variants=VARIANTS, experiments__baseline="fresh", experiments__seeds="2"))
    for seed in (0, 1):
        recipes.variant("fresh", seed, "sync", 0.9)
        recipes.variant("stale", seed, "separate_async", 0.1 if seed else 0.9)
    recipes.recipe("on_policy", **GOOD)
    assert compare(recipes).success
    page = Path(recipes.project.metadata("experiments/comparison")["file"])
    report = (page.parent / "drift" / "drift.md").read_text()
    assert "on_policy" not in report  # no variant
    fresh, stale = (line for line in report.splitlines() if line.startswith("| tis [0.5, 5]"))
    assert "2 of 2 [34%, 100%]" in fresh and "1 of 2 [9%, 91%]" in stale
    assert (page.parent / "drift" / "staleness_4_float32_on_policy.svg").is_file()


def test_recipes_of_other_targets_are_left_out_by_name(recipes: Recipes):
    recipes.recipe("luffy", **GOOD)
    recipes.recipe("on_policy", **GOOD)
    recipes.recipe("mixed_policy", targets="u" * 64, **GOOD)
    assert compare(recipes).success
    shown = recipes.project.metadata("experiments/comparison")
    assert shown["recipes"] == 2 and "its targets have changed" in shown["left out"]


def test_one_recipe_is_compared_with_the_base_model_alone(recipes: Recipes):
    recipes.recipe("luffy", **GOOD)
    assert "or the scores of the base model, to compare, got 1" in message(compare(recipes))
    assert "launch a backfill" in message(compare(recipes))
    recipes.scores("base", recipes.base, **{**GOOD, "arithmetic": 0.1})
    assert compare(recipes).success
    page = Path(recipes.project.metadata("experiments/comparison")["file"]).read_text(encoding="utf-8")
    assert page.index("<th>luffy") < page.index("<th>base")


def test_scores_of_a_policy_that_was_trained_anew_are_left_out(recipes: Recipes):
    recipes.recipe("luffy", **GOOD)
    recipes.recipe("on_policy", **GOOD)
    file = recipes.storage.reference_file(f"{SCORES.to_user_string()}/luffy|0")
    record = json.loads(file.read_text())
    record["policy"]["digest"] = "f" * 64
    file.write_text(json.dumps(record))
    assert "trained again" in message(compare(recipes))
