"""targets/prepared, rejected and train: from raw traces to what the trainer reads."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.benchmarks import KEY as SUITE
from assets.generated import KEY as GENERATED
from assets.generated import with_generated
from assets.models import KEY as BASE
from assets.shared.column_lineage import REJECTED_PARTS, TARGET_PARTS, column_lineage, made_from, mapped_from
from assets.shared.failures import user_errors
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.luffy import IO_MANAGER, Luffy, Names
from assets.shared.references import (
    ModelReference,
    PreparedReference,
    Reference,
    SuiteReference,
    TrainReference,
)
from assets.shared.storage import Storage
from assets.shared.targets_metadata import prepared_metadata, rejected_metadata, stages, train_metadata
from assets.source import SOURCE, observation, with_upstream_files
from core import kinds
from core.errors import InputError
from core.parquet import digest_shards, is_there, shards
from core.progress import Progress
from grading.tools.settings import ToolSettings
from targets.check.expectations import check_suite
from targets.commands import Prepare
from targets.files import PREPARED as PREPARED_FILE
from targets.settings import TargetSettings

if TYPE_CHECKING:
    from targets.prepared_files import Prepared

DIFFICULTY = dg.AssetKey(["targets", "difficulty"])  # assets.difficulty
PREPARED = dg.AssetKey(["targets", "prepared"])
REJECTED = dg.AssetKey(["targets", "rejected"])
TRAIN = dg.AssetKey(["targets", "train"])


PREPARED_OUT = dg.AssetOut.from_spec(
    dg.AssetSpec(
        PREPARED,
        group_name="targets",
        kinds={"parquet"},
        code_version=kinds.PREPARED.code_version,
        description="The targets that passed every filter: each answer is verified, each target has one think block "
        "and fits the token limits, and none is a duplicate or a benchmark problem. The checks read the profile that "
        "is stored with them.",
    ),
    dagster_type=PreparedReference,
    io_manager_key=IO_MANAGER,
    is_required=False,
)
REJECTED_OUT = dg.AssetOut.from_spec(
    dg.AssetSpec(
        REJECTED,
        group_name="targets",
        kinds={"parquet"},
        code_version=kinds.PREPARED.code_version,
        description="Every trace that did not become a target, with the filter that rejected it and the reason.",
    ),
    dagster_type=Reference,
    io_manager_key=IO_MANAGER,
    is_required=False,
)


@dg.multi_asset(
    name="targets__prepared",
    outs={"prepared": PREPARED_OUT, "rejected": REJECTED_OUT},
    ins={"suite": dg.AssetIn(SUITE), "base": dg.AssetIn(BASE)},
    deps=[SOURCE],
    can_subset=True,
)
def prepared(
    context: dg.AssetExecutionContext,
    luffy: dg.ResourceParam[Luffy],
    suite: SuiteReference,
    base: ModelReference,
    luffy_interpreter: TrainingInterpreter,
) -> Iterator[dg.MaterializeResult[Any]]:
    from targets.prepared_files import hint_texts, kept_text, read_prepared, require_targets, reuse_texts

    with user_errors(context):
        storage = luffy.storage
        options, teacher = with_generated(context, luffy)
        options = with_upstream_files(context.instance, options)
        rates = luffy.read(context, DIFFICULTY, Reference) if luffy.settings.difficulty else None
        if rates and options.difficulty is None:
            options = options.model_copy(update={"difficulty": rates.path})
        names = luffy.names
        digest, metadata = observation(options)
        context.log_event(
            dg.AssetObservation(names.key(SOURCE), metadata=metadata, tags={"dagster/data_version": digest})
        )
        tools = luffy.settings.tools
        folder = storage.result("targets", "prepared", _identity(options, digest, base, suite, teacher, tools))
        reused = storage.has(folder, kinds.PREPARED, context.log, read_prepared)
        if not reused:
            check_suite(options, luffy.checks)
            with storage.writing(folder, kinds.PREPARED) as temporary:
                prepare_traces(context, luffy_interpreter, options, temporary, suite, base, storage, teacher, tools)
            for line in reuse_texts(read_prepared(folder)):
                context.log.warning(line)
        kept = read_prepared(folder)
        rejected = _rejected_result(names, kept, reused)  # first: it is there even if no target is left
        if rejected.asset_key in context.selected_asset_keys:
            yield rejected
        else:  # by +key:targets/train, which is downstream of the other one only
            assert rejected.data_version
            # training/ledger finds the preparation by it
            storage.write_reference(REJECTED.to_user_string(), rejected.value)
            tags = {"dagster/data_version": rejected.data_version.value}
            context.log_event(dg.AssetMaterialization(names.key(REJECTED), metadata=rejected.metadata, tags=tags))
        require_targets(kept)
        for hint in hint_texts(kept):
            context.log.warning(hint)
        if names.key(PREPARED) in context.selected_asset_keys:
            yield _prepared_result(names, kept, digest, reused, {"pass_rate": ("pass_rate",)} if rates else {})
        context.log.info(f"{kept_text(kept)}{', as before' if reused else ''}")


def _identity(
    options: TargetSettings,
    source_digest: str,
    base: Reference,
    suite: Reference,
    teacher: Reference | None,
    tools: ToolSettings | None,
) -> str:
    """Return the identity of the prepared targets: the content of all their inputs, and the options."""
    from targets.select.exclusions import Exclusions

    chosen = list(Exclusions.read(options).digests().values())
    chosen += [teacher.digest] if teacher else []
    chosen += [tools.digest()] if tools else []
    return kinds.PREPARED.identity(source_digest, options.digest(), *chosen, base.digest, suite.digest)


def prepare_traces(
    context: dg.AssetExecutionContext,
    interpreter: TrainingInterpreter,
    settings: TargetSettings,
    folder: Path,
    suite: Reference,
    base: Reference,
    storage: Storage,
    teacher: Reference | None,
    tools: ToolSettings | None,
) -> None:
    """Prepare ``settings`` into ``folder``: in this process, or in the training interpreter, which has Ray."""
    import pyarrow.parquet as pq

    from targets.prepare import prepare

    decisions = storage.path / "targets" / "decisions"
    if settings.engine != "ray":
        prepare(
            settings,
            folder,
            benchmarks=pq.read_table(suite.path),
            tokenizer_json=Path(base.path),
            progress=Progress(context.log.info),
            cache=decisions,
            generated=Path(teacher.path) if teacher else None,
            force=storage.force,
            tools=tools,
        )
        return
    with tempfile.TemporaryDirectory() as scratch:
        request = Prepare(
            out=folder,
            tokenizer=Path(base.path),
            targets=settings,
            benchmarks=suite.path,
            cache=decisions,
            generated=Path(teacher.path) if teacher else None,
            prepare_only=True,
            force=storage.force,
            tools=tools,
        )
        file = request.write(Path(scratch) / "request.json")
        try:
            interpreter.run(context, ["targets", "--request", str(file)], lambda _: None)
        except dg.Failure:
            if not is_there(folder / PREPARED_FILE):
                raise  # otherwise it has rejected every trace, and its files say so


def _prepared_result(
    names: Names, prepared: "Prepared", source_digest: str, reused: bool, pass_rate: Mapping[str, tuple[str, ...]]
) -> dg.MaterializeResult[PreparedReference]:
    """Return the result of targets/prepared; ``pass_rate``: the columns that come from targets/difficulty."""
    made = mapped_from(prepared, TARGET_PARTS, SOURCE, GENERATED)
    reference = PreparedReference(
        path=str(prepared.prepared),
        digest=prepared.digest,
        rows=prepared.counts["kept"],
        read=prepared.counts["read"],
        source=prepared.config.paths,
        source_digest=source_digest,
        profile=str(prepared.profile),
        filter_counts=stages(prepared),
        seed=prepared.config.seed,
    )
    return reference.result(
        {
            **prepared_metadata(prepared),
            "dagster/column_lineage": column_lineage(names, {**made, **made_from(DIFFICULTY, pass_rate)}),
            "reused": reused,
        },
        names.key(PREPARED),
    )


def _rejected_result(names: Names, prepared: "Prepared", reused: bool) -> dg.MaterializeResult[Reference]:
    return Reference(path=str(prepared.rejected), digest=digest_shards(prepared.rejected)).result(
        {
            **rejected_metadata(prepared),
            "dagster/column_lineage": column_lineage(names, mapped_from(prepared, REJECTED_PARTS, SOURCE, GENERATED)),
            "reused": reused,
        },
        names.key(REJECTED),
    )


@dg.asset(
    key=TRAIN,
    io_manager_key=IO_MANAGER,
    group_name="targets",
    kinds={"parquet"},
    code_version=kinds.PREPARED.code_version,
    ins={"prepared": dg.AssetIn(PREPARED)},
    description="The file that the trainer reads, in the schema of LUFFY's published training set. The training "
    "starts only if the blocking checks of this asset pass.",
)
def train(
    context: dg.AssetExecutionContext,
    luffy: dg.ResourceParam[Luffy],
    prepared: PreparedReference,
) -> dg.MaterializeResult[TrainReference]:
    from targets.prepared_files import read_prepared
    from targets.select.split import read_split, select_train

    with user_errors(context):
        storage = luffy.storage
        source, split = Path(prepared.path).parent, luffy.settings.split.model_dump()
        folder = storage.result("targets", "train", kinds.PREPARED.identity(source.name, split))
        previous = _previous(storage, prepared.profile)
        reused = storage.has(folder, kinds.PREPARED, context.log, read_split)
        if not reused:
            with storage.writing(folder, kinds.PREPARED) as temporary:
                select_train(read_prepared(source), temporary, **split, seed=prepared.seed)
        result = _train_result(luffy.names, folder, prepared, previous, reused)
        held_out = f", {result.value.heldout_rows:,} held out" if result.value.heldout_rows else ""
        context.log.info(f"{result.value.rows:,} targets to train on{held_out}")
        return result


def _train_result(
    names: Names, folder: Path, prepared: PreparedReference, previous: str | None, reused: bool
) -> dg.MaterializeResult[TrainReference]:
    """Return the files of a split; ``previous`` is the profile of the previous version."""
    import pyarrow.parquet as pq

    from targets.select.split import read_split

    split = read_split(folder)
    columns = {name: (name,) for name in pq.read_schema(shards(split.train)[0]).names}
    reference = TrainReference(
        path=str(split.train),
        digest=split.digest,
        rows=split.rows,
        heldout_rows=split.heldout_rows,
        heldout=str(split.heldout),
        profile=prepared.profile,
        previous=previous,
        prepared_digest=prepared.digest,
        source=prepared.source,
        source_digest=prepared.source_digest,
    )
    return reference.result(
        {
            **train_metadata(split.train, previous, prepared.profile),
            "dagster/column_lineage": column_lineage(names, made_from(PREPARED, columns)),
            "held out": split.heldout_rows,
            "reused": reused,
        },
    )


def _previous(storage: Storage, profile: str) -> str | None:
    """Return the previous profile: the one of the last materialization that came from other prepared targets."""
    try:
        last = storage.read_reference(TRAIN.to_user_string(), TrainReference)
    except InputError:
        return None  # never materialized, or gone
    earlier = last.previous if last.profile == profile else last.profile
    return earlier if earlier and is_there(Path(earlier)) else None
