"""Cache the decisions on each piece of a source: equal content and settings are filtered once.

``<cache>/<start of key>/<key>.parquet`` (DECISION), complete or absent. The key is a digest of all that decides what is
in it, so that a new file costs its own rows, and rows that come or go in a file of JSON lines cost those near them. The
process that filters a piece writes its file. A piece in which a verifier failed is filtered again. Deleting the folder
costs time only.
"""

import importlib.metadata
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from core.files import atomic_write, digest_bytes
from core.kinds import PREPARED
from core.parquet import read_shards
from core.schemas import DECISION
from targets.counts import Tally
from targets.files import IdDigest, TableWriter, moved_rows, read_metadata
from targets.filter.stages import FAILED, filter_traces
from targets.filter.worker import Worker
from targets.read.sources import Shard
from targets.settings import TargetSettings
from targets.trace import Trace

PACKAGES = (
    "math-verify",
    "latex2sympy2_extended",
    "sympy",
    "antlr4-python3-runtime",
    "tokenizers",
    "rapidfuzz",
    "rensa",
)
LANGUAGES = "py3langid"
REMEDY = "delete it, and its rows are filtered again"


@cache
def versions(*, languages: bool = False) -> str:
    """The number of preparations, and the versions of the packages that decide about a trace."""
    packages = (*PACKAGES, LANGUAGES) if languages else PACKAGES
    named = (f"{name} {importlib.metadata.version(name)}" for name in packages)
    return ", ".join((f"{PREPARED.name} {PREPARED.number}", *named))


@dataclass(frozen=True)
class Decisions:
    """The file of the decisions on a piece, and the counts of its traces; ``failed`` of them could not be verified.

    ``maker``: digest of the code that decided. ``moved``: how many rows the piece has moved in its file since then.
    """

    path: Path
    shard: Shard
    tally: Tally
    failed: int
    maker: str
    moved: int

    @property
    def traces(self) -> int:
        return self.tally.ids.count


@dataclass(frozen=True)
class DecisionCache:
    """The cached decisions in ``folder``, and what they depend on besides the piece itself.

    ``force``: whether what it has from earlier preparations is made again.
    """

    config: TargetSettings
    tokenizer_digest: str
    benchmarks_digest: str
    folder: Path
    force: bool = False
    tools_digest: str = ""
    _digests: dict[str, str] = field(default_factory=dict)

    def path(self, shard: Shard) -> Path:
        """Where the decisions on ``shard`` are, if there are any."""
        rows = [shard.rows] if shard.moves else [shard.start, shard.stop]
        decides = [self._settings_digest(shard), shard.digest, rows, shard.most]
        name = digest_bytes(json.dumps(decides).encode())
        return self.folder / name[:2] / f"{name}.parquet"  # reading a file lists the others of its folder

    def has(self, shard: Shard) -> bool:
        """Return whether the decisions on ``shard`` are recorded and none failed, such as by a judge that was down."""
        return not self.force and self.path(shard).exists() and not self.read(shard).failed

    def read(self, shard: Shard) -> Decisions:
        """What is recorded about ``shard``; InputError if its file is damaged."""
        path = self.path(shard)
        metadata = read_metadata(path, REMEDY)
        tally, moved = Tally.from_json(metadata["tally"]), shard.start - int(metadata["start"])
        if moved:
            tally.ids = IdDigest()
            for name in moved_rows(read_shards(path, REMEDY, columns=["id", "source", "row"]), moved)["id"].to_pylist():
                tally.ids.add(name)
        return Decisions(path, shard, tally, int(metadata["failed"]), metadata["code_digest"], moved)

    def _settings_digest(self, shard: Shard) -> str:
        if shard.name not in self._digests:
            source = shard.source
            decides = [DECISION.names, shard.name, shard.mapping.model_dump(), self._filter_digest]
            decides += [source.constants, source.metadata, source.name, source.spec.digest, source.fields]
            decides += [source.system_prompt, source.suffix]
            decides += [self.config.max_target_tokens if shard.mapping.target_log_probs else None]
            decides += [self.tokenizer_digest, self.benchmarks_digest, versions(languages=bool(self.config.languages))]
            decides += [self.tools_digest] if self.tools_digest else []
            self._digests[shard.name] = digest_bytes(json.dumps(decides, sort_keys=True).encode())
        return self._digests[shard.name]

    @cached_property
    def _filter_digest(self) -> str:
        return self.config.filter_digest()


class Undecided(NamedTuple):
    """A piece without decisions, and the file to write them to."""

    shard: Shard
    path: Path

    def __str__(self) -> str:
        return str(self.shard)


def filter_shard(undecided: Undecided, worker: Worker) -> None:
    """Filter a piece, and write the decisions on its traces."""
    (shard, path), tally, failed = undecided, Tally(), 0
    with atomic_write(path) as temporary, TableWriter(temporary, DECISION, {"shard": shard.name}) as writer:
        batches = (filter_traces(traces, worker) for traces in shard.batches())
        for trace in in_order(batches, shard):
            tally.read(trace)
            failed += FAILED in trace.reasons
            writer.add(trace.decision_row(), len(trace.target) + len(trace.response or ""))
        recorded = {"tally": tally.to_json(), "failed": str(failed), "start": str(shard.start)}
        writer.close(recorded | {"code_digest": PREPARED.code_digest()})


def in_order(batches: Iterable[Iterable[Trace]], shard: Shard) -> Iterator[Trace]:
    """The traces; RuntimeError if one of ``shard`` is missing: rows and their generations follow each other."""
    row, generation, of = shard.start - 1, 0, 0  # of the last trace
    for traces in batches:
        for trace in traces:
            if trace.row == row:
                generation += 1
            elif trace.row == row + 1 and generation == of:
                row, generation = trace.row, 1
            else:
                raise RuntimeError(
                    f"conservation violated: {shard.name}: row {trace.row} follows {generation} of {of} "
                    f"traces of row {row}"
                )
            of = trace.of
            yield trace
    if shard.most is None and (generation != of or row + 1 != shard.stop):
        raise RuntimeError(f"conservation violated: {shard.name}: {row + 1} rows read, the source has {shard.stop}")
