"""Raw traces in; targets, their profile and the refused rows out. Every row read is in exactly one of the two.

First every part of the source is judged (`judge`, by an `engines.Engine`), unless that is remembered (`judged`). Then
two passes over the judged rows, so that memory holds a batch of texts and never all of them: one remembers what decides
between duplicates (`dedupe`), the other writes.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.files import digest_bytes, digest_table
from core.schemas import PROFILE, REJECTED, TARGET
from core.tokens import load_lengths
from grading.contamination import BenchmarkIndex
from targets.config import PrepareConfig
from targets.engines import build_engine
from targets.filter.batch import Setup
from targets.filter.cache import Judging, code_digest, count_rows, judged_rows
from targets.filter.rules import REASONS
from targets.output import (
    PREPARED,
    PROFILE_FILE,
    REJECTED_FILE,
    RowDigest,
    Stream,
    Tally,
    publish,
    rejected_row,
    staging,
    tally_files,
    target_row,
)
from targets.read.sources import Part, find_parts
from targets.read.traces import Fault
from targets.select.dedupe import Duplicates

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT_VERSION = "2"
EXAMPLES = 3  # reasons shown when nothing is left
DECIDING = ["id", "source", "row", "of", "reasons", "detail", "dialect", "verdict", "upstream_correct", "problem"]
DECIDING += ["problem_digest", "skeleton", "target_digest", "size", "sketch"]

Progress = Callable[[str, int, int | None], None]  # stage, rows done, rows in all where known


@dataclass(frozen=True)
class Prepared:
    """What a preparation wrote and counted."""

    prepared: Path
    profile: Path
    rejected: Path
    digest: str  # sha256 over the rows of `prepared`: its data version
    counts: dict[str, int]  # "read", "kept", and each reason that refused rows first
    found: dict[str, int]  # each reason that was found, also where it was not the first
    funnel: list[dict[str, Any]]  # {"filter", "title", "removed", "left"} in the order of the filters
    sources: dict[str, dict[str, int]]  # {source: {"read", "kept"}}
    dialects: dict[str, int]
    disagreements: dict[str, int]  # our verdicts against the source's own flags
    config: PrepareConfig
    reused: bool = field(default=False, compare=False)  # nothing had changed since an earlier run, so nothing was done


def prepare(
    config: PrepareConfig,
    out_dir: Path,
    *,
    benchmarks: "pa.Table | None" = None,
    tokenizer_json: Path,
    progress: Progress | None = None,
    cache: Path | None = None,
) -> Prepared:
    """Write prepared, profile and rejected into ``out_dir`` and say what happened to the rows.

    ``benchmarks``: BENCHMARK rows whose problems must not become targets (None: not looked for, and the profile says
    so). ``tokenizer_json``: the policy's tokenizer.json or its folder. ``cache``: folder that remembers judged parts
    (None: nothing is remembered). Where ``out_dir`` already holds what would be written, nothing is done. Raises
    InputError for a source, tokenizer or setting that does not work and when no row is left; OSError when ``out_dir``
    cannot be written. Then ``out_dir`` is as it was.
    """
    out_dir = Path(out_dir)
    lengths = load_lengths(Path(tokenizer_json))
    if benchmarks is not None:
        benchmarks = benchmarks.select(["benchmark", "id", "problem"])
    benchmarks_digest = digest_table(benchmarks) if benchmarks is not None else ""
    parts = find_parts(config)
    mappings = [part.mapping.model_dump() for part in parts]  # before anything is written: one may not fit
    made_by = {
        "format": "luffy-targets",
        "version": FORMAT_VERSION,
        "source": json.dumps(config.source),
        "source_digest": digest_bytes(repr([(part.name, part.fingerprint[0]) for part in parts]).encode()),
        "config": json.dumps(config.deciding(), sort_keys=True),
        "config_digest": config.digest(),
        "tokenizer_digest": lengths.digest,
        "benchmarks_digest": benchmarks_digest,
        "code_digest": code_digest(),
        "mappings": json.dumps(mappings, sort_keys=True),
    }
    if earlier := _unchanged(out_dir, made_by):
        return earlier

    def setup() -> Setup:
        return Setup(config, Path(tokenizer_json), None if benchmarks is None else BenchmarkIndex(benchmarks))

    with staging(out_dir) as room:
        judging = Judging(config, lengths, benchmarks_digest, cache or room / "judged")
        try:
            files = _judge(config, parts, judging, setup, progress or _silent)
        finally:
            judging.tidy()
        _write(config, parts, files, room, made_by, progress or _silent)
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
            raise InputError(f"{path}: no prepared targets there ({error}); run python -m targets") from error
    if "rows_digest" not in found[0]:
        raise InputError(f"{paths[0]}: not written by targets; run python -m targets")
    if len({(metadata["rows_digest"], metadata["config_digest"]) for metadata in found}) > 1:
        raise InputError(f"{folder}: prepared, profile and rejected are of different runs; prepare again")
    metadata = found[0]
    summary = {name: json.loads(metadata[name]) for name in ("counts", "found", "funnel", "sources", "dialects")}
    return Prepared(
        *paths,
        digest=metadata["rows_digest"],
        **summary,
        disagreements=json.loads(metadata["disagreements"]),
        config=PrepareConfig.model_validate_json(metadata["config"]),
    )


def _unchanged(out_dir: Path, made_by: Mapping[str, str]) -> Prepared | None:
    """What is in ``out_dir``, if it was made of the same content by the same settings and code."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(out_dir / PREPARED).metadata or {}
        if any(metadata.get(name.encode()) != value.encode() for name, value in made_by.items()):
            return None
        found = read_prepared(out_dir)
    except (OSError, pa.ArrowException, InputError):
        return None  # nothing there, or nothing of ours: it is made
    return Prepared(**{**vars(found), "reused": True})


