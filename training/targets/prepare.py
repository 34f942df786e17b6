"""Raw traces in; targets, their profile and the refused rows out. Every row read is in exactly one of the two.

Two passes, so that memory holds a batch of texts and never all of them: the first judges batches of traces (`judge`)
and spills the accepted ones to disk; between them duplicates are decided from digests (`dedupe`); the second writes.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.contamination import BenchmarkIndex
from evaluation.errors import InputError
from evaluation.files import digest_bytes, digest_table
from evaluation.grading import Grader
from evaluation.records import PROFILE, REJECTED, TARGET
from training.targets.config import PrepareConfig
from training.targets.dedupe import Candidate, choose, near_duplicates, problem_digest
from training.targets.filters import REASONS
from training.targets.judge import Accepted, Judge
from training.targets.output import (
    PREPARED,
    PROFILE_FILE,
    REJECTED_FILE,
    RowDigest,
    Stream,
    Tally,
    publish,
    rejected_row,
    spill_schema,
    spilled_row,
    staging,
    tally_files,
    target_row,
)
from training.targets.profile import profile_rows
from training.targets.sources import read_source
from training.targets.tokens import load_lengths
from training.targets.traces import Fault, Trace

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT_VERSION = "1"
TRACES_A_BATCH = 2048
CHARACTERS_A_BATCH = 64_000_000  # a batch of long texts ends earlier
ROWS_A_READ = 256  # of the spill: rows held at once in the second pass
EXAMPLES = 3  # reasons shown when nothing is left

Progress = Callable[[str, int, int | None], None]  # stage, rows done, rows in all where known


@dataclass(frozen=True)
class Prepared:
    """What a preparation wrote and counted."""

    prepared: Path
    profile: Path
    rejected: Path
    digest: str  # sha256 over the rows of `prepared`: its data version
    counts: dict[str, int]  # "read", "kept", and each reason that refused rows
    funnel: list[dict[str, Any]]  # {"filter", "title", "removed", "left"} in the order of the filters
    dialects: dict[str, int]
    disagreements: dict[str, int]  # our verdicts against the source's own flags
    config: PrepareConfig


def prepare(
    config: PrepareConfig,
    out_dir: Path,
    *,
    benchmarks: "pa.Table | None" = None,
    tokenizer_json: Path,
    progress: Progress | None = None,
    workers: int = 2,
) -> Prepared:
    """Write prepared, profile and rejected into ``out_dir`` and say what happened to the rows.

    ``benchmarks``: BENCHMARK rows whose problems must not become targets (None: not looked for, and the profile says
    so). ``tokenizer_json``: the policy's tokenizer.json or its folder. ``workers``: processes that compare answers; the
    output does not depend on it. Raises InputError for a source, tokenizer or setting that does not work and when no
    row is left; OSError when ``out_dir`` cannot be written. Then ``out_dir`` is as it was.
    """
    out_dir = Path(out_dir)
    report = progress or _silent
    lengths = load_lengths(Path(tokenizer_json))
    index = BenchmarkIndex(benchmarks) if benchmarks is not None else None
    traces = _begun(read_source(config))
    made_by = {
        "format": "luffy-targets",
        "version": FORMAT_VERSION,
        "source": json.dumps(config.source),
        "config": json.dumps(config.model_dump(mode="json"), sort_keys=True),
        "config_digest": config.digest(),
        "tokenizer_digest": lengths.digest,
        "benchmarks_digest": digest_table(benchmarks) if benchmarks is not None else "",
    }
    with (
        staging(out_dir) as room,
        Grader(workers, config.grade_limit_s) as grader,
        Stream(room / REJECTED_FILE, REJECTED, made_by) as refused,
        Stream(room / PREPARED, TARGET, made_by) as kept,
        Stream(room / PROFILE_FILE, PROFILE, made_by) as profile,
    ):
        judge = Judge(config, grader, lengths, index)
        first = _first_pass(traces, judge, room / "spill.parquet", refused, report)
        if not first.candidates:
            raise _nothing_left(config, first)
        report("deduplicate", 0, len(first.candidates))
        losers = _duplicates(first, config)
        expected = len(first.candidates) - len(losers)
        digest = RowDigest()
        for batch in _spilled(room / "spill.parquet"):
            winners = [row for row in batch if row["position"] not in losers]
            for row in batch:
                if row["position"] in losers:
                    _refuse(row, losers[row["position"]], refused, first.counts)
            for row, facts in zip(winners, profile_rows(winners, lengths, grader, index), strict=True):
                target = target_row(row, kept.rows)
                digest.add(target)
                kept.add(target)
                profile.add(facts)
            report("write", kept.rows, expected)
        late = {name: json.dumps(value, sort_keys=True) for name, value in _summary(first, kept.rows, judge).items()}
        for stream in (kept, profile, refused):
            stream.close({**late, "rows_digest": digest.hexdigest()})
        _prove_conservation(first.read, [kept.path, refused.path], profile.path)
        publish(room, out_dir)
    return read_prepared(out_dir)


def read_prepared(folder: Path) -> Prepared:
    """What an earlier `prepare` into ``folder`` wrote and counted; InputError if there is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = [Path(folder) / name for name in (PREPARED, PROFILE_FILE, REJECTED_FILE)]
    found = []
    for path in paths:
        try:
            found.append({k.decode(): v.decode() for k, v in (pq.read_metadata(path).metadata or {}).items()})
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{path}: no prepared targets there ({error}); run python -m training.targets") from error
    if "rows_digest" not in found[0]:
        raise InputError(f"{paths[0]}: not written by training.targets; run python -m training.targets")
    if len({(metadata["rows_digest"], metadata["config_digest"]) for metadata in found}) > 1:
        raise InputError(f"{folder}: prepared, profile and rejected are of different runs; prepare again")
    metadata = found[0]
    return Prepared(
        *paths,
        digest=metadata["rows_digest"],
        counts=json.loads(metadata["counts"]),
        funnel=json.loads(metadata["funnel"]),
        dialects=json.loads(metadata["dialects"]),
        disagreements=json.loads(metadata["disagreements"]),
        config=PrepareConfig.model_validate_json(metadata["config"]),
    )


