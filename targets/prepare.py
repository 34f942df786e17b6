"""Raw traces in; targets, their profile and the rejected rows out. Every trace read is in exactly one of the two.

First every part of the source is filtered by an `Engine`, unless the decisions on it are cached. Then two passes over
the decisions, so that memory holds a batch of texts and never all of them: the first collects what decides between
duplicates, the second writes.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa

from core.errors import InputError
from core.files import digest_bytes, digest_table
from core.model.tokens import load_lengths
from core.schemas import PASS_RATE, PROFILE, REJECTED, TARGET_LOG_PROBS, metadata_field, target_schema
from grading.contamination import BenchmarkIndex
from targets.config import PrepareConfig
from targets.counts import Counts
from targets.filter.cache import DecisionCache, code_digest, read_decisions
from targets.filter.context import FilterInputs
from targets.filter.engines import build_engine
from targets.filter.filters import filters_with
from targets.prepared import PREPARED, PROFILE_FILE, REJECTED_FILE, Prepared, find_unchanged, read_prepared
from targets.read.sources import Part, find_parts
from targets.select.dedupe import Duplicates
from targets.select.selection import Choices, Selection
from targets.select.source_caps import SourceCaps
from targets.staging import clear_staging, staging
from targets.target_tables import IdDigest, RowDigest, TableWriter, digest_ids
from targets.trace import Trace

FORMAT_VERSION = "6"
COUNTED_COLUMNS = ["id", "source", "row", "of", "reasons", "detail", "response_format", "verdict", "upstream_correct"]
COUNTED_COLUMNS += ["data_source", "metadata"]
SELECT_COLUMNS = ["problem", "gold", "problem_digest", "dedupe_key", "target_digest", "target_bytes", "minhash"]

Progress = Callable[[str, int, int | None], None]  # stage, rows done, rows in all where known


@dataclass(frozen=True)
class _Run:
    """The inputs of a preparation; ``inputs`` is recorded in its files."""

    config: PrepareConfig
    parts: Sequence[Part]
    inputs: Mapping[str, str]
    report: Progress


def prepare(
    config: PrepareConfig,
    out_dir: Path,
    *,
    benchmarks: pa.Table | None = None,
    tokenizer_json: Path,
    progress: Progress | None = None,
    cache: Path | None = None,
    generated: Path | None = None,
) -> Prepared:
    """Write prepared, profile and rejected into ``out_dir`` and say what happened to the rows.

    Where ``out_dir`` already holds what would be written, nothing is done. Where every trace is rejected, the files say
    so, and `targets.prepared.require_targets` raises.

    Args:
        benchmarks: BENCHMARK rows whose problems must not become targets. None: they are not looked for, and the
            profile says so.
        tokenizer_json: the policy's tokenizer.json or its folder.
        progress: called with a stage, the rows done, and the rows in all where known.
        cache: folder that keeps the decisions on each part of the source. None: nothing is kept.
        generated: file of the source ``generated``, as ``python -m evaluation traces`` writes it.

    Raises:
        InputError: a source, tokenizer or setting does not work, or the sources hold no row.
        OSError: ``out_dir`` cannot be written.
        In both cases ``out_dir`` is as it was.
    """
    out_dir, tokenizer_json = Path(out_dir), Path(tokenizer_json)
    report = progress or _silent
    lengths = load_lengths(tokenizer_json, config.chat_template_kwargs)
    if benchmarks is not None:
        benchmarks = benchmarks.select(["benchmark", "id", "problem"])
    benchmarks_digest = digest_table(benchmarks) if benchmarks is not None else ""
    parts = find_parts(config, generated)
    choices = Choices.read(config)
    # Before anything is written: a filter or a mapping may not fit.
    filters_with(tuple(config.filters))
    mappings = [part.mapping.model_dump() | {"source": part.number} for part in parts]
    inputs = {
        "format": "luffy-targets",
        "version": FORMAT_VERSION,
        "source": json.dumps(config.paths),
        "source_digest": digest_bytes(repr([(part.name, part.fingerprint[0]) for part in parts]).encode()),
        "config": json.dumps(config.identity_fields(), sort_keys=True),
        "config_digest": config.digest(),
        "tokenizer_digest": lengths.digest,
        "benchmarks_digest": benchmarks_digest,
        **choices.digests(),
        "code_digest": code_digest(),
        "mappings": json.dumps(mappings, sort_keys=True),
        "verifiers": json.dumps({source.name: source.record() for source in config.sources}, sort_keys=True),
    }
    if generations := {digest: settings for part in parts for digest, settings in part.generation.items()}:
        inputs["generations"] = json.dumps(generations, sort_keys=True)
    if earlier := find_unchanged(out_dir, inputs):
        clear_staging(out_dir)
        return earlier

    def filter_inputs() -> FilterInputs:
        return FilterInputs(config, tokenizer_json, None if benchmarks is None else BenchmarkIndex(benchmarks))

    with staging(out_dir, (REJECTED_FILE, PROFILE_FILE, PREPARED)) as staging_dir:
        decisions = DecisionCache(config, lengths, benchmarks_digest, cache or staging_dir / "decisions")
        run = _Run(config, parts, inputs, report)
        _write(run, _filter(run, decisions, filter_inputs), choices, staging_dir)
    return read_prepared(out_dir)


def _filter(run: _Run, decisions: DecisionCache, inputs: Callable[[], FilterInputs]) -> list[Path]:
    """The file of decisions on each part, together at most ``limit`` rows."""
    files: list[Path] = []
    before, left = 0, run.config.limit
    with build_engine(run.config.engine, inputs, run.config.workers) as engine:
        for part in run.parts:
            if left == 0:
                break

            def report_part(rows: int, total: int | None, before: int = before) -> None:
                run.report("filter", before + rows, None if total is None else before + total)

            files.append(decisions.file(part, left, engine, report_part))
            rows = decisions.count_rows(files[-1])
            before += rows
            left = None if left is None else left - rows
    return files


def _write(run: _Run, files: Sequence[Path], choices: Choices, staging_dir: Path) -> None:
    """The three files in ``staging_dir`` from the decisions, proven complete."""
    counts = Counts(filters_with(tuple(run.config.filters)))
    with Duplicates(staging_dir / "duplicates.sqlite", run.config) as duplicates:
        selection = Selection(choices, duplicates, SourceCaps(run.config))
        for file, part in zip(files, run.parts, strict=False):  # a limit leaves parts out
            batches = read_decisions([file], COUNTED_COLUMNS + SELECT_COLUMNS)
            for traces in _in_order(batches, part, limited=run.config.limit is not None):
                selection.add(traces, part.number)
                for trace in traces:
                    counts.add(trace)
                run.report("deduplicate", counts.read.count, None)
        if not counts.read.count:
            raise InputError(f"source {', '.join(run.config.paths)}: no rows; give one with traces")
        selection.decide(counts.read.count)
        _write_tables(run, files, selection, counts, staging_dir)


def _write_tables(run: _Run, files: Sequence[Path], selection: Selection, counts: Counts, staging_dir: Path) -> None:
    metadata = metadata_field(run.config.metadata_names)
    log_probs = [TARGET_LOG_PROBS] if any(part.mapping.target_log_probs for part in run.parts) else []
    pass_rate = [PASS_RATE] if run.config.difficulty else []
    sources = {str(source.name): source for source in run.config.sources}
    fields = any(source.fields for source in sources.values())
    schema = target_schema(*log_probs, *pass_rate, *metadata, fields=fields)
    with (
        TableWriter(staging_dir / REJECTED_FILE, REJECTED, run.inputs) as rejected,
        TableWriter(staging_dir / PREPARED, schema, run.inputs) as kept,
        TableWriter(staging_dir / PROFILE_FILE, pa.schema([*PROFILE, *metadata]), run.inputs) as profile,
    ):
        digest = RowDigest(run.inputs["verifiers"])
        for trace in selection.decided(chain.from_iterable(read_decisions(files))):
            if selection.overruled(trace):
                counts.disagreements[f"a reviewer says keep, rejected as {trace.reasons[0]}"] += 1
            if trace.reasons:
                counts.reject(trace)
                _write_rejected(trace, rejected)
                continue
            counts.keep(trace)
            if log_probs:
                counts.log_probs["without" if trace.target_log_probs is None else "with"] += 1
            target = trace.target_row(kept.rows, sources[trace.data_source])
            digest.add(target)
            kept.add(target)
            profile.add(trace.profile_row())
            run.report("write", kept.rows, None)
        late = {**counts.metadata(kept.rows), "rows_digest": digest.hexdigest()}
        for writer in (kept, profile, rejected):
            writer.close(late)
        _check_conservation(counts.read, [kept.path, rejected.path], profile.path)


def _in_order(batches: Iterable[list[Trace]], part: Part, *, limited: bool) -> Iterator[list[Trace]]:
    """``batches``; RuntimeError if a trace of ``part`` is missing: rows and their generations follow each other."""
    row, generation, of = -1, 0, 0  # of the last trace
    for traces in batches:
        for trace in traces:
            if trace.row == row:
                generation += 1
            elif trace.row == row + 1 and generation == of:
                row, generation = trace.row, 1
            else:
                raise RuntimeError(
                    f"conservation violated: {part.name}: row {trace.row} follows {generation} of {of} "
                    f"traces of row {row}"
                )
            of = trace.of
        yield traces
    rows = part.fingerprint[1]
    complete = generation == of and rows in (None, row + 1)
    if not complete and not limited:
        raise RuntimeError(f"conservation violated: {part.name}: {row + 1} rows read, the source has {rows}")


def _write_rejected(trace: Trace, writer: TableWriter) -> None:
    writer.add(trace.rejected_row())


def _check_conservation(read: IdDigest, files: list[Path], profile: Path) -> None:
    """Every id read is in exactly one of ``files``, and the profile describes exactly the first; else RuntimeError."""
    written = digest_ids(files)
    if written != read:
        raise RuntimeError(f"conservation violated: {read.count} traces read, {written.count} written, or others")
    if digest_ids(files[:1]) != digest_ids([profile]):
        raise RuntimeError("conservation violated: the profile does not describe the prepared rows")


def _silent(stage: str, done: int, total: int | None) -> None:
    """Report nothing."""
