"""The asset rounds/N/scores."""

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.evals.scores import check_policy, generate, grade
from assets.evals.scores import key as base_scores
from assets.rounds.round_problems import GROUP
from assets.shared.column_lineage import column_lineage, graded_columns
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.metadata import columns, rounded
from assets.shared.profile import Luffy, profile_asset
from assets.shared.references import (
    ModelReference,
    PolicyReference,
    RoundScoresReference,
    ScoresReference,
    SuiteReference,
)
from assets.shared.storage import Storage
from core import kinds
from core.code_digest import identity
from core.files import digest_table
from evaluation.promotion.records import Checkpoint, ScoreFile

if TYPE_CHECKING:
    import pyarrow as pa


@profile_asset(
    group_name=GROUP,
    kinds={"vllm"},
    pool="gpu",
    code_version=kinds.GRADED.code_version,
    description="The scores of the round's policy on every benchmark, in domain and out of domain.",
)
def scores(
    context: dg.AssetExecutionContext,
    luffy: dg.ResourceParam[Luffy],
    policy: PolicyReference,
    problems: SuiteReference,
    storage: Storage,
    interpreter: TrainingInterpreter,
) -> dg.MaterializeResult[RoundScoresReference]:
    import pyarrow.parquet as pq

    from evaluation.sample_tables import read_suite_file
    from evaluation.statistics.benchmark_scores import summarize

    names = [benchmark.name for benchmark in luffy.suite]
    check_policy(policy)
    options = luffy.settings.evaluation.fixed()
    samples = generate(context, names, policy, problems, options, storage, interpreter)
    graded = grade(context, samples, read_suite_file(Path(problems.path)), options, storage)
    tables = {name: pq.read_table(file) for name, file in graded.items()}
    files = {name: ScoreFile(file=str(file), problems=problems.digests[name]) for name, file in graded.items()}
    reference = RoundScoresReference(
        path=str(storage.path / "graded"),
        digest=identity([[name, digest_table(table)] for name, table in tables.items()], policy.digest),
        policy=Checkpoint(path=policy.path, digest=policy.digest, scores=files),
        metrics=policy.metrics,
        samples={name: str(file) for name, file in samples.items()},
    )
    summaries = {name: summarize(table) for name, table in tables.items()}
    context.log.info(", ".join(f"{name} {summary.mean:.1%}" for name, summary in summaries.items()))
    return reference.result(
        {
            **{name: rounded(summary.mean) for name, summary in summaries.items()},
            **{f"{name} low": rounded(summary.low) for name, summary in summaries.items()},
            **{f"{name} high": rounded(summary.high) for name, summary in summaries.items()},
            "policy checkpoint": policy.digest,
            "dagster/row_count": sum(table.num_rows for table in tables.values()),
            "dagster/column_schema": columns(next(iter(tables.values())).schema),
            "dagster/column_lineage": column_lineage(luffy.names, graded_columns(SUITE)),
        },
    )


def base_tables(
    storage: Storage, luffy: Luffy, base: ModelReference, problems: SuiteReference
) -> "dict[str, pa.Table] | None":
    """Return the GRADED tables of the base model by benchmark, or None unless all of its present scores are there."""
    from evaluation.sample_tables import read_scores

    files = {}
    for benchmark in luffy.suite:
        reference = base_scores(benchmark, "base").to_user_string()
        if not storage.reference_file(reference).exists():
            return None
        scored = storage.read_reference(reference, ScoresReference)
        if (scored.checkpoint, scored.problems) != (base.digest, problems.digests[benchmark.name]):
            return None
        files[benchmark.name] = scored.path
    return read_scores(files)
