"""The asset targets/generated: traces that a teacher writes for your problems, if the profile configures it."""

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dagster as dg

from assets.shared.failures import user_errors
from assets.shared.gpu_slot import TAG, gpu_slot
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.luffy import IO_MANAGER, Luffy
from assets.shared.metadata import columns, counts, percents, preview, rounded
from assets.shared.references import GeneratedReference
from assets.shared.storage import Storage
from core import PROJECT, kinds
from core.code_digest import identity
from core.errors import InputError
from core.files import digest_file, digest_table
from core.progress import progress_line
from core.shared_settings import InterpreterSettings
from evaluation.generation.endpoint import Endpoint
from evaluation.settings import GenerateSettings
from grading.tools.settings import ToolSettings
from grading.verifiers.spec import spec_text
from targets.settings import TargetSettings
from targets.source_settings import GENERATED as NAME
from targets.source_settings import Source

KEY = dg.AssetKey(["targets", "generated"])
FILE = "generated.parquet"
SAMPLES_KEPT = "the traces that were generated are kept; materialize again to continue"
FINISHED = "traces"  # the last message of the command


def with_generated(context: dg.AssetExecutionContext, luffy: Luffy) -> tuple[TargetSettings, GeneratedReference | None]:
    """Return the settings of the targets with the generated traces as the last source, and these, if there are any."""
    options = luffy.settings.targets
    if luffy.settings.generate is None:
        return options, None
    if NAME not in options.paths:
        options = options.model_copy(update={"source": [*options.source, NAME]})
    return options, luffy.read(context, KEY, GeneratedReference)


def generated_asset(teacher: GenerateSettings) -> dg.AssetsDefinition:
    """Build the asset, which waits for the slot of the GPUs unless the teacher is behind an address."""

    @dg.asset(
        key=KEY,
        io_manager_key=IO_MANAGER,
        group_name="targets",
        kinds={"parquet"},
        code_version=kinds.GRADED.code_version,
        tags={} if Endpoint.parse(teacher.teacher) else TAG,
        description="The traces that a teacher wrote for your problems, each with the grader's verdict. They are one "
        "more source of targets/prepared. Samples are cached, so that no trace is requested or paid for twice.",
    )
    def generated(
        context: dg.AssetExecutionContext, luffy: dg.ResourceParam[Luffy], luffy_interpreter: TrainingInterpreter
    ) -> dg.MaterializeResult[GeneratedReference]:
        with user_errors(context):
            return _generated(context, luffy, luffy.storage, luffy_interpreter)

    return generated


def _generated(
    context: dg.AssetExecutionContext, luffy: Luffy, storage: Storage, interpreter: TrainingInterpreter
) -> dg.MaterializeResult[GeneratedReference]:
    settings = luffy.settings.generate
    assert settings is not None
    problems = PROJECT / Path(settings.problems).expanduser()
    if not problems.is_file():
        raise InputError(f"generate.problems: {problems}: no such file; give one with problems and gold answers")
    source = next(
        (source for source in luffy.settings.targets.sources if source.path == NAME), Source(path=NAME, name=NAME)
    )
    tools = luffy.settings.tools
    request = _request(settings, problems, source, tools)
    reference = _previous(storage, request, ended=settings.budget_covers_cached)
    spent: Mapping[str, Any] = {}
    if reference is None or storage.force:
        reference, spent = generate_traces(context, settings, problems, source, tools, request, storage, interpreter)
    return _result(context, reference, spent, settings)


def _teacher(options: GenerateSettings) -> str:
    """Return the teacher in the form that the command takes; a folder may be relative to the project."""
    folder = PROJECT / Path(options.teacher).expanduser()
    return str(folder) if folder.is_dir() else options.teacher


def _request(options: GenerateSettings, problems: Path, source: Source, tools: ToolSettings | None) -> str:
    """Identify the request that decides the traces; "" for a hub id: only the command knows its content."""
    from evaluation.generation.model_source import checkpoint_digest

    folder = Path(_teacher(options))
    if not (Endpoint.parse(options.teacher) or folder.is_dir()):
        return ""
    limits = {"concurrency", "budget_money", "input_price", "output_price", "budget_covers_cached"}
    limits |= set() if options.budget_covers_cached else {"budget_tokens"}
    settings = options.model_dump(mode="json", exclude={"teacher", "problems", "replicas", "grade_workers", *limits})
    teacher = checkpoint_digest(folder) if folder.is_dir() else options.teacher
    spec = [source.spec.digest, source.name, source.fields, *([tools.digest()] if tools else [])]
    return kinds.GRADED.identity(teacher, digest_file(problems), settings, *spec)


