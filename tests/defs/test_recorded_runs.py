"""Runs that another machine made: they are compared like those of the storage, unless something of them differs."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from assets.experiment_runs import SCORES, Inputs, partition, recorded_file, seeds, training_of
from assets.shared.references import ExperimentReference
from core.code_digest import PROJECT
from core.errors import InputError
from core.files import digest_file
from core.metrics import metric_of
from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.benchmarks.suite import select_benchmarks
from evaluation.recorded_run import INDEX, RecordedRun, main, read_run, record_run
from evaluation.sample_tables import problem_digests, read_scores
from tests.defs.project import message, settings_of
from tests.defs.test_experiments import Recipes, compare
from tests.defs.test_scorecard_and_champion import BENCHMARKS, GOOD
from training.config.keys import read_by

PRESENT = Inputs("t" * 64, "b" * 64, {name: f"problems of {name}" for name in BENCHMARKS})


@pytest.fixture
def here(build, tmp_path: Path) -> Recipes:
    """A project that looks for runs in a folder."""
    return Recipes(build(experiments__runs=str(tmp_path / "runs")))


def settings(tmp_path: Path, **more: str):
    return settings_of(LUFFY_PROFILE="embedded", LUFFY__EXPERIMENTS__RUNS=str(tmp_path / "runs"), **more)


def record(recipes: Recipes, tmp_path: Path, name: str, **changes: str) -> Path:
    """Record a run that is in the storage, and remove it from there."""
    chosen, key = settings(tmp_path), partition(name, 0)
    wanted = training_of(chosen.experiments, chosen.training, key)
    overrides, _ = read_by(wanted.recipe, wanted.overrides)
    reference = f"{SCORES.to_user_string()}/{key}"
    run = recipes.storage.read_reference(reference, ExperimentReference)
    policy, file = Path(run.policy.path), recorded_file(chosen.experiments, key)
    assert file is not None
    manifest = json.loads((policy / "lineage.json").read_text())
    manifest["request"]["overrides"] = overrides
    manifest["request"].update(changes)
    (policy / "lineage.json").write_text(json.dumps(manifest))
    tables = read_scores({benchmark: score.file for benchmark, score in run.policy.scores.items()})
    problems = {benchmark: score.problems for benchmark, score in run.policy.scores.items()}
    record_run(file, policy=policy, metrics=Path(run.metrics), problems=problems, tables=tables)
    recipes.storage.reference_file(reference).unlink()
    shutil.rmtree(policy)
    return file


def test_recorded_runs_make_the_same_tables_as_those_of_the_storage(here: Recipes, tmp_path: Path):
    for name, accuracy in (("luffy", 0.9), ("on_policy", 0.1)):
        here.recipe(name, **{**GOOD, "arithmetic": accuracy})
    assert compare(here).success
    before = here.project.metadata("experiments/comparison")
    record(here, tmp_path, "luffy")
    record(here, tmp_path, "on_policy")
    shutil.rmtree(Path(before["file"]).parent)
    assert compare(here).success
    shown = here.project.metadata("experiments/comparison")
    assert shown["scores"] == before["scores"] and shown["left out"] == "none"
    page = Path(shown["file"])
    assert (page.parent / "reward_on_policy.svg").is_file()
    assert page.read_text(encoding="utf-8").count(">c0ffee<") == 2


def test_a_run_with_other_settings_or_inputs_is_not_taken(here: Recipes, tmp_path: Path):
    chosen = settings(tmp_path)
    here.recipe("luffy", **GOOD)
    record(here, tmp_path, "luffy")
    key = partition("luffy", 0)
    assert isinstance(PRESENT.recorded(chosen.experiments, chosen.training, key), RecordedRun)
    assert PRESENT.recorded(chosen.experiments, chosen.training, partition("sft", 0)) == ""
    longer = settings(tmp_path, LUFFY__TRAINING__OVERRIDES='["trainer.total_training_steps=7"]')
    assert "its settings in " in str(PRESENT.recorded(longer.experiments, longer.training, key))
    for changes, said in (
        ({"train": "u" * 64}, "its targets have changed"),
        ({"base": "c" * 64}, "its base model has changed"),
        ({"problems": {"arithmetic": "other"}}, "its problems have changed"),
    ):
        others = Inputs(**{**vars(PRESENT), **changes})
        assert others.recorded(chosen.experiments, chosen.training, key) == said


def test_a_recorded_run_of_another_recipe_is_left_out_by_name(here: Recipes, tmp_path: Path):
    for name in ("luffy", "on_policy", "sft"):
        here.recipe(name, **GOOD)
    record(here, tmp_path, "sft", recipe="luffy")
    assert compare(here).success
    assert "its settings in " in here.project.metadata("experiments/comparison")["left out"]


def test_a_damaged_file_is_named(here: Recipes, tmp_path: Path):
    for name in ("luffy", "on_policy"):
        here.recipe(name, **GOOD)
    file = record(here, tmp_path, "luffy")
    file.write_bytes(file.read_bytes()[:-9])
    assert f"{file}: not a recorded run" in message(compare(here))
    chosen = settings(tmp_path)
    with pytest.raises(InputError, match="not a recorded run"):
        PRESENT.recorded(chosen.experiments, chosen.training, partition("luffy", 0))


def test_the_index_lists_every_recorded_run_by_its_digest():
    folder = PROJECT / "results" / "runs"
    with (folder / INDEX).open(newline="") as handle:
        listed = list(csv.DictReader(handle))
    advice = "write it with: .venv/bin/python -m evaluation.recorded_run results/runs"
    assert {(row["digest"], f"{row['profile']}/{row['name']}-{row['seed']}.zip") for row in listed} == {
        (digest_file(file), file.relative_to(folder).as_posix()) for file in folder.glob("*/*.zip")
    }, advice


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["comparison", "drift", "products", "words"])
def test_every_recorded_run_has_the_settings_of_its_profile_and_metrics_of_the_table(profile: str):
    chosen, found = settings_of(LUFFY_PROFILE=profile), set()
    for name in chosen.experiments.names():
        for seed in seeds(chosen.experiments, chosen.training):
            file = recorded_file(chosen.experiments, partition(name, seed))
            assert file is not None
            if file.exists():
                run = read_run(file)
                inputs = Inputs(run.manifest.targets.digest, run.manifest.base_model.digest, run.problems)
                recorded = inputs.recorded(chosen.experiments, chosen.training, partition(name, seed))
                assert isinstance(recorded, RecordedRun), f"{file}: {recorded}"
                assert not [key for record in run.metrics for key in record["data"] if metric_of(key) is None]
                found.add(file)
    assert found == set((PROJECT / "results" / "runs" / profile).glob("*.zip"))


def test_an_index_names_recipe_and_seed_and_needs_runs(here: Recipes, tmp_path: Path):
    here.recipe("luffy", **GOOD)
    file = record(here, tmp_path, "luffy")
    (tmp_path / "recorded").mkdir()
    shutil.move(file.parent, tmp_path / "recorded" / "mine")
    assert main([str(tmp_path / "recorded")]) == 0
    (row,) = csv.DictReader((tmp_path / "recorded" / INDEX).read_text().splitlines())
    assert (row["profile"], row["name"], row["recipe"], row["seed"]) == ("mine", "luffy", "luffy", "0")
    assert row["digest"] == digest_file(tmp_path / "recorded" / "mine" / file.name)
    with pytest.raises(InputError, match=r"usage: .* FOLDER"):
        main([str(tmp_path / "recorded" / "mine")])


def test_a_folder_of_runs_that_is_a_file_is_refused_before_anything_runs(tmp_path: Path):
    (tmp_path / "runs").write_text("no folder")
    chosen = settings(tmp_path)
    with pytest.raises(InputError, match=r"experiments\.runs: .*/runs is a file; expected a folder"):
        PRESENT.recorded(chosen.experiments, chosen.training, partition("luffy", 0))


@pytest.mark.parametrize(
    ("name", "suite", "only", "limit"),
    [
        ("comparison", "comparison", None, None),
        ("products", "products", None, None),
        ("drift", "embedded", ["arithmetic"], 100),
    ],
)
def test_recorded_runs_have_the_problems_of_the_suites(
    name: str, suite: str, only: list[str] | None, limit: int | None
) -> None:
    """A run that is recorded is compared with new ones only if the digests of their problems are equal."""
    problems = problem_digests(read_suite(select_benchmarks(suite, only), [], limit=limit))
    for file in sorted((PROJECT / "results/runs" / name).glob("*.zip")):
        assert read_run(file).problems == problems, file.name
