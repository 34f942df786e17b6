"""The asset rounds/N/train: the training set of a round."""

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from assets.rounds.round_problems import GROUP, Pool, read_pool
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.profile import Luffy, profile_asset
from assets.shared.references import ModelReference, RoundReference, RoundTrainReference, SuiteReference
from assets.shared.storage import Storage
from assets.targets import prepare_traces
from core import kinds
from core.errors import InputError

if TYPE_CHECKING:
    from targets.prepared_files import Prepared

TRAIN = "train.parquet"


@profile_asset(
    group_name=GROUP,
    kinds={"parquet"},
    code_version=kinds.PREPARED.code_version,
    description="The training set of this round: the targets made of the traces, and the other problems without a "
    "target, for which the policy draws only its own samples.",
)
def train(
    context: dg.AssetExecutionContext,
    luffy: dg.ResourceParam[Luffy],
    traces: RoundReference,
    base: ModelReference,
    suite: SuiteReference,
    storage: Storage,
    interpreter: TrainingInterpreter,
) -> dg.MaterializeResult[RoundTrainReference]:
    from targets.prepared_files import read_prepared, require_targets
    from targets.rounds import write_training_set
    from targets.select.split import select_train

    limits = luffy.settings.rounds
    assert limits is not None
    pool = read_pool(luffy, base, suite, storage)
    digest = kinds.PREPARED.identity(traces.digest, pool.digest, limits.target_share)
    folder = storage.result(GROUP, "train", digest)
    if not storage.has(folder, kinds.PREPARED, context.log):
        with storage.writing(folder, kinds.PREPARED) as temporary:
            prepare_traces(context, interpreter, pool.options, temporary, suite, base, storage, traces)
            prepared = read_prepared(temporary)
            require_targets(prepared)
            _require_checks(prepared.profile, luffy.checks)
            split = select_train(prepared, temporary / "split", seed=pool.options.seed)
            write_training_set(split, pool.table, pool.source, limits.target_share, temporary / TRAIN)
    prepared = read_prepared(folder)
    reference, targets = _reference(folder, prepared, pool, traces), prepared.counts["kept"]
    context.log.info(f"{pool.table.num_rows:,} problems, {targets:,} of them with a target, {reference.rows:,} rows")
    return reference.result(
        {
            "dagster/row_count": reference.rows,
            "targets": targets,
            "traces": traces.rows,
            "file": dg.MetadataValue.path(reference.path),
        }
    )


def _reference(folder: Path, prepared: "Prepared", pool: Pool, traces: RoundReference) -> RoundTrainReference:
    """Return what a round hands to its training: the training set in ``folder``, and the facts of the round."""
    from core.parquet import count_rows
    from targets.target_tables import read_metadata

    return RoundTrainReference(
        path=str(folder / TRAIN),
        digest=read_metadata(folder / TRAIN, "materialize it again")["rows_digest"],
        rows=count_rows(folder / TRAIN),
        heldout_rows=0,
        heldout=str(folder / "split" / "heldout.parquet"),
        profile=str(prepared.profile),
        previous=None,
        prepared_digest=prepared.digest,
        source=[pool.source.path],
        source_digest=traces.digest,
        **traces.model_dump(exclude={"path", "digest", "rows", "problems"}),
    )


def _require_checks(rows: Path, suite: Path) -> None:
    """Raise InputError if the targets of a round fail a check that blocks."""
    from targets.check.expectations import validate

    failed = [result for result in validate(rows, suite=suite) if not result.passed and result.severity == "error"]
    if failed:
        said = "; ".join(f"{one.name} failed: {one.error or one.observed}" for one in failed)
        raise InputError(f"rounds: the targets of this round do not pass: {said}; see docs/filters.md#checks")