def _judge(
    config: PrepareConfig, parts: Sequence[Part], judging: Judging, setup: Callable[[], Setup], report: Progress
) -> list[Path]:
    """The judged file of each part, together at most ``config.limit`` rows."""
    files: list[Path] = []
    before, left = 0, config.limit
    with build_engine(config.engine, setup, config.workers) as engine:
        for part in parts:
            if left == 0:
                break

            def say(rows: int, total: int | None, before: int = before) -> None:
                report("judge", before + rows, None if total is None else before + total)

            files.append(judging.file(part, left, engine, say))
            rows = count_rows(files[-1])
            before += rows
            left = None if left is None else left - rows
    return files


@dataclass
class _Seen:
    """What the first pass counts, and the last row it saw: rows and generations must follow each other."""

    read: Tally = field(default_factory=Tally)
    counts: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    sources: dict[str, Counter[str]] = field(default_factory=dict)
    dialects: Counter[str] = field(default_factory=Counter)
    disagreements: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)  # reason -> the first row it refused
    accepted: int = 0

    def add(self, row: Mapping[str, Any]) -> None:
        self.read.add(row["id"])
        self.sources.setdefault(row["source"], Counter())["read"] += 1
        if row["dialect"]:
            self.dialects[row["dialect"]] += 1
        claimed, verdict = row["upstream_correct"], row["verdict"]
        if claimed is True and verdict not in (None, "correct"):
            self.disagreements[f"source says correct, graded {verdict}"] += 1
        elif claimed is False and verdict == "correct":
            self.disagreements["source says wrong, graded correct"] += 1
        self.found.update(row["reasons"])
        if row["reasons"]:
            self.counts[row["reasons"][0]] += 1
            self.examples.setdefault(row["reasons"][0], f"{row['id']}: {row['detail']}")
        else:
            self.accepted += 1


