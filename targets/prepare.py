"""Raw traces in; targets, their profile and the rejected rows out. Every trace read is in exactly one of the two.

The processes of a `targets.engine` do all that reads or writes texts: they filter each piece of the sources, unless the
decisions on it are cached, compare problems that may be near duplicates, and write the files. This process only passes
over the keys of the accepted traces, to decide between duplicates.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

import pyarrow as pa

from core import kinds
from core.arithmetic import TOOL_SPLITS
from core.code_digest import identity
from core.errors import InputError
from core.files import digest_bytes, digest_table
from core.parquet import readable, shard_path
from grading.contamination import held_out_benchmarks, templated_benchmarks
from grading.tools.settings import ToolSettings
from targets.counts import MOST_GOLDS, Counts
from targets.engine import ENGINES, Engine
from targets.files import (
    HELDOUT,
    LEFT_OUT,
    PREPARED,
    PROFILE_FILE,
    REJECTED_FILE,
    TOOLS,
    TRAIN,
    IdDigest,
    clear_staging,
    combined_digest,
    iter_batches,
    staging,
)
from targets.filter.decisions import (
    REMEDY,
    DecisionCache,
    Decisions,
    Undecided,
    filter_shard,
    versions,
)
from targets.filter.filters import filters_with
from targets.filter.stages import FAILED
from targets.filter.text_properties import check_languages
from targets.filter.worker import Worker
from targets.prepared_files import Prepared, find_unchanged, read_prepared
from targets.read.sources import Shard, find_shards
from targets.select.exclusions import Exclusions
from targets.select.near_duplicates import NearSearch, read_accepted
from targets.select.selection import Outcome, Selection
from targets.select.write import Output, Written, check_output, write_output
from targets.settings import TargetSettings

FORMAT_VERSION = "6"
READ_PER_FILE = 4

Progress = Callable[[str, int, int | None], None]  # stage, rows done, rows in all where known


@dataclass(frozen=True)
class _Run:
    """What a preparation works with; ``inputs`` is recorded in its files."""

    shards: Sequence[Shard]
    exclusions: Exclusions
    inputs: Mapping[str, str]
    report: Progress
    worker: Worker
    engine: Engine
    folder: Path

    @property
    def config(self) -> TargetSettings:
        return self.exclusions.config


def prepare(
    config: TargetSettings,
    out_dir: Path,
    *,
    benchmarks: pa.Table | None = None,
    tokenizer_json: Path,
    progress: Progress | None = None,
    cache: Path | None = None,
    generated: Path | None = None,
    force: bool = False,
    tools: ToolSettings | None = None,
) -> Prepared:
    """Write prepared, profile and rejected into ``out_dir`` and say what happened to the rows.

    Where ``out_dir`` already holds what would be written, nothing is done. Where every trace is rejected, the files say
    so, and `targets.prepared_files.require_targets` raises.

    Args:
        benchmarks: BENCHMARK rows with problems that must not become targets. None: they are not looked for, and the
            profile says so.
        tokenizer_json: the policy's tokenizer.json or its folder.
        progress: called with a stage, the rows done, and the rows in all where known.
        cache: folder that keeps the decisions on each part of the source. None: nothing is stored.
        generated: file of the source ``generated``, as ``luffy evaluate traces`` writes it.
        force: whether everything is made again, whatever ``out_dir`` and ``cache`` have.
        tools: the tools that traces may call.

    Raises:
        InputError: a source, tokenizer or setting does not work, or the sources hold no row.
        OSError: ``out_dir`` cannot be written.
        In both cases ``out_dir`` is as it was.
    """
    out_dir, tokenizer_json = Path(out_dir), Path(tokenizer_json)
    if benchmarks is not None:
        benchmarks = benchmarks.select(["benchmark", "id", "problem"])
    if config.embedded_split in TOOL_SPLITS and tools is None:
        raise InputError(f"targets.embedded_split: {config.embedded_split} calls a calculator: name it in tools.use")
    worker = Worker(config, tokenizer_json, benchmarks, tools)
    benchmarks_digest = _benchmarks_digest(benchmarks)
    tokenizer_digest = worker.lengths.digest
    filters_with(tuple(config.filters))  # before anything is written: one may not fit
    check_languages(config.languages)
    for path in config.paths:
        if os.path.isdir(path) and out_dir.resolve().is_relative_to(Path(path).resolve()):
            raise InputError(f"{out_dir}: inside the source {path}, so its files would be sources; give another folder")
    shards = find_shards(config, generated, tools=tools is not None)
    exclusions = Exclusions.read(config)
    inputs = _inputs(shards, exclusions, tokenizer_digest, benchmarks_digest)
    inputs |= {TOOLS: tools.record()} if tools else {}
    if (earlier := find_unchanged(out_dir, inputs)) and FAILED not in earlier.all_reasons and not force:
        clear_staging(out_dir)
        return earlier

    with (
        staging(out_dir, (REJECTED_FILE, PROFILE_FILE, PREPARED), (TRAIN, HELDOUT, LEFT_OUT)) as folder,
        ENGINES[config.engine](worker, config.workers) as engine,
    ):
        run = _Run(shards, exclusions, inputs, progress or (lambda *_: None), worker, engine, folder)
        digests, decisions = (tokenizer_digest, benchmarks_digest), cache or folder / "decisions"
        cached = DecisionCache(config, *digests, decisions, force, tools.digest() if tools else "")
        decided = _filter(run, cached)
        selection, outcomes = _select(run, decided)
        _write(run, decided, outcomes, selection.problems_of_golds)
    return read_prepared(out_dir)


def _benchmarks_digest(benchmarks: pa.Table | None) -> str:
    """The digest of the rows, and of which benchmarks are compared in another way."""
    if benchmarks is None:
        return ""
    held_out = sorted(held_out_benchmarks(benchmarks))
    return identity(
        digest_table(benchmarks),
        sorted(templated_benchmarks(benchmarks)),
        *([held_out] if held_out else []),
    )


def _inputs(
    shards: Sequence[Shard],
    exclusions: Exclusions,
    tokenizer_digest: str,
    benchmarks_digest: str,
) -> dict[str, str]:
    """What decides what comes out, as the files record it; the code, which they record too, is not part of it."""
    config = exclusions.config
    mappings = [shard.mapping.model_dump() | {"source": shard.number} for shard in shards]
    files = {shard.name: {"source": shard.source.name, "digest": shard.digest} for shard in shards}
    inputs = {
        "format": "luffy-targets",
        "version": FORMAT_VERSION,
        "source": json.dumps(config.paths),
        "source_digest": digest_bytes(repr([(shard.name, shard.digest) for shard in shards]).encode()),
        "config": json.dumps(config.identity_fields(), sort_keys=True),
        "config_digest": config.digest(),
        "tokenizer_digest": tokenizer_digest,
        "benchmarks_digest": benchmarks_digest,
        **exclusions.digests(),
        "versions": versions(languages=bool(config.languages)),
        "mappings": json.dumps(mappings, sort_keys=True),
        "files": json.dumps(files),
        "verifiers": json.dumps({source.name: source.record() for source in config.sources}, sort_keys=True),
    }
    if generations := {digest: settings for shard in shards for digest, settings in shard.generation.items()}:
        inputs["generations"] = json.dumps(generations, sort_keys=True)
    return inputs


def _filter(run: _Run, cache: DecisionCache) -> list[Decisions]:
    """The decisions on each piece, together on at most ``limit`` traces."""
    pieces, rows = [], 0
    for shard in run.shards:
        pieces += shard.pieces(None if run.config.limit is None else run.config.limit - rows)
        rows = sum(piece.rows for piece in pieces)
    missing = [piece for piece in pieces if not cache.has(piece)]
    done = rows - sum(piece.rows for piece in missing)
    for piece, _ in zip(missing, _decide(run, cache, missing), strict=True):
        done += piece.rows
        run.report("filter", done, rows)
    left, decided = run.config.limit, []
    for piece in pieces:
        decisions = cache.read(piece)
        if left is not None and decisions.traces > left:  # a row has several traces
            cut = replace(piece, most=left)
            if left and not cache.has(cut):
                list(_decide(run, cache, [cut]))
            decisions = cache.read(cut) if left else None
        if decisions is None:
            break
        decided.append(decisions)
        left = None if left is None else left - decisions.traces
    return decided


def _decide(run: _Run, cache: DecisionCache, pieces: Sequence[Shard]) -> Iterator[None]:
    if pieces:
        _ = run.worker.index  # made once, and sent to the other processes
    undecided = [Undecided(piece, cache.path(piece)) for piece in pieces]
    return run.engine.run(filter_shard, undecided, sum(piece.rows for piece in pieces))


def _select(run: _Run, decided: Sequence[Decisions]) -> tuple[Selection, list[Outcome]]:
    """The outcome of the accepted traces of each piece, and who decided it."""
    selection = Selection(run.exclusions, run.folder)
    unread = {*run.exclusions.review.refused, *run.exclusions.review.kept}
    read = 0
    for decisions in decided:
        with readable(decisions.path, REMEDY):
            keys = read_accepted(decisions.path, selection.columns, unread, decisions.moved)
        selection.add(keys, decisions.shard.number)
        read += decisions.traces
        run.report("deduplicate", read, None)
    run.exclusions.review.check_ids(read, unread)
    paths = [of.path for of in decided]
    search = NearSearch(run.config.near_duplicate, paths, selection.left(), run.engine)
    return selection, selection.decide(search)


def _write(run: _Run, decided: Sequence[Decisions], outcomes: Sequence[Outcome], problems_of_golds: int) -> None:
    """The files from the decisions, proven complete."""
    counts = Counts(
        [(entry.name, entry.title) for entry in filters_with(tuple(run.config.filters))],
        problems_of_golds=problems_of_golds,
        golds=partial(_golds, decided),
    )
    for decisions in decided:
        counts.read(decisions.tally)
    read = counts.all.ids.count
    if not read:
        raise InputError(f"source {', '.join(run.config.paths)}: no rows; give a source with traces")
    kept = sum(outcome.kept for outcome in outcomes)
    outputs = _outputs(run, decided, outcomes, rejected=read > kept)
    others = []
    for written in run.engine.run(write_output, outputs[1:], read):
        others.append(written)
        run.report("write", len(others), len(outputs))

    def describe(first: Written) -> dict[str, str]:
        for _, tally in (first, *others):
            counts.decided(tally)
        return {
            **counts.metadata(kept),
            "rows_digest": combined_digest([digest for digest, _ in (first, *others)]),
        }

    write_output(outputs[0], None, describe)
    run.report("write", len(outputs), len(outputs))
    ids = IdDigest()
    for checked in run.engine.run(check_output, outputs, read):
        ids.merge(checked)
    if ids != counts.all.ids:
        raise RuntimeError(f"conservation violated: {read} traces read, {ids.count} written, or others")


def _outputs(run: _Run, decided: Sequence[Decisions], outcomes: Sequence[Outcome], rejected: bool) -> list[Output]:
    """The files to write and what goes into each; ``rejected``: whether any trace is."""
    metadata = {
        **run.inputs,
        "code_digest": kinds.PREPARED.code_digest(),
        "decided_by": json.dumps(sorted({decisions.maker for decisions in decided})),
    }
    log_probs = any(shard.mapping.target_log_probs for shard in run.shards)
    outputs, first = [], 0
    groups = _grouped(run.config.rows_per_file, decided, outcomes)
    for number, group in enumerate(groups):
        prepared, profile = (shard_path(run.folder / name, number, len(groups)) for name in (PREPARED, PROFILE_FILE))
        others = shard_path(run.folder / REJECTED_FILE, number, len(groups) if rejected else 1)
        paths = prepared, profile, others if rejected or not number else None
        pieces = [(of.path, of.shard.number, outcome, of.moved) for of, outcome in group]
        outputs.append(Output(pieces, first, log_probs, run.exclusions, paths, metadata))
        first += sum(outcome.kept for _, outcome in group)
    return outputs


def _grouped(
    rows: int, decided: Sequence[Decisions], outcomes: Sequence[Outcome]
) -> list[list[tuple[Decisions, Outcome]]]:
    """The pieces of each file: as many as have ``rows`` targets, or `READ_PER_FILE` times as many traces."""
    groups, kept, read = [[]], 0, 0
    for decisions, outcome in zip(decided, outcomes, strict=True):
        if kept >= rows or read >= READ_PER_FILE * rows:
            groups.append([])
            kept = read = 0
        groups[-1].append((decisions, outcome))
        kept, read = kept + outcome.kept, read + decisions.traces
    return groups


def _golds(decided: Sequence[Decisions], source: str) -> list[str]:
    """The first gold answers of a source block."""
    golds: list[str] = []
    for decisions in decided:
        if decisions.shard.source.name == source and len(golds) < MOST_GOLDS:
            rows = chain.from_iterable(iter_batches(decisions.path, ["gold"]))
            golds += [row["gold"] for row in rows if row["gold"]]
    return golds[:MOST_GOLDS]
