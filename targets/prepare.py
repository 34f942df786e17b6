"""Raw traces in; targets, their profile and the rejected rows out. Every trace read is in exactly one of the two.

First every part of the source is filtered by an `Engine`, unless the decisions on it are cached. Then two passes over
the decisions, so that memory holds a batch of texts and never all of them: the first collects what decides between
duplicates, the second writes.
"""

import heapq
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.files import digest_bytes, digest_table
from core.model.tokens import load_lengths
from core.schemas import PASS_RATE, PROFILE, REJECTED, TARGET, TARGET_LOG_PROBS, metadata_field
from grading.contamination import BenchmarkIndex
from targets.breakdown import Breakdown
from targets.config import PrepareConfig
from targets.filter import filters
from targets.filter.cache import DecisionCache, code_digest, read_decisions
from targets.filter.context import FilterInputs
from targets.filter.engines import build_engine
from targets.prepared import PREPARED, PROFILE_FILE, REJECTED_FILE, Prepared, find_unchanged, read_prepared
from targets.read.sources import Part, find_parts
from targets.select.dedupe import Duplicates
from targets.select.difficulty import Difficulty, read_difficulty
from targets.select.review import Review, read_review
from targets.select.source_caps import SourceCaps
from targets.staging import clear_staging, staging
from targets.target_tables import IdDigest, RowDigest, TableWriter, digest_ids
from targets.trace import Trace

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT_VERSION = "6"
COUNTED_COLUMNS = ["id", "source", "row", "of", "reasons", "detail", "response_format", "verdict", "upstream_correct"]
COUNTED_COLUMNS += ["metadata"]
SELECT_COLUMNS = ["problem", "problem_digest", "dedupe_key", "target_digest", "target_bytes", "minhash"]

Progress = Callable[[str, int, int | None], None]  # stage, rows done, rows in all where known