def _write(
    config: PrepareConfig,
    parts: Sequence[Part],
    files: Sequence[Path],
    room: Path,
    made_by: Mapping[str, str],
    report: Progress,
) -> None:
    """The three files in ``room`` from the judged rows, proven complete."""
    with (
        Duplicates(room / "duplicates.sqlite", config) as duplicates,
        Stream(room / REJECTED_FILE, REJECTED, made_by) as refused,
        Stream(room / PREPARED, TARGET, made_by) as kept,
        Stream(room / PROFILE_FILE, PROFILE, made_by) as profile,
    ):
        seen = _Seen()
        for file, part in zip(files, parts, strict=False):  # a limit leaves parts out
            _first_pass(file, part, config, seen, duplicates, report)
        if not seen.accepted:
            raise _nothing_left(config, seen)
        losers = duplicates.losers()
        digest, position = RowDigest(), 0
        loser = next(losers, None)
        for row in (row for batch in judged_rows(files) for row in batch):
            if row["reasons"]:
                _refuse(row, None, refused)
                continue
            if loser is not None and loser[0] == position:
                seen.counts[loser[1].reason] += 1
                seen.found[loser[1].reason] += 1
                _refuse(row, loser[1], refused)
                loser = next(losers, None)
            else:
                seen.sources[row["source"]]["kept"] += 1
                target = target_row(row, kept.rows)
                digest.add(target)
                kept.add(target)
                profile.add({name: row[name] for name in PROFILE.names})
                report("write", kept.rows, None)
            position += 1
        late = {name: json.dumps(value, sort_keys=True) for name, value in _summary(seen, kept.rows).items()}
        for stream in (kept, profile, refused):
            stream.close({**late, "rows_digest": digest.hexdigest()})
        _prove_conservation(seen.read, [kept.path, refused.path], profile.path)


def _first_pass(
    file: Path, part: Part, config: PrepareConfig, seen: _Seen, duplicates: Duplicates, report: Progress
) -> None:
    """Count the rows of a part, remember the accepted ones, and prove that none was lost on the way."""
    row_number, generation = -1, 0
    last: Mapping[str, Any] = {"of": 0}
    for batch in judged_rows([file], DECIDING):
        for row in batch:
            if row["row"] == row_number:
                generation += 1
            elif row["row"] == row_number + 1 and generation == last["of"]:
                row_number, generation = row["row"], 1
            else:
                raise RuntimeError(
                    f"conservation violated: {part.name}: row {row['row']} follows {generation} of {last['of']} "
                    f"traces of row {row_number}"
                )
            last = row
            seen.add(row)
        duplicates.add(row for row in batch if not row["reasons"])
        report("deduplicate", seen.read.count, None)
    rows = part.fingerprint[1]
    complete = generation == last["of"] and rows in (None, row_number + 1)
    if not complete and config.limit is None:
        raise RuntimeError(f"conservation violated: {part.name}: {row_number + 1} rows read, the source has {rows}")


def _refuse(row: Mapping[str, Any], fault: Fault | None, refused: Stream) -> None:
    refused.add(rejected_row(row, fault))


def _summary(seen: _Seen, kept: int) -> dict[str, Any]:
    left = seen.read.count
    funnel = []
    for reason, title in REASONS.items():
        if removed := seen.counts[reason]:
            left -= removed
            funnel.append({"filter": reason, "title": title, "removed": removed, "left": left})
    return {
        "counts": {"read": seen.read.count, "kept": kept, **seen.counts},
        "found": seen.found,
        "funnel": funnel,
        "sources": {name: {"read": n["read"], "kept": n["kept"]} for name, n in sorted(seen.sources.items())},
        "dialects": seen.dialects,
        "disagreements": seen.disagreements,
        "read_tally": [seen.read.count, seen.read.hexdigest()],
    }


def _nothing_left(config: PrepareConfig, seen: _Seen) -> InputError:
    source = ", ".join(config.source)
    if not seen.read.count:
        return InputError(f"source {source}: no rows; give one with traces")
    shown = [
        f"{count} {reason} ({REASONS[reason]}; e.g. {seen.examples[reason]})"
        for reason, count in seen.counts.most_common(EXAMPLES)
    ]
    rest = seen.read.count - sum(count for _, count in seen.counts.most_common(EXAMPLES))
    return InputError(
        f"source {source}: none of {seen.read.count} traces can be a target: "
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
