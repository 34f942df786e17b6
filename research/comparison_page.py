"""Write the page of a comparison from its recorded runs."""

from collections.abc import Mapping
from pathlib import Path

from core.code_digest import SHORT_DIGEST
from core.errors import InputError
from core.files import atomic_folder
from core.metric_table import MEMORY
from pipelines import api
from research.comparison_file import ComparisonFile
from research.drift import drift_report
from research.recipe_comparison import PEAK, Comparison, Recipe, Run, compare_recipes
from research.recipe_selection import select_recipes
from research.recorded_run import RecordedRun, read_run
from research.trials import BASE, SUITE

PAGE, DRIFT = "comparison.html", "drift"


def write_page(comparison: ComparisonFile, runs: Path, out: Path, seeds: int | None = None) -> Path:
    """Write page, tables and figures of the recorded ``runs`` into the folder ``out``, and return the page's path.

    ``seeds``: how many of each recipe it has, if there are as many. None: as many as the file says.

    Variants with stale rollouts have a report of their own in the folder ``drift``.

    Raises:
        InputError: there are fewer than two recipes to compare, or runs of different inputs.
    """
    trained = recorded_recipes(comparison, runs, seeds)
    compared = _compare(comparison, trained, runs)
    drift = drift_report([recipe for recipe in trained if recipe.name in comparison.variants])
    with atomic_folder(out, replace=True) as temporary:
        compared.write(temporary, PAGE)
        if drift is not None:
            drift.write(temporary / DRIFT)
    return out / PAGE


def recorded_recipes(comparison: ComparisonFile, runs: Path, seeds: int | None = None) -> list[Recipe]:
    """Return the recorded recipes and variants with one run per seed: recipes by name, then the file's variants.

    Raises:
        InputError: a run has other targets, base model or problems than the first one, or seeds other settings.
    """
    by_name: dict[str, list[tuple[Path, RecordedRun]]] = {}
    for file in sorted(runs.glob("*.zip")):
        name, _, seed = file.stem.rpartition("-")
        if int(seed) < (seeds or comparison.seeds_of(name)):
            by_name.setdefault(name, []).append((file, read_run(file)))
    last = list(comparison.variants)
    names = sorted(by_name, key=lambda name: (last.index(name) if name in last else -1, name))
    first = by_name[names[0]][0][1] if names else None
    recipes = []
    for name in names:
        made = sorted(by_name[name], key=lambda pair: pair[1].manifest.request.seed)
        for file, run in made:
            if first is not None and _inputs(run) != _inputs(first):
                raise InputError(f"{file}: its targets, base model or problems differ from the other runs")
            if run.manifest.code.number != made[0][1].manifest.code.number:
                raise InputError(f"{file}: other code made it than {made[0][0].name}, with another number of policies")
            if _settings(run) != _settings(made[0][1]):
                raise InputError(f"{file}: its settings differ from {made[0][0].name}: make one of them again")
        recipes.append(Recipe(name, tuple(_to_compare(run) for _, run in made)))
    return recipes


def _inputs(run: RecordedRun) -> tuple[str, str, Mapping[str, str]]:
    return run.manifest.targets.digest, run.manifest.base_model.digest, run.problems


def _settings(run: RecordedRun) -> tuple[str, str, tuple[str, ...]]:
    request = run.manifest.request
    return request.recipe, request.hardware, request.overrides


def _compare(comparison: ComparisonFile, trained: list[Recipe], runs: Path) -> Comparison:
    """Compare recipes and the base model with the baseline, or with the first recipe if there is no such run."""
    selection = select_recipes(trained)
    base = api.read_folder(runs / BASE, "graded") if (runs / BASE).is_dir() else None
    untrained = [Recipe(BASE, (Run(api.recorded(next(iter(base.values())), "checkpoint"), base),))] if base else []
    recipes = [*selection.recipes, *untrained]
    if not selection.recipes or len(recipes) < 2:
        raise InputError(f"{runs}: expected the recorded runs of a recipe and of another one, got {len(recipes)}")
    settings = api.load(comparison.profile)
    rows = []
    if (runs / SUITE).is_file():
        rows = api.read_suite_file(runs / SUITE).select(["benchmark", "id", "problem"]).to_pylist()
    names = [recipe.name for recipe in selection.recipes]
    return compare_recipes(
        recipes,
        baseline=comparison.baseline if comparison.baseline in names else names[0],
        suite=settings.suite.entries(),
        notes=[*selection.notes, *selection.left_out],
        problems={(row["benchmark"], row["id"]): row["problem"] for row in rows},
        answering=settings.training.recipe,
    )


def _to_compare(run: RecordedRun) -> Run:
    manifest, request = run.manifest, run.manifest.request
    generated = sum(record["data"].get("batch/generated_tokens", 0) for record in run.metrics)
    peaks = [record["data"][MEMORY] for record in run.metrics if MEMORY in record["data"]]
    costs = {"minutes": 60 * manifest.device_hours, "generated tokens": float(generated)}
    facts = {
        "steps": manifest.steps,
        "seed": request.seed,
        "hardware": request.hardware,
        "settings": ", ".join(request.overrides),
        "generated tokens": f"{generated:,.0f}",
        "minutes": f"{costs['minutes']:.1f}",
        PEAK: f"{max(peaks):.1f}" if peaks else "",
        "targets": manifest.targets.digest[:SHORT_DIGEST],
        "base": manifest.base_model.digest[:SHORT_DIGEST],
        "commit": (manifest.code.commit or "")[:SHORT_DIGEST],
    }
    return Run(manifest.checkpoint_digest, run.tables, run.metrics, facts, manifest.config, request.seed, costs)
