"""Write the targets, their profile and the rejected traces of some pieces into one file each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from core.schemas import MESSAGE, PASS_RATE, PROFILE, REJECTED, TARGET_LOG_PROBS, metadata_field, target_schema
from targets.config import PrepareConfig
from targets.counts import Tally
from targets.engines.tasks import Tools
from targets.select.selection import KEPT, REPEATED, Choices, Outcome
from targets.source_settings import Source
from targets.target_tables import IdDigest, RowDigest, TableWriter, digest_ids, read_columns
from targets.trace import Trace

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Written:
    """What is in the files: the digest of the targets, and the counts."""

    digest: str
    tally: Tally


@dataclass(frozen=True)
class CheckFiles:
    """The task to read the ids back from the files of targets, their profile and rejected traces."""

    paths: tuple[Path, Path, Path]

    def __call__(self, tools: Tools) -> IdDigest:
        """The ids of the targets and of the rejected traces; RuntimeError if the profile is of other targets."""
        targets, profile, rejected = (digest_ids([path]) for path in self.paths)
        if targets != profile:
            raise RuntimeError("conservation violated: the profile does not describe the prepared rows")
        targets.merge(rejected)
        return targets

    def __str__(self) -> str:
        return f"checked {self.paths[0].name}"


@dataclass(frozen=True)
class Layout:
    """The optional columns of the targets: the same in all files of a preparation."""

    config: PrepareConfig
    log_probs: bool

    @property
    def fields(self) -> bool:
        return any(source.fields for source in self.config.sources)

    def schema(self) -> "pa.Schema":
        """Of the targets."""
        optional = [TARGET_LOG_PROBS] * self.log_probs + [PASS_RATE] * bool(self.config.difficulty)
        return target_schema(*optional, *metadata_field(self.config.metadata_names), fields=self.fields)

    def profile_schema(self) -> "pa.Schema":
        import pyarrow as pa

        return pa.schema([*PROFILE, *metadata_field(self.config.metadata_names)])


@dataclass(frozen=True)
class WriteFiles:
    """The task to write the traces of pieces; ``paths``: of the targets, the profile and the rejected traces."""

    pieces: Sequence[tuple[Path, int, Outcome]]  # file of the decisions, number of the source
    first: int  # `extra_info.index` of the first target
    layout: Layout
    choices: Choices
    paths: tuple[Path, Path, Path]
    metadata: Mapping[str, str]

    def __call__(self, tools: Tools) -> Written:
        return self.write(lambda _: {})

    def write(self, describe: Callable[[Written], Mapping[str, str]]) -> Written:
        """Write the files; what ``describe`` says of them joins their metadata."""
        writers = _Writers(self)
        with writers.targets, writers.profile, writers.rejected:
            for path, number, outcome in self.pieces:
                writers.add(path, self.layout.config.sources[number], outcome)
            written = Written(writers.digest.hexdigest(), writers.tally)
            metadata = {"rows_digest": written.digest, **describe(written)}
            for writer in (writers.targets, writers.profile, writers.rejected):
                writer.close(metadata)
        return written

    def __str__(self) -> str:
        return f"wrote {self.paths[0].name}"


class _Writers:
    """The three files while they are written."""

    def __init__(self, task: WriteFiles) -> None:
        self._layout, self._choices = task.layout, task.choices
        self._first, self.tally, self.digest = task.first, Tally(), RowDigest(task.metadata["verifiers"])
        schemas = (task.layout.schema(), task.layout.profile_schema(), REJECTED)
        self.targets, self.profile, self.rejected = (
            TableWriter(path, schema, task.metadata) for path, schema in zip(task.paths, schemas, strict=True)
        )
        self._schemas = schemas

    def add(self, path: Path, source: Source, outcome: Outcome) -> None:
        """Add the traces of a piece."""
        import pyarrow as pa

        reasons, at = iter(outcome.reasons), 0
        for table in read_columns(path):
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
                self._choices.apply(trace, self._layout.config)
                if state == REPEATED:
                    trace.reject(next(reasons))
                self._reject(trace)

    def _keep(self, table: "pa.Table", source: Source) -> None:
        metadata = _metadata(table, source)
        targets = self._target_table(table, source, metadata)
        self.digest.add_table(targets)
        self.targets.add_table(targets)
        self.profile.add_table(_with_metadata(table, self._layout, metadata, self._schemas[1]))
        for name, described in zip(table["source"].to_pylist(), metadata, strict=True):
            self.tally.keep(name, str(source.name), described)
        if self._layout.log_probs:
            there = int(table["has_log_probs"].to_numpy().sum())
            self.tally.log_probs["with"] += there
            self.tally.log_probs["without"] += len(table) - there

    def _reject(self, trace: Trace) -> None:
        if trace.id in self._choices.review.kept:
            self.tally.disagreements[f"a reviewer says keep, rejected as {trace.reasons[0]}"] += 1
        self.tally.reject(trace)
        write_rejected(trace, self.rejected)

    def _target_table(self, table: "pa.Table", source: Source, metadata: Sequence[Mapping[str, str]]) -> "pa.Table":
        import pyarrow as pa

        count, schema = len(table), self._schemas[0]
        info = schema.field("extra_info").type
        start = self._first + self.targets.rows
        parts = {
            "split": pa.repeat("train", count),
            "index": pa.array(np.arange(start, start + count)),
            **{name: _whole(table[name]) for name in ("id", "source")},
            **({"fields": _whole(table["fields"])} if self._layout.fields else {}),
        }
        message = [pa.repeat("assistant", count), _whole(table["target"])]
        reward = [pa.repeat(source.spec.type, count), _whole(table["gold"])]
        columns = {
            "target": pa.ListArray.from_arrays(
                pa.array(np.arange(count + 1), pa.int32()), pa.StructArray.from_arrays(message, fields=list(MESSAGE))
            ),
            "ability": pa.repeat(source.ability, count),
            "reward_model": pa.StructArray.from_arrays(reward, fields=list(schema.field("reward_model").type)),
            "extra_info": pa.StructArray.from_arrays([parts[field.name] for field in info], fields=list(info)),
        }
        if self._layout.config.difficulty:
            columns["pass_rate"] = pa.array(
                self._choices.difficulty.rates_of(table["text_key"].to_numpy()), PASS_RATE.type
            )
        for name, column in columns.items():
            table = table.drop_columns(name) if name in table.column_names else table
            table = table.append_column(name, column)
        return _with_metadata(table, self._layout, metadata, schema)


def write_rejected(trace: Trace, writer: TableWriter) -> None:
    """Add a rejected trace."""
    writer.add(trace.rejected_row())


def _with_metadata(
    table: "pa.Table", layout: Layout, metadata: Sequence[Mapping[str, str]], schema: "pa.Schema"
) -> "pa.Table":
    """The columns of ``schema``, the last of them as a struct of the metadata of all sources."""
    import pyarrow as pa

    if layout.config.metadata_names:
        field = schema.field("metadata")
        column = pa.array(
            [{name: row.get(name) for name in layout.config.metadata_names} for row in metadata], field.type
        )
        table = table.drop_columns("metadata").append_column(field, column)
    return table.select(schema.names).cast(schema)


def _metadata(table: "pa.Table", source: Source) -> list[dict[str, str]]:
    """The metadata of each trace of a source."""
    if not source.metadata_names:
        return [{}] * len(table)
    return [dict(row) for row in table["metadata"].to_pylist()]


def _whole(column: "pa.ChunkedArray") -> "pa.Array":
    return column.combine_chunks()
