"""The assets experiments/policy and experiments/scores, one partition per run, and experiments/comparison.

The recipes are the files of ``training/config/recipe`` and the variants that the profile names. They are trained and
scored like training/policy and evals/*, so policies and samples are reused between the two.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.evals.scores import check_policy, generate, grade
from assets.experiments.runs import SCORES, Inputs, base_run, partition, partitions, recorded_file, seeds
from assets.models import KEY as BASE
from assets.shared.column_lineage import column_lineage, graded_columns
from assets.shared.experiment_options import ExperimentOptions
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.live_metrics import metrics_spec
from assets.shared.metadata import bullets, columns, rounded
from assets.shared.profile import Names, Profile, profile_asset
from assets.shared.references import (
    ExperimentReference,
    ModelReference,
    PolicyReference,
    Reference,
    SuiteReference,
)
from assets.shared.stage_options import EvaluationOptions, TrainingOptions
from assets.shared.storage import Storage
from assets.training import policy
from core import kinds
from core.code_digest import identity
from core.errors import InputError
from core.files import digest_table
from evaluation.benchmarks.suite import Benchmark
from evaluation.promotion.records import Checkpoint, ScoreFile
from evaluation.recorded_run import record_run

if TYPE_CHECKING:
    import pyarrow as pa

    from evaluation.report.recipe_comparison import Comparison, Recipe

GROUP = "experiments"
POLICY = dg.AssetKey([GROUP, "policy"])
COMPARISON = dg.AssetKey([GROUP, "comparison"])
PAGE, DRIFT = "experiments.html", "drift"  # the folder of the report on variants of stale rollouts
UNTRAINED = "base"


def build_experiments(
    names: Names,
    suite: Sequence[Benchmark],
    options: ExperimentOptions,
    training: TrainingOptions,
    evaluation: EvaluationOptions,
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Build the assets of all recipes, which share the options ``training`` and ``evaluation``."""
    runs = partitions(options, training)
    return [
        policy.build(names, training, key=POLICY, group_name=GROUP, partitions_def=runs),
        metrics_spec(names, POLICY),
        scores.build(names, evaluation, partitions_def=runs),
        comparison.build(
            names,
            description="One page that compares the recipes trained on the current targets and base model: curves "
            "on one axis, scores with intervals over problems and seeds, and paired differences, starting with those "
            f"from {options.baseline} (or from the first recipe if {options.baseline} has no scores).",
        ),
    ]


@profile_asset(
    key=SCORES,
    group_name=GROUP,
    kinds={"vllm"},
    pool="gpu",
    code_version=kinds.GRADED.code_version,
    ins={"policy": dg.AssetIn(POLICY), "problems": dg.AssetIn(SUITE)},
    description="The scores of the recipe's policy on every benchmark, in domain and out of domain.",
)
def scores(
    context: dg.AssetExecutionContext,
    config: EvaluationOptions,
    profile: dg.ResourceParam[Profile],
    policy: PolicyReference,
    problems: SuiteReference,
    storage: Storage,
    interpreter: TrainingInterpreter,
) -> dg.MaterializeResult[ExperimentReference]:
    import pyarrow.parquet as pq

    from evaluation.sample_tables import read_suite_file

    names = [benchmark.name for benchmark in profile.suite]
    check_policy(policy)
    options = config.fixed()
    samples = generate(context, names, policy, problems, options, storage, interpreter)
    graded = grade(context, samples, read_suite_file(Path(problems.path)), options, storage)
    tables = {name: pq.read_table(file) for name, file in graded.items()}
    digests = {name: problems.digests[name] for name in names}
    key = context.partition_key if context.has_partition_key else None  # None: of a round
    if isinstance(key, dg.MultiPartitionKey) and (recorded := recorded_file(profile.experiments, key)):
        metrics = Path(policy.metrics)
        record_run(recorded, policy=Path(policy.path), metrics=metrics, problems=digests, tables=tables)
    files = {name: ScoreFile(file=str(file), problems=digests[name]) for name, file in graded.items()}
    reference = ExperimentReference(
        path=str(storage.path / "graded"),
        digest=identity([[name, digest_table(table)] for name, table in tables.items()], policy.digest),
        policy=Checkpoint(path=policy.path, digest=policy.digest, scores=files),
        metrics=policy.metrics,
        samples={name: str(file) for name, file in samples.items()},
    )
    return _scores_result(context, profile.names, reference, tables)


def _scores_result(
    context: dg.AssetExecutionContext,
    names: Names,
    reference: ExperimentReference,
    tables: "Mapping[str, pa.Table]",
) -> dg.MaterializeResult[ExperimentReference]:
    """Return the GRADED ``tables`` of a policy by benchmark, with the metadata that the UI shows."""
    from evaluation.statistics.benchmark_scores import summarize

    summaries = {name: summarize(table) for name, table in tables.items()}
    context.log.info(", ".join(f"{name} {summary.mean:.1%}" for name, summary in summaries.items()))
    return reference.result(
        {
            **{name: rounded(summary.mean) for name, summary in summaries.items()},
            **{f"{name} low": rounded(summary.low) for name, summary in summaries.items()},
            **{f"{name} high": rounded(summary.high) for name, summary in summaries.items()},
            "policy checkpoint": reference.policy.digest,
            "dagster/row_count": sum(table.num_rows for table in tables.values()),
            "dagster/column_schema": columns(next(iter(tables.values())).schema),
            "dagster/column_lineage": column_lineage(names, graded_columns(SUITE)),
        },
    )