def _previous(storage: Storage, request: str, *, ended: bool) -> GeneratedReference | None:
    """Return the last generation, if it belongs to the same request and is complete, or its budget has ``ended``."""
    try:
        last = storage.read_reference(KEY.to_user_string(), GeneratedReference)
    except InputError:
        return None  # never materialized, or gone
    return last if request and last.request == request and (ended or last.rows == last.requested) else None


def generate_traces(
    context: dg.AssetExecutionContext,
    options: GenerateSettings,
    problems: Path,
    source: Source,
    tools: ToolSettings | None,
    request: str,
    storage: Storage,
    interpreter: TrainingInterpreter,
) -> tuple[GeneratedReference, Mapping[str, Any]]:
    """Run the command and keep its file under the digest of its rows; also return what the command spent."""
    from evaluation.commands import Traces

    last: dict[str, Any] = {}

    def report(message: dict[str, Any]) -> None:
        if message["event"] == FINISHED:
            last.update(message)
        else:
            context.log.info(progress_line(message))

    local = Endpoint.parse(options.teacher) is None
    asked = options.model_copy(update={"teacher": _teacher(options), "problems": str(problems)})
    with storage.working("generations", "jobs", identity(request, asked.model_dump())) as folder:
        file = Traces(
            out=folder / FILE,
            cache=storage.path / "samples",
            verifier=spec_text(source.spec),
            data_source=str(source.name),
            fields=source.fields,
            generate=asked,
            tools=tools,
            interpreter=InterpreterSettings(**interpreter.placement(context) if local else {}),
        ).write(folder / "request.json")
        arguments = ["evaluation", "traces", "--request", str(file)]
        with gpu_slot(context) if local else nullcontext():
            interpreter.run(context, arguments, report, lambda: SAMPLES_KEPT)
        kept, digest, rows = _keep(folder / FILE, file, storage)
    facts = {"request": request, "rows": rows, "requested": last["requested"]}
    return GeneratedReference(path=str(kept), digest=digest, **facts), last


def _keep(traces: Path, request: Path, storage: Storage) -> tuple[Path, str, int]:
    """Move traces and the request for them to the folder of their digest; return their file, digest and rows."""
    import pyarrow.parquet as pq

    table = pq.read_table(traces)
    if not table.num_rows:
        raise InputError(
            "generate: the budget ends before the first trace; raise generate.budget_tokens or "
            "generate.budget_money, or lower generate.max_tokens"
        )
    digest = digest_table(table)
    kept = storage.folder("targets", "generated", digest)
    if not kept.exists():
        with storage.writing(kept) as temporary:
            request.rename(temporary / request.name)
            traces.rename(temporary / traces.name)
    return kept / traces.name, digest, table.num_rows


def _result(
    context: dg.AssetExecutionContext,
    reference: GeneratedReference,
    spent: Mapping[str, Any],
    options: GenerateSettings,
) -> dg.MaterializeResult[GeneratedReference]:
    import pyarrow.parquet as pq

    table = pq.read_table(reference.path)
    metadata = {name.decode(): value.decode() for name, value in (table.schema.metadata or {}).items()}
    verdicts = Counter(table["verdict"].to_pylist())
    verified = verdicts["correct"] / table.num_rows
    missing = reference.requested - reference.rows
    context.log.info(
        f"{reference.rows:,} of {reference.requested:,} traces, {verified:.1%} verified"
        + ("; the budget ended: the next materialization continues" if missing else "")
    )
    return reference.result(
        {
            "dagster/row_count": reference.rows,
            "dagster/column_schema": columns(table.schema),
            "problems": len(table["id"].unique()),
            "traces that the budget left out": missing,
            **percents({"verified": verified}),
            "verdicts": counts(verdicts, ("verdict", "traces")),
            "tokens of the traces": sum(table["tokens"].to_pylist()),
            "teacher": options.teacher,
            "generation": metadata["generation"],
            "lineage": dg.MetadataValue.json(json.loads(metadata["lineage"])),
            "cache hits": spent.get("cached", reference.rows),
            "tokens paid for this time": spent.get("tokens", 0),
            "cost this time": rounded(spent.get("cost", 0.0)),
            "preview": preview(table, [*table.column_names[:3], "sample", "verdict"]),
            "file": dg.MetadataValue.path(reference.path),
            "reused": not spent,
        }
    )