@dataclass
class _First:
    """What the first pass leaves in memory: counts, digests, and one text for each distinct problem."""

    read: Tally
    counts: Counter[str]
    sources: set[str]
    examples: dict[str, str]  # reason -> the first row it refused
    candidates: list[Candidate]
    problems: dict[str, tuple[str, str]]  # digest -> (problem, gold), in order of appearance


def _first_pass(traces: Iterable[Trace], judge: Judge, spill: Path, refused: Stream, report: Progress) -> _First:
    """Judge every trace; spill the accepted, record the refused."""
    first = _First(Tally(), Counter(), set(), {}, [], {})
    with Stream(spill, spill_schema(), {}) as accepted:
        for batch in _batches(traces):
            for trace, outcome in zip(batch, judge.judge(batch), strict=True):
                first.read.add(trace.id)
                first.sources.add(trace.source)
                if isinstance(outcome, Fault):
                    first.examples.setdefault(outcome.reason, f"{trace.id}: {outcome.detail}")
                    _refuse(trace, outcome, refused, first.counts)
                    continue
                accepted.add({"position": len(first.candidates), **spilled_row(outcome)})
                _remember(outcome, first)
            report("judge", first.read.count, None)
        accepted.close()
    return first


def _remember(accepted: Accepted, first: _First) -> None:
    problem, gold = accepted.trace.problem or "", accepted.trace.gold or ""
    data = accepted.target.encode()
    name = problem_digest(problem)
    first.problems.setdefault(name, (problem, gold))
    first.candidates.append(Candidate(accepted.trace.id, name, digest_bytes(data)[:32], len(data)))


def _refuse(trace: Trace | Mapping[str, Any], fault: Fault, refused: Stream, counts: Counter[str]) -> None:
    counts[fault.reason] += 1
    refused.add(rejected_row(trace, fault))


def _duplicates(first: _First, config: PrepareConfig) -> dict[int, Fault]:
    names = list(first.problems)
    repeats = near_duplicates(list(first.problems.values()), config.near_duplicate)
    same_as = {names[later]: (names[earlier], ratio) for later, (earlier, ratio) in repeats.items()}
    return choose(first.candidates, same_as, per_problem=config.traces_per_problem, keep=config.keep)


def _begun(traces: Iterator[Trace]) -> Iterator[Trace]:
    """``traces``, with its first one read: a source that cannot be opened says so before anything is written."""
    head = next(traces, None)
    return iter(()) if head is None else chain([head], traces)


def _batches(traces: Iterable[Trace]) -> Iterator[list[Trace]]:
    batch: list[Trace] = []
    characters = 0
    for trace in traces:
        batch.append(trace)
        characters += len(trace.response or "") + len(trace.problem or "")
        if len(batch) == TRACES_A_BATCH or characters > CHARACTERS_A_BATCH:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _spilled(path: Path) -> Iterator[list[dict[str, Any]]]:
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path).iter_batches(ROWS_A_READ):
        yield batch.to_pylist()


def _summary(first: _First, kept: int, judge: Judge) -> dict[str, Any]:
    left = first.read.count
    funnel = []
    for reason, title in REASONS.items():
        if removed := first.counts[reason]:
            left -= removed
            funnel.append({"filter": reason, "title": title, "removed": removed, "left": left})
    return {
        "counts": {"read": first.read.count, "kept": kept, **first.counts},
        "funnel": funnel,
        "dialects": dict(judge.dialects),
        "disagreements": {what: count for what, count in judge.disagreements.items() if count},
        "sources": sorted(first.sources),
    }


def _nothing_left(config: PrepareConfig, first: _First) -> InputError:
    source = ", ".join(config.source)
    if not first.read.count:
        return InputError(f"source {source}: no rows; give one with traces")
    shown = [
        f"{count} {reason} ({REASONS[reason]}; e.g. {first.examples[reason]})"
        for reason, count in first.counts.most_common(EXAMPLES)
    ]
    rest = first.read.count - sum(count for _, count in first.counts.most_common(EXAMPLES))
    return InputError(
        f"source {source}: none of {first.read.count} traces can be a target: "
        + "; ".join([*shown, *([f"{rest} for other reasons"] if rest else [])])
        + ". Give other traces or loosen the thresholds"
    )


def _prove_conservation(read: Tally, parts: list[Path], profile: Path) -> None:
    """Every id read is in exactly one of ``parts``, and the profile describes exactly the first; else RuntimeError."""
    written = tally_files(parts)
    if written != read:
        raise RuntimeError(f"conservation violated: {read.count} traces read, {written.count} accounted for, or others")
    if tally_files(parts[:1]) != tally_files([profile]):
        raise RuntimeError("conservation violated: the profile does not describe the prepared rows")


def _silent(stage: str, done: int, total: int | None) -> None:
    """Report nothing."""
