"""experiments/policy and experiments/scores, one partition per recipe and seed, and experiments/comparison.

The recipes are the files of ``training/config/recipe`` and the variants that the profile names. They are trained and
scored like training/policy and evals/*, so policies and samples are reused between the two.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.evals import check_policy, generate, grade
from assets.evals import key as base_scores
from assets.models import KEY as BASE
from assets.shared.failures import reports_input_errors
from assets.shared.interpreter import TrainingInterpreter
from assets.shared.lineage import column_lineage, graded_columns
from assets.shared.metadata import cell, columns, rounded
from assets.shared.options import EvaluationOptions, ExperimentOptions, TrainingOptions, with_defaults
from assets.shared.references import (
    ExperimentReference,
    ModelReference,
    PolicyReference,
    Reference,
    ScoresReference,
    SuiteReference,
    TrainReference,
)
from assets.shared.storage import Storage
from assets.targets import TRAIN
from assets.training import build_policy, metrics_spec
from core.code import GENERATION_CODE, GRADING_CODE, SHORT_DIGEST, code_version, identity
from core.errors import InputError
from evaluation.benchmarks.registry import Benchmark
from evaluation.champions import Checkpoint, ScoreFile

GROUP = "experiments"
POLICY = dg.AssetKey([GROUP, "policy"])
SCORES = dg.AssetKey([GROUP, "scores"])
COMPARISON = dg.AssetKey([GROUP, "comparison"])
PAGE, DRIFT = "experiments.html", "drift"  # the folder of the report on variants of stale rollouts
RECIPE, SEED = "recipe", "seed"  # dimensions of a partition
UNTRAINED = "base"


def partition(recipe: str, seed: int) -> dg.MultiPartitionKey:
    """The partition of one run."""
    return dg.MultiPartitionKey({RECIPE: recipe, SEED: str(seed)})


def seeds(options: ExperimentOptions, training: TrainingOptions) -> list[int]:
    """The seeds of each recipe."""
    return [training.seed + number for number in range(options.seeds)]


def build_experiments(
    suite: Sequence[Benchmark],
    options: ExperimentOptions,
    training: TrainingOptions,
    evaluation: EvaluationOptions,
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """The assets of all recipes, which have the options ``training`` and ``evaluation`` in common."""
    partitions = dg.MultiPartitionsDefinition(
        {
            RECIPE: dg.StaticPartitionsDefinition(options.names()),
            SEED: dg.StaticPartitionsDefinition([str(seed) for seed in seeds(options, training)]),
        }
    )

    def of_partition(config: TrainingOptions, key: dg.MultiPartitionKey) -> TrainingOptions:
        """The recipe and seed of the partition, whatever was configured."""
        name, seed = (key.keys_by_dimension[dimension] for dimension in (RECIPE, SEED))
        variant = options.of(name)
        last = {override.partition("=")[0]: override for override in [*config.overrides, *variant.overrides]}
        changes = {"recipe": variant.recipe, "seed": int(seed), "overrides": list(last.values())}
        return config.model_copy(update=changes)

    policy = build_policy(POLICY, training, partitions=partitions, of_partition=of_partition)
    comparison = _comparison(suite, options, seeds(options, training), training.recipe)
    return [policy, metrics_spec(POLICY), _scores(suite, evaluation, partitions), comparison]


def _scores(
    suite: Sequence[Benchmark], options: EvaluationOptions, partitions: dg.PartitionsDefinition
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
        from evaluation.statistics.scores import summarize
        from evaluation.tables import read_suite_file

        names = [benchmark.name for benchmark in suite]
        check_policy(policy)
        samples = generate(context, names, policy, problems, config, storage, interpreter)
        graded = grade(context, samples, read_suite_file(Path(problems.path)), config, storage)
        tables = {name: pq.read_table(file) for name, file in graded.items()}
        summaries = {name: summarize(table) for name, table in tables.items()}
        digest = identity([[name, digest_table(table)] for name, table in tables.items()], policy.digest)
        context.log.info(", ".join(f"{name} {summary.mean:.1%}" for name, summary in summaries.items()))
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
    suite: Sequence[Benchmark], options: ExperimentOptions, seeds: Sequence[int], answering: str
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
        from evaluation.tables import read_suite_file

        experiments: list[Recipe] = []
        left_out: list[str] = []
        notes: list[str] = []
        for recipe in options.names():
            runs = []
            for seed in seeds:
                run = _read(storage, partition(recipe, seed), train, base, problems)
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
        if untrained := _base(storage, suite, base, problems):
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
            answering=answering,
        )
        drifted = drift_report([experiment for experiment in trained if experiment.name in options.variants])
        runs = [[e.name, *(run.checkpoint for run in e.runs)] for e in [*trained, *experiments]]
        digest = identity(runs, sorted(experiments[0].runs[0].tables), baseline, answering, notes, left_out, version)
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


def _read(
    storage: Storage, key: dg.MultiPartitionKey, train: TrainReference, base: ModelReference, problems: SuiteReference
) -> Any:
    """The `Run` of a partition; "" if it was never scored, otherwise the reason why it cannot be compared."""
    from core.files import read_json_lines
    from core.model.manifest import read_manifest
    from evaluation.report.recipe_comparison import PEAK, Run
    from evaluation.tables import read_scores
    from training.plan.summary import MEMORY

    reference = f"{SCORES.to_user_string()}/{key}"
    if not storage.reference_file(reference).exists():
        return ""
    experiment = storage.read_reference(reference, ExperimentReference)
    policy = experiment.policy
    manifest = read_manifest(Path(policy.path))
    digests = {name: score.problems for name, score in policy.scores.items()}
    for reason, recorded, present in (
        ("its targets have changed", manifest.targets.digest, train.digest),
        ("its base model has changed", manifest.base_model.digest, base.digest),
        ("its problems have changed", digests, problems.digests),
        ("its policy was trained again", manifest.checkpoint_digest, policy.digest),
    ):
        if recorded != present:
            return reason
    request = manifest.request
    records = read_json_lines(Path(experiment.metrics))
    generated = sum(record["data"].get("batch/generated_tokens", 0) for record in records)
    peaks = [record["data"][MEMORY] for record in records if MEMORY in record["data"]]
    costs = {"minutes": 60 * manifest.device_hours, "generated tokens": float(generated)}
    facts = {
        "steps": manifest.steps,
        "seed": request.seed,
        "hardware": request.hardware,
        "settings": ", ".join(request.overrides),
        "generated tokens": f"{generated:,.0f}",
        "minutes": f"{costs['minutes']:.1f}",
        PEAK: f"{max(peaks):.1f}" if peaks else "",
        "targets": train.digest[:SHORT_DIGEST],
        "base": base.digest[:SHORT_DIGEST],
    }
    tables = read_scores({name: score.file for name, score in policy.scores.items()})
    return Run(policy.digest, tables, records, facts, manifest.config, request.seed, costs)


def _base(storage: Storage, suite: Sequence[Benchmark], base: ModelReference, problems: SuiteReference) -> Any:
    """The `Run` of the base model, or None unless all of its present scores are there."""
    from evaluation.report.recipe_comparison import Run
    from evaluation.tables import read_scores

    files = {}
    for benchmark in suite:
        reference = base_scores(benchmark, "base").to_user_string()
        if not storage.reference_file(reference).exists():
            return None
        scores = storage.read_reference(reference, ScoresReference)
        if (scores.checkpoint, scores.problems) != (base.digest, problems.digests[benchmark.name]):
            return None
        files[benchmark.name] = scores.path
    return Run(base.digest, read_scores(files))