@profile_asset(
    key=COMPARISON,
    group_name=GROUP,
    kinds={"html"},
    code_version=kinds.GRADED.code_version,
    deps=[SCORES],
)
def comparison(
    context: dg.AssetExecutionContext, profile: dg.ResourceParam[Profile], storage: Storage
) -> dg.MaterializeResult[Reference]:
    from evaluation.report.recipe_comparison import Recipe
    from evaluation.report.recipe_selection import select_recipes

    base = storage.read_reference(BASE.to_user_string(), ModelReference)
    problems = storage.read_reference(SUITE.to_user_string(), SuiteReference)
    trained, faults = _trained(storage, profile, Inputs.present(storage))
    selection = select_recipes(trained)
    left_out = [*faults, *selection.left_out]
    untrained = base_run(storage, profile.suite, base, problems)
    recipes = [*selection.recipes, *([Recipe(UNTRAINED, (untrained,))] if untrained else [])]
    if not selection.recipes or len(recipes) < 2:
        raise InputError(
            f"{COMPARISON.to_user_string()}: expected a recipe and another one, or the scores of the base model, to "
            f"compare, got {len(recipes)}; "
            + "; ".join(left_out or ["launch a backfill of experiments/policy and experiments/scores first"])
        )
    compared = _compare(profile, recipes, [*selection.notes, *left_out], problems)
    runs = [[recipe.name, *(run.checkpoint for run in recipe.runs)] for recipe in [*trained, *recipes]]
    settings = [compared.recipes[0].name, profile.training.recipe, [*selection.notes], left_out]
    digest = kinds.GRADED.identity(runs, sorted(recipes[0].runs[0].tables), *settings)
    folder = storage.result(GROUP, "comparison", digest)
    if not storage.has(folder, kinds.GRADED, context.log):
        with storage.writing(folder, kinds.GRADED) as temporary:
            compared.write(temporary, PAGE)
            _write_drift([recipe for recipe in trained if recipe.name in profile.experiments.variants], temporary)
    names = [recipe.name for recipe in selection.recipes]
    context.log.info(f"{len(names)} recipes: {', '.join(names)}")
    return _comparison_result(storage, Reference(path=str(folder), digest=digest), compared, len(names), left_out)


def _comparison_result(
    storage: Storage, reference: Reference, compared: "Comparison", recipes: int, left_out: Sequence[str]
) -> dg.MaterializeResult[Reference]:
    """Return the page of a comparison; ``left_out`` explains why other recipes and runs are not on it."""
    page = Path(reference.path) / PAGE
    return reference.result(
        {
            "page": storage.link(page),
            "file": dg.MetadataValue.path(str(page)),
            "scores": dg.MetadataValue.md(compared.to_markdown()),
            "recipes": recipes,
            "left out": bullets(left_out),
        },
    )


def _trained(storage: Storage, profile: Profile, inputs: Inputs) -> "tuple[list[Recipe], list[str]]":
    """Find the recipes that have comparable runs, and the reasons why other runs are left out."""
    from evaluation.report.recipe_comparison import Recipe

    options, training = profile.experiments, profile.training
    recipes: list[Recipe] = []
    faults: dict[tuple[str, str], list[int]] = {}
    for name in options.names():
        runs = []
        for seed in seeds(options, training):
            run = inputs.read(storage, options, training, partition(name, seed))
            if not isinstance(run, str):
                runs.append(run)
            elif run:
                faults.setdefault((name, run), []).append(seed)
        recipes += [Recipe(name, tuple(runs))] if runs else []
    return recipes, [
        f"{name} with seed {', '.join(map(str, found))} is left out because {fault}; materialize it again"
        for (name, fault), found in faults.items()
    ]


def _compare(
    profile: Profile, recipes: "Sequence[Recipe]", notes: Sequence[str], problems: SuiteReference
) -> "Comparison":
    """Compare ``recipes`` with the profile's baseline, or with the first of them if the baseline has no scores."""
    from evaluation.report.recipe_comparison import compare_recipes
    from evaluation.sample_tables import read_suite_file

    rows = read_suite_file(Path(problems.path)).select(["benchmark", "id", "problem"]).to_pylist()
    names = [recipe.name for recipe in recipes if recipe.name != UNTRAINED]
    baseline = profile.experiments.baseline
    return compare_recipes(
        recipes,
        baseline=baseline if baseline in names else names[0],
        suite=profile.suite,
        notes=notes,
        problems={(row["benchmark"], row["id"]): row["problem"] for row in rows},
        answering=profile.training.recipe,
    )


def _write_drift(variants: "Sequence[Recipe]", folder: Path) -> None:
    """Write the report on variants with stale rollouts, if there are any."""
    from evaluation.report.drift import drift_report

    if (report := drift_report(variants)) is not None:
        report.write(folder / DRIFT)
