"""Raw traces in; targets, their profile and the rejected rows out. Every trace read is in exactly one of the two.

The processes of an `Engine` do all that reads or writes texts: they filter each piece of the sources, unless the
decisions on it are cached, compare problems that may be near duplicates, and write the files. This process only passes
over the keys of the accepted traces, to decide between duplicates.
"""

import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import pyarrow as pa

from core import kinds
from core.code_digest import identity
from core.errors import InputError
from core.files import digest_bytes, digest_table
from core.model.token_counts import load_lengths
from core.parquet import shard_path
from grading.contamination import BenchmarkIndex, held_out_benchmarks, templated_benchmarks
from targets.counts import MOST_GOLDS, Counts
from targets.engines.process_pool import build_engine
from targets.engines.tasks import Engine
from targets.filter.cache import REMEDY, DecisionCache, Decisions, versions
from targets.filter.context import FilterInputs
from targets.filter.filter_stages import FAILED
from targets.filter.filters import filters_with
from targets.filter.language import check_languages
from targets.prepared_files import PREPARED, PROFILE_FILE, REJECTED_FILE, Prepared, find_unchanged, read_prepared
from targets.read.sources import Part, find_parts
from targets.select.exclusions import Exclusions
from targets.select.near_search import Places, read_accepted
from targets.select.output import CheckFiles, WriteFiles, Written
from targets.select.selection import Outcome, Selection
from targets.select.split import SPLIT
from targets.settings import TargetSettings
from targets.staging import clear_staging, staging
from targets.target_tables import IdDigest, combined_digest, iter_batches, readable

FORMAT_VERSION = "6"
READ_PER_FILE = 4

Progress = Callable[[str, int, int | None], None]  # stage, rows done, rows in all where known


@dataclass(frozen=True)
class _Run:
    """The inputs of a preparation; ``inputs`` is recorded in its files."""

    parts: Sequence[Part]
    exclusions: Exclusions
    inputs: Mapping[str, str]
    report: Progress

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
) -> Prepared:
    """Write prepared, profile and rejected into ``out_dir`` and say what happened to the rows.

    Where ``out_dir`` already holds what would be written, nothing is done. Where every trace is rejected, the files say
    so, and `targets.prepared_files.require_targets` raises.

    Args:
        benchmarks: BENCHMARK rows whose problems must not become targets. None: they are not looked for, and the
            profile says so.
        tokenizer_json: the policy's tokenizer.json or its folder.
        progress: called with a stage, the rows done, and the rows in all where known.
        cache: folder that keeps the decisions on each part of the source. None: nothing is kept.
        generated: file of the source ``generated``, as ``luffy evaluate traces`` writes it.
        force: whether everything is made again, whatever ``out_dir`` and ``cache`` have.

    Raises:
        InputError: a source, tokenizer or setting does not work, or the sources hold no row.
        OSError: ``out_dir`` cannot be written.
        In both cases ``out_dir`` is as it was.
    """
    out_dir, tokenizer_json = Path(out_dir), Path(tokenizer_json)
    lengths = load_lengths(tokenizer_json, config.chat_template_kwargs)
    if benchmarks is not None:
        benchmarks = benchmarks.select(["benchmark", "id", "problem"])
    benchmarks_digest = _benchmarks_digest(benchmarks)
    filters_with(tuple(config.filters))  # before anything is written: one may not fit
    check_languages(config.languages)
    for path in config.paths:
        if os.path.isdir(path) and out_dir.resolve().is_relative_to(Path(path).resolve()):
            raise InputError(f"{out_dir}: inside the source {path}, so its files would be sources; give another folder")
    parts = find_parts(config, generated)
    exclusions = Exclusions.read(config)
    inputs = _inputs(parts, exclusions, lengths.digest, benchmarks_digest)
    if (earlier := find_unchanged(out_dir, inputs)) and FAILED not in earlier.all_reasons and not force:
        clear_staging(out_dir)
        return earlier

    run = _Run(parts, exclusions, inputs, progress or _silent)
    with staging(out_dir, (REJECTED_FILE, PROFILE_FILE, PREPARED), SPLIT) as staging_dir, ExitStack() as stack:
        folder = cache or staging_dir / "decisions"
        decisions = DecisionCache(config, lengths, benchmarks_digest, folder, force)
        tools = FilterInputs(config, tokenizer_json)

        @functools.cache
        def open_benchmarks() -> None:  # takes time, which a preparation that filters nothing does not need
            nonlocal tools
            index = None if benchmarks is None else BenchmarkIndex(benchmarks)
            tools = replace(tools, benchmarks=index)

        engine = stack.enter_context(build_engine(config.engine, lambda: tools, config.workers))
        decided = _filter(run, decisions, engine, open_benchmarks)
        selection, outcomes = _select(run, decided, engine, staging_dir)
        _write(run, decided, outcomes, selection.problems_of_golds, engine, staging_dir)
    return read_prepared(out_dir)


def _benchmarks_digest(benchmarks: pa.Table | None) -> str:
    """The digest of the rows, and of which benchmarks are compared in another way."""
    if benchmarks is None:
        return ""
    held_out = sorted(held_out_benchmarks(benchmarks))
    return identity(
        digest_table(benchmarks), sorted(templated_benchmarks(benchmarks)), *([held_out] if held_out else [])
    )


