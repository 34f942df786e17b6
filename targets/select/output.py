"""Write the targets, their profile and the rejected traces of some pieces into one file each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from core.schemas import MESSAGE, PASS_RATE, PROFILE, REJECTED, TARGET_LOG_PROBS, metadata_field, target_schema
from targets.counts import Tally
from targets.engines.tasks import Tools
from targets.select.exclusions import Exclusions
from targets.select.selection import KEPT, REPEATED, Outcome
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
class WriteFiles:
    """The task to write the traces of pieces; ``paths``: of the targets, the profile and the rejected traces."""

    pieces: Sequence[tuple[Path, int, Outcome]]  # file of the decisions, number of the source
    first: int  # `extra_info.index` of the first target
    log_probs: bool  # whether the targets have the column: the same in all files of a preparation
    exclusions: Exclusions
    paths: tuple[Path, Path, Path]
    metadata: Mapping[str, str]

    def __call__(self, tools: Tools) -> Written:
        return self.write(lambda _: {})

    def write(self, describe: Callable[[Written], Mapping[str, str]]) -> Written:
        """Write the files; what ``describe`` says of them joins their metadata."""
        writers = _Writers(self)
        with writers.targets, writers.profile, writers.rejected:
            for path, number, outcome in self.pieces:
                writers.add(path, self.exclusions.config.sources[number], outcome)
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
        import pyarrow as pa

        config = task.exclusions.config
        self._exclusions, self._log_probs, self._first = task.exclusions, task.log_probs, task.first
        self._metadata = metadata_field(config.metadata_names)
        optional = [TARGET_LOG_PROBS] * task.log_probs + [PASS_RATE] * bool(config.difficulty)
        self._schema = target_schema(*optional, *self._metadata, fields=any(source.fields for source in config.sources))
        self._profile_schema = pa.schema([*PROFILE, *self._metadata])
        self.tally, self.digest = Tally(), RowDigest(task.metadata["verifiers"])
        schemas = (self._schema, self._profile_schema, REJECTED)
        self.targets, self.profile, self.rejected = (
            TableWriter(path, schema, task.metadata) for path, schema in zip(task.paths, schemas, strict=True)
        )

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
        self.digest.add_table(targets)
        self.targets.add_table(targets)
        self.profile.add_table(table.select(self._profile_schema.names).cast(self._profile_schema))
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
        self.rejected.add(trace.rejected_row())

    def _target_table(self, table: "pa.Table", source: Source) -> "pa.Table":
        import pyarrow as pa

        count, schema = len(table), self._schema
        info = schema.field("extra_info").type
        start = self._first + self.targets.rows
        parts = {
            "split": pa.repeat("train", count),
            "index": pa.array(np.arange(start, start + count)),
            **{name: _whole(table[name]) for name in ("id", "source", "fields")},
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
        if "pass_rate" in schema.names:
            rates = self._exclusions.difficulty.rates
            columns["pass_rate"] = pa.array([rates.get(key) for key in table["text_key"].to_pylist()], PASS_RATE.type)
        return pa.table({name: columns[name] if name in columns else table[name] for name in schema.names}).cast(schema)


def _whole(column: "pa.ChunkedArray") -> "pa.Array":
    return column.combine_chunks()
