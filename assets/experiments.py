"""experiments/policy[recipe], experiments/scores[recipe] and experiments/comparison: recipes side by side.

The partitions are the recipes of ``training/config/recipe``. Training and evaluation are those of the main line, so a
policy or sample that it made already is reused, and the other way round.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.display import cell, shown
from assets.evals import GENERATING, GRADING, check_policy, generate, grade
from assets.failures import explained
from assets.identity import PROJECT, SHOWN, code_version, identity
from assets.interpreter import TrainingInterpreter
from assets.models import KEY as BASE
from assets.options import EvaluationOptions, TrainingOptions, chosen, configured
from assets.storage import Reference, Storage
from assets.targets import TRAIN
from assets.training import build_policy, metrics_spec
from evaluation.benchmarks import Benchmark
from evaluation.errors import InputError

GROUP = "experiments"
POLICY = dg.AssetKey([GROUP, "policy"])
SCORES = dg.AssetKey([GROUP, "scores"])
COMPARISON = dg.AssetKey([GROUP, "comparison"])
PAGE = "experiments.html"
RECIPES = sorted(file.stem for file in (PROJECT / "training" / "config" / "recipe").glob("*.yaml"))
BASELINE = "on_policy"


def build_experiments(
    suite: Sequence[Benchmark], training: TrainingOptions, evaluation: EvaluationOptions
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """The family of recipes; ``training`` and ``evaluation``: what they have in common."""
    partitions = dg.StaticPartitionsDefinition(RECIPES)
    policy = build_policy(POLICY, training, partitions=partitions)
    return [policy, metrics_spec(POLICY), _scores(suite, evaluation, partitions), _comparison(suite)]


def _scores(
    suite: Sequence[Benchmark], options: EvaluationOptions, partitions: dg.PartitionsDefinition
) -> dg.AssetsDefinition:
    @dg.asset(
        key=SCORES,
        group_name=GROUP,
        kinds={"vllm"},
        pool="gpu",
        partitions_def=partitions,
        code_version=code_version(*GENERATING, *GRADING),
        ins={"policy": dg.AssetIn(POLICY), "problems": dg.AssetIn(SUITE)},
        description="What the recipe's policy scores on every benchmark, in domain and out of it.",
    )
    @explained
    @configured(options)
    def scores(
        context: dg.AssetExecutionContext,
        config: dg.Config,
        policy: Reference,
        problems: Reference,
        storage: Storage,
        interpreter: TrainingInterpreter,
    ) -> dg.MaterializeResult[Reference]:
        import pyarrow.parquet as pq

        from evaluation.files import digest_table
        from evaluation.statistics import summarize
        from evaluation.tables import read_suite_file

        wanted = chosen(config, options, stage=SCORES.to_user_string())
        names = [benchmark.name for benchmark in suite]
        check_policy(policy)
        samples = generate(context, names, policy, problems, wanted, storage, interpreter)
        graded = grade(context, samples, read_suite_file(Path(problems.path)), wanted, storage)
        tables = {name: pq.read_table(file) for name, file in graded.items()}
        found = {name: summarize(table) for name, table in tables.items()}
        digest = identity([[name, digest_table(table)] for name, table in tables.items()], policy.digest)
        context.log.info(", ".join(f"{name} {summary.mean:.1%}" for name, summary in found.items()))
        return dg.MaterializeResult(
            value=Reference(
                str(storage.path / "graded"),
                digest,
                details={
                    "checkpoint": policy.digest,
                    "policy": policy.path,
                    "metrics": policy.details["metrics"],
                    "samples": {name: str(file) for name, file in samples.items()},
                    "scores": {
                        name: {"file": str(file), "problems": problems.details["digests"][name]}
                        for name, file in graded.items()
                    },
                },
            ),
            data_version=dg.DataVersion(digest),
            metadata={
                **{name: shown(summary.mean) for name, summary in found.items()},
                **{f"{name} low": shown(summary.low) for name, summary in found.items()},
                **{f"{name} high": shown(summary.high) for name, summary in found.items()},
                "policy checkpoint": policy.digest,
            },
        )

    return scores


def _comparison(suite: Sequence[Benchmark]) -> dg.AssetsDefinition:
    version = code_version("evaluation/experiments.py", "evaluation/report.py", "evaluation/templates/experiments*")

    @dg.asset(
        key=COMPARISON,
        group_name=GROUP,
        kinds={"html"},
        code_version=version,
        deps=[SCORES],
        ins={"train": dg.AssetIn(TRAIN), "base": dg.AssetIn(BASE), "problems": dg.AssetIn(SUITE)},
        description="The recipes that were trained on the present targets and base, on one page: curves on one axis, "
        f"scores with intervals and paired differences from {BASELINE}, or the first recipe where it is not there.",
    )
    @explained
    def comparison(
        context: dg.AssetExecutionContext, storage: Storage, train: Reference, base: Reference, problems: Reference
    ) -> dg.MaterializeResult[Reference]:
        from evaluation.experiments import Experiment, compare_experiments

        experiments: list[Experiment] = []
        left_out: list[str] = []
        for recipe in RECIPES:
            found = _read(storage, recipe, train, base, problems)
            if isinstance(found, Experiment):
                experiments.append(found)
            elif found:
                left_out.append(f"{recipe} is left out: {found}; materialize it again")
        if len(experiments) < 2:
            raise InputError(
                f"{COMPARISON.to_user_string()}: {len(experiments)} recipes to compare; "
                + "; ".join(left_out or ["launch a backfill of experiments/policy and experiments/scores first"])
            )
        names = [experiment.name for experiment in experiments]
        card = compare_experiments(
            experiments, baseline=BASELINE if BASELINE in names else names[0], suite=suite, notes=left_out
        )
        digest = identity([[e.name, e.checkpoint, sorted(e.tables)] for e in experiments], left_out, version)
        folder = storage.folder(GROUP, "comparison", digest)
        if not folder.exists():
            with storage.writing(folder) as temporary:
                card.write_html(temporary / PAGE)
        context.log.info(f"{len(names)} recipes: {', '.join(names)}")
        return dg.MaterializeResult(
            value=Reference(str(folder), digest),
            data_version=dg.DataVersion(digest),
            metadata={
                "page": dg.MetadataValue.path(str(folder / PAGE)),
                "scores": dg.MetadataValue.md(card.to_markdown()),
                "recipes": len(names),
                "left out": dg.MetadataValue.md("\n".join(f"- {cell(text)}" for text in left_out) or "none"),
            },
        )

    return comparison


def _read(storage: Storage, recipe: str, train: Reference, base: Reference, problems: Reference) -> Any:
    """The experiment of ``recipe``; "" if it was never scored, else why it cannot be compared."""
    from assets.report import read_tables
    from evaluation.experiments import Experiment
    from evaluation.tables import read_json_lines
    from training.lineage import read_manifest

    key = f"{SCORES.to_user_string()}/{recipe}"
    if not storage.reference_file(key).exists():
        return ""
    details = storage.read_reference(key).details
    manifest = read_manifest(Path(details["policy"]))
    for what, found, now in (
        ("targets", manifest["targets"]["digest"], train.digest),
        ("base model", manifest["base_model"]["digest"], base.digest),
        ("problems", {n: s["problems"] for n, s in details["scores"].items()}, problems.details["digests"]),
        ("policy", manifest["checkpoint_digest"], details["checkpoint"]),
    ):
        if found != now:
            return f"its {what} are not the present ones" if what != "policy" else "its policy was trained anew"
    request = manifest["request"]
    facts = {
        "steps": manifest["steps"],
        "seed": request["seed"],
        "hardware": request["hardware"],
        "settings": ", ".join(request["overrides"]),
        "targets": train.digest[:SHOWN],
        "base": base.digest[:SHOWN],
    }
    tables = read_tables({name: score["file"] for name, score in details["scores"].items()})
    return Experiment(recipe, details["checkpoint"], tables, read_json_lines(Path(details["metrics"])), facts)