def _inputs(
    parts: Sequence[Part], exclusions: Exclusions, tokenizer_digest: str, benchmarks_digest: str
) -> dict[str, str]:
    """What decides what comes out, as the files record it; the code, which they record too, is not part of it."""
    config = exclusions.config
    mappings = [part.mapping.model_dump() | {"source": part.number} for part in parts]
    files = {part.name: {"source": part.source.name, "digest": part.fingerprint[0]} for part in parts}
    inputs = {
        "format": "luffy-targets",
        "version": FORMAT_VERSION,
        "source": json.dumps(config.paths),
        "source_digest": digest_bytes(repr([(part.name, part.fingerprint[0]) for part in parts]).encode()),
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
    if generations := {digest: settings for part in parts for digest, settings in part.generation.items()}:
        inputs["generations"] = json.dumps(generations, sort_keys=True)
    return inputs


def _filter(run: _Run, cache: DecisionCache, engine: Engine, open_benchmarks: Callable[[], None]) -> list[Decisions]:
    """The decisions on each piece, together on at most ``limit`` traces.

    ``open_benchmarks`` is called before anything is filtered.
    """
    pieces, rows = [], 0
    for part in run.parts:
        pieces += part.pieces(None if run.config.limit is None else run.config.limit - rows)
        rows = sum(piece.stop - piece.start for piece in pieces)
    missing = [cache.task(piece) for piece in pieces if not cache.has(piece)]
    lacking = sum(task.piece.stop - task.piece.start for task in missing)
    done = rows - lacking
    if missing:
        open_benchmarks()
    for task, _ in zip(missing, engine.run(missing, lacking), strict=True):
        done += task.piece.stop - task.piece.start
        run.report("filter", done, rows)
    left, decided = run.config.limit, []
    for piece in pieces:
        decisions = cache.read(piece)
        if left is not None and decisions.traces > left:  # a row has several traces
            cut = replace(piece, most=left)
            if left and not cache.has(cut):
                open_benchmarks()
                list(engine.run([cache.task(cut)], 1))
            decisions = cache.read(cut) if left else None
        if decisions is None:
            break
        decided.append(decisions)
        left = None if left is None else left - decisions.traces
    return decided


def _select(run: _Run, decided: Sequence[Decisions], engine: Engine, folder: Path) -> tuple[Selection, list[Outcome]]:
    """The outcome of the accepted traces of each piece, and who decided it."""
    selection = Selection(run.exclusions, folder)
    unread = {*run.exclusions.review.refused, *run.exclusions.review.kept}
    read = 0
    for decisions in decided:
        with readable(decisions.path, REMEDY):
            keys = read_accepted(decisions.path, selection.columns, unread)
        selection.add(keys, decisions.piece.part.number)
        read += decisions.traces
        run.report("deduplicate", read, None)
    run.exclusions.review.check_ids(read, unread)
    places = Places(run.config, [of.path for of in decided], selection.left(), engine)
    return selection, selection.decide(places.search)


def _write(
    run: _Run,
    decided: Sequence[Decisions],
    outcomes: Sequence[Outcome],
    problems_of_golds: int,
    engine: Engine,
    folder: Path,
) -> None:
    """The files in ``folder`` from the decisions, proven complete."""
    counts = Counts(
        [(entry.name, entry.title) for entry in filters_with(tuple(run.config.filters))],
        problems_of_golds=problems_of_golds,
        golds=functools.partial(_golds, decided),
    )
    for decisions in decided:
        counts.read(decisions.tally)
    if not counts.all.ids.count:
        raise InputError(f"source {', '.join(run.config.paths)}: no rows; give one with traces")
    inputs = {
        **run.inputs,
        "code_digest": kinds.PREPARED.code_digest(),
        "decided_by": json.dumps(sorted({decisions.maker for decisions in decided})),
    }
    log_probs = any(part.mapping.target_log_probs for part in run.parts)
    tasks, kept = [], 0
    groups = _grouped(run.config.rows_per_file, decided, outcomes)
    for number, group in enumerate(groups):
        names = (PREPARED, PROFILE_FILE, REJECTED_FILE)
        prepared, profile, rejected = (shard_path(folder / name, number, len(groups)) for name in names)
        pieces = [(of.path, of.piece.part.number, outcome) for of, outcome in group]
        tasks.append(WriteFiles(pieces, kept, log_probs, run.exclusions, (prepared, profile, rejected), inputs))
        kept += sum(outcome.kept for _, outcome in group)
    others = []
    for written in engine.run(tasks[1:], counts.all.ids.count):
        others.append(written)
        run.report("write", len(others), len(tasks))

    def describe(first: Written) -> dict[str, str]:
        for written in (first, *others):
            counts.decided(written.tally)
        digests = [written.digest for written in (first, *others)]
        return {**counts.metadata(kept), "rows_digest": combined_digest(digests)}

    tasks[0].write(describe)
    run.report("write", len(tasks), len(tasks))
    ids = IdDigest()
    for checked in engine.run([CheckFiles(task.paths) for task in tasks], counts.all.ids.count):
        ids.merge(checked)
    if ids != counts.all.ids:
        raise RuntimeError(f"conservation violated: {counts.all.ids.count} traces read, {ids.count} written, or others")


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
        if decisions.piece.part.source.name == source and len(golds) < MOST_GOLDS:
            rows = chain.from_iterable(iter_batches(decisions.path, ["gold"]))
            golds += [row["gold"] for row in rows if row["gold"]]
    return golds[:MOST_GOLDS]


def _silent(stage: str, done: int, total: int | None) -> None:
    """Report nothing."""
