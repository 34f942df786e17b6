"""A comparison is a file; its runs are ordinary runs, and its page comes from what they recorded."""

import csv
import doctest
from importlib import import_module
from pathlib import Path

import pytest

from core import PROJECT
from core.errors import InputError
from core.files import digest_file
from core.metric_table import metric_of
from research.comparison_file import read_comparison
from research.comparison_page import recorded_recipes, write_page
from research.recorded_run import INDEX, read_run
from research.remake import trial_of

RUNS = PROJECT / "research/runs"
MATRIX = """
profile: embedded
baseline: stale_1_none
overrides: {{sft: [data.shuffle=false]}}
matrix:
  - name: "{name}"
    recipe: luffy
    axes: {{k: [1, 4], type: [none, tis]}}
    overrides: ["rollouts.max_staleness={{k}}"]
    seeds: 2
variants: {{own: {{recipe: {recipe}}}}}
seeds: {{stale_4_tis: 3}}
"""


def comparison(folder: Path, name: str = "stale_{k}_{type}", recipe: str = "sft"):
    (folder / "c.yaml").write_text(MATRIX.format(name=name, recipe=recipe))
    return read_comparison(str(folder / "c.yaml"))[1]


def test_a_matrix_names_a_variant_for_each_combination_and_seeds_count_up(tmp_path: Path) -> None:
    file = comparison(tmp_path)
    assert list(file.variants) == ["stale_1_none", "stale_1_tis", "stale_4_none", "stale_4_tis", "own"]
    trials = list(file.trials([], ["rollouts.max_staleness=2", "seed=1"]))
    assert [(trial.name, trial.seed) for trial in trials[-5:]] == [
        *((f"stale_{k}", 1) for k in ("1_none", "1_tis", "4_none", "4_tis")),
        ("stale_4_tis", 2),
    ]
    assert trials[-1].overrides == ("rollouts.max_staleness=4", "seed=1")  # a variant's own wins
    (sft, _) = file.trials(["sft"], ["data.shuffle=true"], seeds=2)
    assert (sft.recipe, sft.overrides) == ("sft", ("data.shuffle=false",))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "stale_{j}"}, "no axis 'j'; the axes are k, type"),
        ({"name": "stale_{k}"}, "two variants are named 'stale_1'"),
        ({"name": "{k}/{type}"}, "variants.1/none"),
        ({"name": "other_{k}_{type}"}, "baseline: there is no 'stale_1_none'"),
    ],
)
def test_a_file_that_names_no_variants_is_refused(changes: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"c\.yaml") as caught:
        comparison(tmp_path, **changes)
    assert said in str(caught.value)


def test_the_index_lists_every_recorded_run_by_its_digest() -> None:
    with (RUNS / INDEX).open(newline="") as handle:
        listed = list(csv.DictReader(handle))
    assert {(row["digest"], f"{row['profile']}/{row['name']}-{row['seed']}.zip") for row in listed} == {
        (digest_file(file), file.relative_to(RUNS).as_posix()) for file in RUNS.glob("*/*.zip")
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["comparison", "drift", "products", "words"])
def test_every_recorded_run_is_of_its_comparison_and_has_metrics_of_the_table(name: str) -> None:
    _, file = read_comparison(name)
    for recipe in recorded_recipes(file, RUNS / name):
        assert recipe.name in file.names()
        assert not [
            key for run in recipe.runs for record in run.records for key in record["data"] if not metric_of(key)
        ]


def test_the_page_of_recorded_runs_is_that_of_the_documentation(tmp_path: Path) -> None:
    _, file = read_comparison("products")
    page = write_page(file, RUNS / "products", tmp_path / "page")
    text = page.with_name("comparison.md").read_text(encoding="utf-8")
    assert text == (PROJECT / "docs/results/products/comparison.md").read_text(encoding="utf-8")
    assert page.with_name("answers.md").is_file() and page.with_name("reward_on_policy.svg").is_file()
    assert page.read_text(encoding="utf-8").count("<svg ") >= 4


def test_runs_of_other_settings_are_not_one_row(tmp_path: Path) -> None:
    for name, source in (("mine-0.zip", "dft-0.zip"), ("mine-1.zip", "sft-0.zip")):
        (tmp_path / name).write_bytes((RUNS / "comparison" / source).read_bytes())
    with pytest.raises(InputError, match=r"its settings differ from mine-\d\.zip"):
        recorded_recipes(read_comparison("comparison")[1], tmp_path)
    (tmp_path / "mine-1.zip").write_bytes((RUNS / "products/sft-0.zip").read_bytes())
    with pytest.raises(InputError, match="its targets, base model or problems differ from the other runs"):
        recorded_recipes(read_comparison("comparison")[1], tmp_path)


def test_a_run_of_a_recipe_from_outside_needs_its_file() -> None:
    path = RUNS / "comparison/sft-0.zip"
    run = read_run(path)
    assert trial_of(path, run, None).overrides == run.manifest.request.overrides
    request = run.manifest.request.model_copy(update={"recipe": "mine"})
    other = type(run)(run.manifest.model_copy(update={"request": request}), (), {}, {})
    with pytest.raises(InputError, match=r"its recipe mine is not of this project: give its file, --recipe mine\.yaml"):
        trial_of(path, other, None)
    with pytest.raises(InputError, match=r"is a run of the recipe mine; expected mine\.yaml"):
        trial_of(path, other, "yours.yaml")
    assert trial_of(path, other, "mine.yaml").recipe == str(Path.cwd() / "mine.yaml")


@pytest.mark.parametrize("module", ["drift", "figures", "outcomes", "recorded_run", "recheck", "seed_statistics"])
def test_the_examples_are_true(module: str) -> None:
    failed, tried = doctest.testmod(import_module(f"research.{module}"))
    assert tried and not failed