def prepare(
    config: PrepareConfig,
    out_dir: Path,
    *,
    benchmarks: "pa.Table | None" = None,
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
    review, difficulty = read_review(config.review), read_difficulty(config.difficulty, config.pass_rate)
    # Before anything is written: a mapping may not fit.
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
        "review_digest": review.digest,
        "difficulty_digest": difficulty.digest,
        "code_digest": code_digest(),
        "mappings": json.dumps(mappings, sort_keys=True),
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
        files = _filter(config, parts, decisions, filter_inputs, report)
        _write(config, parts, files, (difficulty, review), staging_dir, inputs, report)
    return read_prepared(out_dir)


def _filter(
    config: PrepareConfig,
    parts: Sequence[Part],
    decisions: DecisionCache,
    inputs: Callable[[], FilterInputs],
    report: Progress,
) -> list[Path]:
    """The file of decisions on each part, together at most ``config.limit`` rows."""
    files: list[Path] = []
    before, left = 0, config.limit
    with build_engine(config.engine, inputs, config.workers) as engine:
        for part in parts:
            if left == 0:
                break

            def report_part(rows: int, total: int | None, before: int = before) -> None:
                report("filter", before + rows, None if total is None else before + total)

            files.append(decisions.file(part, left, engine, report_part))
            rows = decisions.count_rows(files[-1])
            before += rows
            left = None if left is None else left - rows
    return files


@dataclass
class _Counts:
    """What the first pass counts."""

    read: IdDigest = field(default_factory=IdDigest)
    reasons: Counter[str] = field(default_factory=Counter)  # the first of each trace
    all_reasons: Counter[str] = field(default_factory=Counter)
    sources: dict[str, Counter[str]] = field(default_factory=dict)
    response_formats: Counter[str] = field(default_factory=Counter)
    disagreements: Counter[str] = field(default_factory=Counter)
    breakdown: Breakdown = field(default_factory=Breakdown)
    log_probs: Counter[str] = field(default_factory=Counter)  # of kept targets, where a source has some

    def add(self, trace: Trace) -> None:
        self.read.add(trace.id)
        self.sources.setdefault(trace.source, Counter())["read"] += 1
        self.breakdown.add(trace, "read")
        if trace.response_format:
            self.response_formats[trace.response_format] += 1
        if trace.upstream_correct is True and trace.verdict not in (None, "correct"):
            self.disagreements[f"source says correct, graded {trace.verdict}"] += 1
        elif trace.upstream_correct is False and trace.verdict == "correct":
            self.disagreements["source says wrong, graded correct"] += 1
        if trace.reasons:
            self.reject(trace.reasons)

    def keep(self, trace: Trace) -> None:
        self.sources[trace.source]["kept"] += 1
        self.breakdown.add(trace, "kept")

    def reject(self, reasons: Sequence[str]) -> None:
        self.reasons[reasons[0]] += 1
        self.all_reasons.update(reasons)

    def filter_counts(self) -> list[dict[str, Any]]:
        """What each filter removed and left, in their order; filters that removed nothing are left out."""
        left, steps = self.read.count, []
        for entry in filters.FILTERS:
            if removed := self.reasons[entry.name]:
                left -= removed
                steps.append({"filter": entry.name, "title": entry.title, "removed": removed, "left": left})
        return steps

    def metadata(self, kept: int) -> dict[str, str]:
        """What the files record."""
        values = {
            "counts": {"read": self.read.count, "kept": kept, **self.reasons},
            "all_reasons": self.all_reasons,
            "filter_counts": self.filter_counts(),
            "sources": {name: {"read": n["read"], "kept": n["kept"]} for name, n in sorted(self.sources.items())},
            "breakdown": self.breakdown.values(),
            "log_probs": self.log_probs,
            "response_formats": self.response_formats,
            "disagreements": self.disagreements,
            "ids_read": [self.read.count, self.read.hexdigest()],
        }
        return {name: json.dumps(value, sort_keys=name != "breakdown") for name, value in values.items()}


def _write(
    config: PrepareConfig,
    parts: Sequence[Part],
    files: Sequence[Path],
    chosen: tuple[Difficulty, Review],
    staging_dir: Path,
    inputs: Mapping[str, str],
    report: Progress,
) -> None:
    """The three files in ``staging_dir`` from the decisions, proven complete."""
    import pyarrow as pa

    log_probs = [TARGET_LOG_PROBS] if any(part.mapping.target_log_probs for part in parts) else []
    pass_rate = [PASS_RATE] if config.difficulty else []
    metadata = metadata_field(config.metadata_names)
    schema = pa.schema([*TARGET, *log_probs, *pass_rate, *metadata])
    profile_schema = pa.schema([*PROFILE, *metadata])
    caps = SourceCaps(config)
    with (
        Duplicates(staging_dir / "duplicates.sqlite", config) as duplicates,
        TableWriter(staging_dir / REJECTED_FILE, REJECTED, inputs) as rejected,
        TableWriter(staging_dir / PREPARED, schema, inputs) as kept,
        TableWriter(staging_dir / PROFILE_FILE, profile_schema, inputs) as profile,
    ):
        counts = _Counts()
        difficulty, review = chosen
        unread = {*review.refused, *review.kept}
        for file, part in zip(files, parts, strict=False):  # a limit leaves parts out
            _first_pass(file, part, config, chosen, unread, counts, (duplicates, caps), report)
        if not counts.read.count:
            raise InputError(f"source {', '.join(config.paths)}: no rows; give one with traces")
        review.check_ids(counts.read.count, unread)
        duplicates.decide()
        caps.draw(position for position, _ in duplicates.rejections())
        rejections = heapq.merge(duplicates.rejections(), caps.rejections(), key=itemgetter(0))
        upcoming = next(rejections, None)
        digest, position = RowDigest(), 0
        for trace in (trace for traces in read_decisions(files) for trace in traces):
            difficulty.apply(trace)
            review.apply(trace)
            if not trace.reasons:
                if upcoming is not None and upcoming[0] == position:
                    trace.reject(upcoming[1])
                    counts.reject(trace.reasons)
                    upcoming = next(rejections, None)
                position += 1
            if trace.reasons and trace.id in review.kept:
                counts.disagreements[f"a reviewer says keep, rejected as {trace.reasons[0]}"] += 1
            if trace.reasons:
                _write_rejected(trace, rejected)
                continue
            counts.keep(trace)
            if log_probs:
                counts.log_probs["without" if trace.target_log_probs is None else "with"] += 1
            target = trace.target_row(kept.rows)
            digest.add(target)
            kept.add(target)
            profile.add(trace.profile_row())
            report("write", kept.rows, None)
        late = {**counts.metadata(kept.rows), "rows_digest": digest.hexdigest()}
        for writer in (kept, profile, rejected):
            writer.close(late)
        _check_conservation(counts.read, [kept.path, rejected.path], profile.path)


def _first_pass(
    file: Path,
    part: Part,
    config: PrepareConfig,
    chosen: tuple[Difficulty, Review],
    unread: set[str],
    counts: _Counts,
    selection: tuple[Duplicates, SourceCaps],
    report: Progress,
) -> None:
    """Count the traces of a part, collect the accepted ones, and check that none was lost on the way.

    The ids of the traces leave ``unread``, which are those that the review decides about.
    """
    row, generation, of = -1, 0, 0  # of the last trace: rows and generations must follow each other
    for traces in read_decisions([file], COUNTED_COLUMNS + SELECT_COLUMNS):
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
            for choice in chosen:
                choice.apply(trace)
            unread.discard(trace.id)
            counts.add(trace)
        accepted = [trace for trace in traces if not trace.reasons]
        selection[0].add(accepted)
        selection[1].add(accepted, part.number)
        report("deduplicate", counts.read.count, None)
    rows = part.fingerprint[1]
    complete = generation == of and rows in (None, row + 1)
    if not complete and config.limit is None:
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
