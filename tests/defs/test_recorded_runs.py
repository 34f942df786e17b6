"""Runs that another machine made: they are compared like those of the storage, unless something of them differs."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from assets.experiments.runs import SCORES, Inputs, partition, recorded_file, seeds, training_of
from assets.shared.references import ExperimentReference
from core import PROJECT
from core.errors import InputError
from core.files import digest_file
from core.metric_table import metric_of
from core.model.lineage_file import MANIFEST
from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.benchmarks.suite import select_benchmarks
from evaluation.recheck import compare_runs, steps_that_agree
from evaluation.recorded_run import INDEX, RecordedRun, main, read_run, record_run
from evaluation.sample_tables import problem_digests, read_scores
from pipelines.cli.remake import request_settings
from tests.defs.project import message, settings_of
from tests.defs.test_experiments import Recipes, compare
from tests.defs.written_scores import BENCHMARKS, GOOD
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
    folder = PROJECT / "research" / "runs"
    with (folder / INDEX).open(newline="") as handle:
        listed = list(csv.DictReader(handle))
    advice = "write it with: .venv/bin/python -m evaluation.recorded_run research/runs"
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
    assert found == set((PROJECT / "research" / "runs" / profile).glob("*.zip"))


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
    for file in sorted((PROJECT / "research/runs" / name).glob("*.zip")):
        assert read_run(file).problems == problems, file.name


@pytest.mark.parametrize("file", ["comparison/sft_rl-0.zip", "comparison/chord_mu-1.zip", "words/luffy-0.zip"])
def test_a_run_is_made_again_from_what_it_records_alone(file: str, tmp_path: Path) -> None:
    path = PROJECT / "research" / "runs" / file
    run = read_run(path)
    request, manifest = run.manifest.request, run.manifest
    variables = {}
    for setting in request_settings(path, request, None, tmp_path):
        key, _, value = setting.partition("=")
        variables[f"LUFFY__{key}".upper().replace(".", "__")] = value
    chosen, key = settings_of(LUFFY_PROFILE=path.parent.name, **variables), partition(request.recipe, request.seed)
    inputs = Inputs(manifest.targets.digest, manifest.base_model.digest, run.problems)
    assert inputs.fault(run, path, training_of(chosen.experiments, chosen.training, key)) == ""
    assert seeds(chosen.experiments, chosen.training) == [request.seed]
    assert recorded_file(chosen.experiments, key) == tmp_path / f"{request.recipe}-{request.seed}.zip"
    assert chosen.storage.root == str(tmp_path / "storage")


def test_a_run_of_a_recipe_from_outside_needs_its_file(tmp_path: Path) -> None:
    run = read_run(PROJECT / "research" / "runs" / "comparison" / "sft-0.zip")
    request = run.manifest.request.model_copy(update={"recipe": "mine"})
    with pytest.raises(InputError, match=r"its recipe mine is not of this project: give its file, --recipe mine\.yaml"):
        request_settings(tmp_path / "mine-0.zip", request, None, tmp_path)
    settings = request_settings(tmp_path / "mine-0.zip", request, "mine.yaml", tmp_path)
    assert f'experiments.variants={{"mine": {{"recipe": "{Path.cwd()}/mine.yaml"}}}}' in settings


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_recorded_run_is_made_again_and_a_forged_response_and_curve_are_found(
    training_interpreter: Path, tmp_path: Path
) -> None:
    honest = read_run(PROJECT / "research" / "runs" / "comparison" / "sft-0.zip")
    name, table = next(iter(honest.tables.items()))
    rows = table.to_pylist()
    wrong = next(row for row in rows if row["verdict"] == "wrong")
    answer = f"<think>\n</think>\n\n\\boxed{{{wrong['gold']}}}"
    wrong |= {"response": answer, "extracted": wrong["gold"], "verdict": "correct", "score": 1.0}
    forged = {**honest.tables, name: pa.Table.from_pylist(rows, table.schema)}
    records = [{"step": r["step"], "data": {**r["data"], "actor/sft_loss": 0.5}} for r in honest.metrics]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(record)}\n" for record in records))
    (tmp_path / MANIFEST).write_text(json.dumps(honest.manifest.to_json()))
    file = tmp_path / "sft-0.zip"
    record_run(file, policy=tmp_path, metrics=tmp_path / "metrics.jsonl", problems=honest.problems, tables=forged)
    command = [sys.executable, "-m", "pipelines.cli.luffy", "remake", str(file), "--out", str(tmp_path / "remade")]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    said = done.stdout.splitlines()
    assert "responses: 1 of 500 differ" in said and "verdicts: 1 of 500 differ" in said
    assert "the first 0 of 120 steps agree within 1%: docs/plugins.md says what follows" in said
    remade = tmp_path / "remade" / "sft-0.zip"
    _, _, responses, verdicts = compare_runs(honest, read_run(remade))
    assert not responses.differences and not verdicts.differences
    assert steps_that_agree(honest, read_run(remade)) == 120


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_with_rollouts_is_made_again_on_the_same_machine_with_the_same_digest(
    training_interpreter: Path, tmp_path: Path
) -> None:
    settings = {
        "targets.embedded_rows": 400,
        "benchmarks.limit": 20,
        "training.overrides": [
            "data.train_batch_size=8",
            "data.max_prompt_length=64",
            "data.max_response_length=144",
            "actor_rollout_ref.rollout.n=4",
            "actor_rollout_ref.actor.optim.lr=1e-4",
            "trainer.total_training_steps=6",
            "trainer.save_freq=6",
        ],
    }
    own = {"experiments.runs": str(tmp_path), "storage.root": str(tmp_path / "storage")}

    def luffy(command: list[str], chosen: dict) -> str:
        variables = {**os.environ, "DAGSTER_HOME": str(tmp_path / "home")}
        more = [part for key, value in chosen.items() for part in ("--set", f"{key}={json.dumps(value)}")]
        command = [sys.executable, "-m", "pipelines.cli.luffy", *command, *more]
        done = subprocess.run(command, cwd=PROJECT, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    luffy(["compare", "luffy", "on_policy", "--seeds", "1"], settings | own)
    again = ["remake", str(tmp_path / "luffy-0.zip"), "--out", str(tmp_path / "remade")]
    said = luffy(again, {key: value for key, value in settings.items() if not key.startswith("training")})
    assert "the first 6 of 6 steps agree" in said
    first, second = read_run(tmp_path / "luffy-0.zip"), read_run(tmp_path / "remade" / "luffy-0.zip")
    assert first.manifest.checkpoint_digest == second.manifest.checkpoint_digest
    assert [check.differences for check in compare_runs(first, second)] == [[]] * 4
