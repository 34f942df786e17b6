"""Write the targets, their profile and the rejected traces of some pieces into one file each."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from core.schemas import (
    MESSAGE,
    PASS_RATE,
    PROFILE,
    REJECTED,
    TARGET_LOG_PROBS,
    metadata_field,
    target_schema,
)
from targets.counts import Tally
from targets.files import (
    TOOLS,
    IdDigest,
    RowDigest,
    TableWriter,
    digest_ids,
    moved_rows,
    read_columns,
)
from targets.select.exclusions import Exclusions
from targets.select.selection import KEPT, REPEATED, Outcome
from targets.source_settings import Source
from targets.trace import Trace

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Output:
    """The traces of some pieces, and the files that they go into.

    ``paths``: of the targets, the profile and the rejected traces. The last is None where no trace of the preparation
    is rejected; its one file is then written with the first targets.
    """

    # File of the decisions, number of the source, outcome, and how many rows it has moved.
    pieces: Sequence[tuple[Path, int, Outcome, int]]
    first: int  # `extra_info.index` of the first target
    log_probs: bool  # whether the targets have the column: the same in all files of a preparation
    exclusions: Exclusions
    paths: tuple[Path, Path, Path | None]
    metadata: Mapping[str, str]

    def __str__(self) -> str:
        return self.paths[0].name


Written = tuple[str, Tally]  # the digest of the targets in a file, and the counts of its traces


def write_output(output: Output, _: object, describe: Callable[[Written], Mapping[str, str]] | None = None) -> Written:
    """Write the files of some pieces; what ``describe`` says of them joins their metadata."""
    with ExitStack() as stack:
        writers = _Writers(output, stack)
        for path, number, outcome, moved in output.pieces:
            writers.add(path, output.exclusions.config.sources[number], outcome, moved)
        written = writers.digest.hexdigest(), writers.tally
        metadata = {"rows_digest": written[0], **(describe(written) if describe else {})}
        for writer in writers.all:
            writer.close(metadata)
    return written


def check_output(output: Output, _: object) -> IdDigest:
    """The ids that the files of some pieces have, read back; RuntimeError if the profile is of other targets."""
    targets, profile, *rejected = (digest_ids([path]) for path in output.paths if path)
    if targets != profile:
        raise RuntimeError("conservation violated: the profile does not describe the prepared rows")
    for ids in rejected:
        targets.merge(ids)
    return targets


class _Writers:
    """The three files while they are written; ``stack`` releases them if an error ends it."""

    def __init__(self, output: Output, stack: ExitStack) -> None:
        import pyarrow as pa

        config = output.exclusions.config
        self._exclusions, self._log_probs, self._first = (
            output.exclusions,
            output.log_probs,
            output.first,
        )
        self._metadata = metadata_field(config.metadata_names)
        optional = [TARGET_LOG_PROBS] * output.log_probs + [PASS_RATE] * bool(config.difficulty)
        self._schema = target_schema(*optional, *self._metadata, fields=any(source.fields for source in config.sources))
        self._profile_schema = pa.schema([*PROFILE, *self._metadata])
        self.tally, self.digest = (
            Tally(),
            RowDigest(output.metadata["verifiers"], output.metadata.get(TOOLS, "")),
        )
        schemas = (self._schema, self._profile_schema, REJECTED)
        self.all = [
            stack.enter_context(TableWriter(path, schema, output.metadata))
            for path, schema in zip(output.paths, schemas, strict=True)
            if path
        ]

    def add(self, path: Path, source: Source, outcome: Outcome, moved: int) -> None:
        """Add the traces of a piece."""
        import pyarrow as pa

        reasons, at = iter(outcome.reasons), 0
        for stored in read_columns(path):
            table = moved_rows(stored, moved)
            accepted = np.asarray(table["spelling_key"].is_valid())
            count = int(accepted.sum())
            states = np.full(len(accepted), -1, np.int8)
            states[accepted] = outcome.states[at : at + count]
            at += count
            if (states == KEPT).any():
                self._keep(table.filter(pa.array(states == KEPT)), source)
            others = states != KEPT
            for row, state in zip(table.filter(pa.array(others)).to_pylist(), states[others].tolist(), strict=True):
                trace = Trace.from_decision(row)
                self._exclusions.apply(trace)
                if state == REPEATED:
                    trace.reject(next(reasons))
                self._reject(trace)

    def _keep(self, table: "pa.Table", source: Source) -> None:
        import pyarrow as pa

        metadata = [dict(row) for row in table["metadata"].to_pylist()]
        table = table.drop_columns("metadata")
        for field in self._metadata:  # one or none
            names = [named.name for named in field.type]
            column = pa.array([{name: row.get(name) for name in names} for row in metadata], field.type)
            table = table.append_column(field, column)
        targets = self._target_table(table, source)
        self.digest.add(targets)
        self.all[0].add_table(targets)
        self.all[1].add_table(table.select(self._profile_schema.names).cast(self._profile_schema))
        for name, described in zip(table["source"].to_pylist(), metadata, strict=True):
            self.tally.keep(name, str(source.name), described)
        if self._log_probs:
            there = int(table["has_log_probs"].to_numpy().sum())
            self.tally.log_probs["with"] += there
            self.tally.log_probs["without"] += len(table) - there

    def _reject(self, trace: Trace) -> None:
        if trace.id in self._exclusions.review.kept:
            self.tally.disagreements[f"a reviewer says keep, rejected as {trace.reasons[0]}"] += 1
        self.tally.reject(trace)
        self.all[2].add(trace.rejected_row())

    def _target_table(self, table: "pa.Table", source: Source) -> "pa.Table":
        import pyarrow as pa

        count, schema = len(table), self._schema
        info = schema.field("extra_info").type
        start = self._first + self.all[0].rows
        parts = {
            "split": pa.repeat("train", count),
            "index": pa.array(np.arange(start, start + count)),
            **{name: _whole(table[name]) for name in ("id", "source", "fields")},
        }
        reward = [pa.repeat(source.spec.type, count), _whole(table["gold"])]
        columns = {
            "target": _messages(table),
            "ability": pa.repeat(source.ability, count),
            "reward_model": pa.StructArray.from_arrays(reward, fields=list(schema.field("reward_model").type)),
            "extra_info": pa.StructArray.from_arrays([parts[field.name] for field in info], fields=list(info)),
        }
        if "pass_rate" in schema.names:
            rates = self._exclusions.difficulty.rates
            columns["pass_rate"] = pa.array([rates.get(key) for key in table["text_key"].to_pylist()], PASS_RATE.type)
        return pa.table({name: columns[name] if name in columns else table[name] for name in schema.names}).cast(schema)


def _messages(table: "pa.Table") -> "pa.Array":
    """Return the targets as messages: one, or those of an episode."""
    import pyarrow as pa
    import pyarrow.compute as pc

    count, turns = len(table), _whole(table["turns"])
    message = [pa.repeat("assistant", count), _whole(table["target"])]
    single = pa.ListArray.from_arrays(
        pa.array(np.arange(count + 1), pa.int32()),
        pa.StructArray.from_arrays(message, fields=list(MESSAGE)),
    )
    return single if turns.null_count == count else pc.call_function("if_else", [turns.is_valid(), turns, single])


def _whole(column: "pa.ChunkedArray") -> "pa.Array":
    return column.combine_chunks()
