"""``luffy experiments``, ``compare``, ``drift``, ``words``: train and score recipes, then compare them on one page.

Each recipe and seed is a run, one after the other, in the instance that ``luffy ui`` shows. A backfill of
experiments/policy and experiments/scores in the UI does the same. Complete runs are reused, so an interrupted command
continues where it stopped. Runs that are recorded in `experiments.runs` are not made again.

``luffy leaderboard`` ranks every checkpoint that was evaluated. Models are evaluated first, on the suite and with the
sampling of the profile.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.references import Reference
from assets.shared.storage import Storage
from core import PROJECT
from core.errors import InputError, did_you_mean
from core.files import atomic_write, write_json
from core.machine.interruptible import INTERRUPTED
from core.machine.request_paths import writable_folder
from core.plugins.config_files import RECIPES, config_file, is_path, recipe_name
from core.progress import Terminal
from evaluation.command_requests import CompareRequest
from evaluation.recorded_run import RecordedRun
from evaluation.report.leaderboard import leaderboard_text, rank_folder
from pipelines.cli.run import configure, execute, load_definitions, resource
from pipelines.cli.terminal import LINE_SECONDS
from pipelines.definitions.instance import prepare_home
from pipelines.definitions.jobs import COMPARE, EVERYTHING, EXPERIMENT, OBSERVE, PREPARE
from pipelines.definitions.orphans import end_dead_runs
from pipelines.definitions.profile_settings import Settings, load_settings
from pipelines.training_check import check_trainings
from pipelines.variables import PREFIX, environment

if TYPE_CHECKING:
    from assets.experiments.runs import Inputs

WORDS = ("word_problems_train.jsonl", "svamp_test.jsonl")


def run_experiments(
    recipes: Sequence[str], profile: str | None, overrides: Sequence[str], copy_to: Path | None = None
) -> int:
    """Train and score recipes, and compare them on one page; the exit status.

    Args:
        recipes: Files of training/config/recipe, variants of the profile, or paths of recipes. If empty, the profile
            names them.
        profile: Name or file of a profile.
        overrides: Each is ``SECTION.KEY=VALUE``.
        copy_to: Also copy the tables and figures to this folder.
    """
    copy_to = copy_to and copy_to.absolute()
    if copy_to:
        writable_folder(copy_to)
    configure(profile, overrides, _variants(recipes), "RECIPE")
    recipes = [recipe_name(recipe) for recipe in recipes]
    prepare_home()  # in the user's folder, where a relative DAGSTER_HOME starts
    os.chdir(PROJECT)
    from assets.evals.scores import key as base_scores
    from assets.experiments.comparison import COMPARISON, DRIFT, PAGE
    from assets.experiments.runs import Inputs

    defs, settings = load_definitions(), load_settings()
    names = settings.experiments.names()
    recipes = list(dict.fromkeys(recipes or settings.experiments.trained()))
    if unknown := sorted(set(recipes) - set(names)):
        guess = did_you_mean(unknown[0], names) or ":"
        raise InputError(f"unknown recipe {', '.join(unknown)}{guess} expected names among {', '.join(names)}")
    check_trainings(settings, resource(defs, "interpreter").examined(), recipes)
    base = [base_scores(benchmark, "base") for benchmark in settings.benchmark_suite()]
    terminal = Terminal(every_s=LINE_SECONDS)
    with dg.DagsterInstance.get() as instance:
        end_dead_runs(instance)
        for job, keys in ((OBSERVE, None), (PREPARE, None), (EVERYTHING, base)):
            if status := execute(instance, job, terminal, keys=keys):
                return status
        storage = resource(defs, "storage")
        train_status = run_partitions(instance, terminal, settings, recipes, Inputs.present(storage))
        if train_status == INTERRUPTED:
            return train_status
        if status := execute(instance, COMPARE, terminal):
            return status
    folder = Path(storage.read_reference(COMPARISON.to_user_string(), Reference).path)
    if copy_to:
        copy_files(folder / DRIFT if (folder / DRIFT).is_dir() else folder, copy_to, leave_out=PAGE)
    terminal.line(f"\ncomparison: {folder}/{PAGE}")
    return train_status


def _variants(recipes: Sequence[str]) -> list[str]:
    """Return the setting that adds those of ``recipes`` that are files.

    Raises:
        InputError: one does not exist, or two have the same name.
    """
    files = dict.fromkeys(Path(recipe).absolute() for recipe in recipes if is_path(recipe))
    own = {file.stem: {"recipe": str(file)} for file in files}
    if twice := [file for file in files if own[file.stem]["recipe"] != str(file)]:
        raise InputError(
            f"two recipes are called {twice[0].stem}: {', '.join(map(str, files))}; rename one of the files"
        )
    for file in files:
        config_file(RECIPES, str(file))
    return [f"experiments.variants={json.dumps(own)}"] if own else []


def run_partitions(
    instance: dg.DagsterInstance, terminal: Terminal, settings: Settings, recipes: Sequence[str], inputs: "Inputs"
) -> int:
    """Train and score ``recipes`` with every seed that is not recorded; return `INTERRUPTED`, 1 if any failed, or 0."""
    from assets.experiments.runs import partition, seeds

    partitions = [
        partition(recipe, seed)
        for number, seed in enumerate(seeds(settings.experiments, settings.training))
        for recipe in recipes
        if number < settings.experiments.seeds_of(recipe)
    ]
    failed = False
    for number, key in enumerate(partitions, 1):
        named = key.keys_by_dimension
        shown = f"run {number} of {len(partitions)}: {', '.join(f'{k} {v}' for k, v in named.items())}"
        recorded = inputs.recorded(settings.experiments, settings.training, key)
        if isinstance(recorded, RecordedRun):
            terminal.line(f"{shown}: {recorded}")
            continue
        terminal.line(f"{shown}; it is recorded, but {recorded}" if recorded else shown)
        status = run_partition(instance, terminal, key)
        if status == INTERRUPTED:
            return status
        failed |= status != 0
    return int(failed)


def copy_files(source: Path, target: Path, leave_out: str) -> None:
    """Copy the files of a folder; a file appears in full or not at all."""
    for file in sorted(source.iterdir()):
        if file.name != leave_out:
            with atomic_write(target / file.name) as temporary:
                shutil.copyfile(file, temporary)


def run_partition(instance: dg.DagsterInstance, terminal: Terminal, key: dg.MultiPartitionKey) -> int:
    """Train and score the recipe and seed of a partition; return the exit status."""
    named = {f"dagster/partition/{name}": value for name, value in key.keys_by_dimension.items()}
    return execute(instance, EXPERIMENT, terminal, more_tags={"dagster/partition": str(key), **named})


def word_problems(data: Path | None, model: str | None, overrides: Sequence[str] = ()) -> list[str]:
    """Return the settings of the profile ``words`` for the problems in a folder and for another base model.

    Raises:
        InputError: a file of the problems is missing, or no option says where they are.
    """
    settings: dict[str, Any] = {} if model is None else {"model.source": model}
    if data is None:
        given = f"{PREFIX}TARGETS__SOURCE" in environment() or any(
            text.startswith("targets.source=") for text in overrides
        )
        if not given and not any((folder / WORDS[0]).is_file() for folder in (Path(), PROJECT)):
            raise InputError(
                f"--data: expected the folder of {' and '.join(WORDS)}; docs/results/words.md says where to get them"
            )
    else:
        for name in WORDS:
            if not (data / name).is_file():
                raise InputError(
                    f"--data {data}: no {name} there: give the folder of the problems; see docs/results/words.md"
                )
        settings |= {"targets.source": [str(data / WORDS[0])], "benchmarks.roots": [str(data)]}
    return [f"{name}={json.dumps(value)}" for name, value in settings.items()]


def rank(models: Sequence[str], profile: str | None, overrides: Sequence[str]) -> int:
    """Evaluate ``models``, rank every checkpoint that was evaluated, and return the exit status."""
    if graded := [model for model in models if any(Path(model).glob("*.parquet"))]:
        raise InputError(
            f"{graded[0]}: a folder of graded results; expected models to evaluate: rank the results by luffy evaluate "
            f"leaderboard --results {graded[0]}"
        )
    configure(profile, overrides)
    settings = load_settings()
    results = Storage(root=settings.storage.root).path / "graded"
    if models:
        python = TrainingInterpreter(python=settings.interpreter.python).executable()
        with tempfile.TemporaryDirectory() as folder:
            file = comparison(settings, models, results, Path(folder)).write(Path(folder) / "request.json")
            command = [python, "-m", "evaluation", "compare", "--request", file]
            done = subprocess.run(command, cwd=PROJECT, check=False)
        if done.returncode:
            return done.returncode
    sys.stdout.write(f"{leaderboard_text(rank_folder(results))}\n")
    return 0


def comparison(settings: Settings, models: Sequence[str], results: Path, folder: Path) -> CompareRequest:
    """Build the request that evaluates ``models`` as the settings say, on the benchmarks in ``folder``."""
    suite = folder / "suite.yaml"
    write_json({"benchmarks": [entry.model_dump(mode="json") for entry in settings.benchmark_suite()]}, suite)
    sampling = settings.evaluation.fixed().model_dump(
        include={"samples", "temperature", "top_p", "max_tokens", "template"}
    )
    return CompareRequest(
        models=tuple(models),
        suite=str(suite),
        roots=tuple(root for name in settings.benchmarks.roots if (root := PROJECT / Path(name).expanduser()).is_dir()),
        limit=settings.benchmarks.limit,
        out=results,
        **sampling,
    )
