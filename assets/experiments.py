"""experiments/policy and experiments/scores, one partition per recipe and seed, and experiments/comparison.

The recipes are the files of ``training/config/recipe`` and the variants that the profile names. They are trained and
scored like training/policy and evals/*, so policies and samples are reused between the two.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.evals import check_policy, generate, grade
from assets.evals import key as base_scores
from assets.experiment_runs import (
    RECIPE,
    SCORES,
    SEED,
    Inputs,
    base_run,
    partition,
    recorded_file,
    seeds,
    training_of,
)
from assets.models import KEY as BASE
from assets.shared.column_lineage import column_lineage, graded_columns
from assets.shared.experiment_options import ExperimentOptions
from assets.shared.failures import reports_input_errors
from assets.shared.interpreter import TrainingInterpreter
from assets.shared.metadata import cell, columns, rounded
from assets.shared.options import EvaluationOptions, TrainingOptions, with_defaults
from assets.shared.references import (
    ExperimentReference,
    ModelReference,
    PolicyReference,
    Reference,
    SuiteReference,
    TrainReference,
)
from assets.shared.storage import Storage
from assets.targets import TRAIN
from assets.training import build_policy, metrics_spec
from core.code_digest import GENERATION_CODE, GRADING_CODE, code_version, identity
from core.errors import InputError
from evaluation.benchmarks.suite import Benchmark
from evaluation.promotion.champions import Checkpoint, ScoreFile
from evaluation.recorded_run import record_run

GROUP = "experiments"
POLICY = dg.AssetKey([GROUP, "policy"])
COMPARISON = dg.AssetKey([GROUP, "comparison"])
PAGE, DRIFT = "experiments.html", "drift"  # the folder of the report on variants of stale rollouts
UNTRAINED = "base"


def build_experiments(
    suite: Sequence[Benchmark],
    options: ExperimentOptions,
    training: TrainingOptions,
    evaluation: EvaluationOptions,
    checks: Sequence[dg.AssetCheckKey] = (),
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """The assets of all recipes, which have the options ``training`` and ``evaluation`` in common."""
    partitions = dg.MultiPartitionsDefinition(
        {
            RECIPE: dg.StaticPartitionsDefinition(options.names()),
            SEED: dg.StaticPartitionsDefinition([str(seed) for seed in seeds(options, training)]),
        }
    )

    of_partition = partial(training_of, options)
    policy = build_policy(POLICY, training, partitions=partitions, of_partition=of_partition, checks=checks)
    scores = _scores(suite, options, evaluation, partitions)
    return [policy, metrics_spec(POLICY), scores, _comparison(suite, options, training)]


def _scores(
    suite: Sequence[Benchmark],
    experiments: ExperimentOptions,
    options: EvaluationOptions,
    partitions: dg.PartitionsDefinition,
) -> dg.AssetsDefinition:

    class Config(with_defaults(options)): ...

    @dg.asset(
        key=SCORES,
        group_name=GROUP,
        kinds={"vllm"},
        pool="gpu",
        partitions_def=partitions,
        code_version=code_version(*GENERATION_CODE, *GRADING_CODE),
        ins={"policy": dg.AssetIn(POLICY), "problems": dg.AssetIn(SUITE)},
        description="The scores of the recipe's policy on every benchmark, in domain and out of domain.",
    )
    @reports_input_errors
    def scores(
        context: dg.AssetExecutionContext,
        config: Config,
        policy: PolicyReference,
        problems: SuiteReference,
        storage: Storage,
        interpreter: TrainingInterpreter,
    ) -> dg.MaterializeResult[ExperimentReference]:
        import pyarrow.parquet as pq

        from core.files import digest_table
        from evaluation.sample_tables import read_suite_file
        from evaluation.statistics.scores import summarize

        names = [benchmark.name for benchmark in suite]
        check_policy(policy)
        samples = generate(context, names, policy, problems, config, storage, interpreter)
        graded = grade(context, samples, read_suite_file(Path(problems.path)), config, storage)
        tables = {name: pq.read_table(file) for name, file in graded.items()}
        summaries = {name: summarize(table) for name, table in tables.items()}
        digest = identity([[name, digest_table(table)] for name, table in tables.items()], policy.digest)
        context.log.info(", ".join(f"{name} {summary.mean:.1%}" for name, summary in summaries.items()))
        assert isinstance(context.partition_key, dg.MultiPartitionKey)
        if recorded := recorded_file(experiments, context.partition_key):
            record_run(
                recorded,
                policy=Path(policy.path),
                metrics=Path(policy.metrics),
                problems={name: problems.digests[name] for name in names},
                tables=tables,
            )
        return dg.MaterializeResult(
            value=ExperimentReference(
                path=str(storage.path / "graded"),
                digest=digest,
                policy=Checkpoint(
                    path=policy.path,
                    digest=policy.digest,
                    scores={
                        name: ScoreFile(file=str(file), problems=problems.digests[name])
                        for name, file in graded.items()
                    },
                ),
                metrics=policy.metrics,
                samples={name: str(file) for name, file in samples.items()},
            ),
            data_version=dg.DataVersion(digest),
            metadata={
                **{name: rounded(summary.mean) for name, summary in summaries.items()},
                **{f"{name} low": rounded(summary.low) for name, summary in summaries.items()},
                **{f"{name} high": rounded(summary.high) for name, summary in summaries.items()},
                "policy checkpoint": policy.digest,
                "dagster/row_count": sum(table.num_rows for table in tables.values()),
                "dagster/column_schema": columns(tables[names[0]].schema),
                "dagster/column_lineage": column_lineage(graded_columns(SUITE)),
            },
        )

    return scores


def _comparison(
    suite: Sequence[Benchmark], options: ExperimentOptions, training: TrainingOptions
) -> dg.AssetsDefinition:
    version = code_version("evaluation/report", "evaluation/statistics")

    @dg.asset(
        key=COMPARISON,
        group_name=GROUP,
        kinds={"html"},
        code_version=version,
        deps=[SCORES, *(base_scores(benchmark, "base") for benchmark in suite)],
        ins={"train": dg.AssetIn(TRAIN), "base": dg.AssetIn(BASE), "problems": dg.AssetIn(SUITE)},
        description="One page that compares the recipes that were trained on the present targets and base: curves on "
        "one axis, scores with intervals over problems and seeds, and paired differences, starting with those from "
        f"{options.baseline} (or from the first recipe if {options.baseline} has no scores).",
    )
    @reports_input_errors
    def comparison(
        context: dg.AssetExecutionContext,
        storage: Storage,
        train: TrainReference,
        base: ModelReference,
        problems: SuiteReference,
    ) -> dg.MaterializeResult[Reference]:
        from evaluation.report.drift import drift_report
        from evaluation.report.recipe_comparison import Recipe, compare_recipes
        from evaluation.sample_tables import read_suite_file

        inputs = Inputs(train.digest, base.digest, problems.digests)
        experiments: list[Recipe] = []
        left_out: list[str] = []
        notes: list[str] = []
        for recipe in options.names():
            runs = []
            for seed in seeds(options, training):
                run = inputs.read(storage, options, training, partition(recipe, seed))
                if not isinstance(run, str):
                    runs.append(run)
                elif run:
                    left_out.append(f"{recipe} with seed {seed} is left out because {run}; materialize it again")
            experiments += [Recipe(recipe, tuple(runs))] if runs else []
        trained = list(experiments)
        if len(experiments) > 1 and sorted(len(experiment.runs) for experiment in experiments)[-2] == 1:
            # An interrupted experiment may leave one recipe with seeds that no other has.
            for number, experiment in enumerate(experiments):
                if len(experiment.runs) > 1:
                    experiments[number] = Recipe(experiment.name, experiment.runs[:1])
                    notes.append(f"{experiment.name} is compared by one of its {len(experiment.runs)} seeds")
        most = max((len(experiment.runs) for experiment in experiments), default=0)
        for experiment in [experiment for experiment in experiments if len(experiment.runs) < most]:
            said = f"scores for {len(experiment.runs)} of {most} seeds"
            if len(experiment.runs) > 1:
                notes.append(f"{experiment.name} has {said}: its differences are over the seeds that both have")
            else:  # an interval of one seed does not cover seeds, and would look the surest of all
                experiments.remove(experiment)
                left_out.append(f"{experiment.name} is left out because it has {said}")
        if len(experiments) < 2:
            raise InputError(
                f"{COMPARISON.to_user_string()}: expected at least 2 recipes to compare, got {len(experiments)}; "
                + "; ".join(left_out or ["launch a backfill of experiments/policy and experiments/scores first"])
            )
        names = [experiment.name for experiment in experiments]
        if untrained := base_run(storage, suite, base, problems):
            experiments.append(Recipe(UNTRAINED, (untrained,)))
        baseline = options.baseline if options.baseline in names else names[0]
        rows = read_suite_file(Path(problems.path)).select(["benchmark", "id", "problem"]).to_pylist()
        texts = {(row["benchmark"], row["id"]): row["problem"] for row in rows}
        compared = compare_recipes(
            experiments,
            baseline=baseline,
            suite=suite,
            notes=[*notes, *left_out],
            problems=texts,
            answering=training.recipe,
        )
        drifted = drift_report([experiment for experiment in trained if experiment.name in options.variants])
        runs = [[e.name, *(run.checkpoint for run in e.runs)] for e in [*trained, *experiments]]
        digest = identity(
            runs, sorted(experiments[0].runs[0].tables), baseline, training.recipe, notes, left_out, version
        )
        folder = storage.folder(GROUP, "comparison", digest)
        if not folder.exists():
            with storage.writing(folder) as temporary:
                compared.write(temporary, PAGE)
                if drifted is not None:
                    drifted.write(temporary / DRIFT)
        context.log.info(f"{len(names)} recipes: {', '.join(names)}")
        return dg.MaterializeResult(
            value=Reference(path=str(folder), digest=digest),
            data_version=dg.DataVersion(digest),
            metadata={
                "page": storage.link(folder / PAGE),
                "file": dg.MetadataValue.path(str(folder / PAGE)),
                "scores": dg.MetadataValue.md(compared.to_markdown()),
                "recipes": len(names),
                "left out": dg.MetadataValue.md("\n".join(f"- {cell(text)}" for text in left_out) or "none"),
            },
        )

    return comparison
