"""Cache the decisions on each part of a source: equal content, settings and code are filtered once.

``<cache>/<key>.parquet`` (DECISION), complete or absent, never changed. The key is a digest of everything that decides
what is in it, so that a new file costs its own rows and a new threshold costs all. Deleting the folder costs time only.
"""

import importlib.metadata
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from filelock import FileLock

from core import code_digest as covered_code
from core.files import atomic_write, digest_bytes
from core.model.tokens import Lengths
from core.schemas import DECISION
from targets.config import PrepareConfig
from targets.filter.engines import Engine
from targets.read.sources import Part
from targets.target_tables import TableWriter, iter_batches, readable
from targets.trace import Trace

PACKAGES = ("math-verify", "latex2sympy2_extended", "sympy", "antlr4-python3-runtime", "tokenizers", "rensa")
REMEDY = "delete it, and its rows are filtered again"


@cache
def code_digest() -> str:
    """Digest the code and the versions of the packages that decide about a trace."""
    parts = [covered_code.code_digest(*covered_code.PREPARATION_CODE)]
    parts += [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    return digest_bytes("\n".join(parts).encode())


@dataclass(frozen=True)
class DecisionCache:
    """The cached decisions in ``folder``, and what they depend on beside the part itself."""

    config: PrepareConfig
    lengths: Lengths
    benchmarks_digest: str
    folder: Path

    def key(self, part: Part, limit: int | None) -> str:
        """Name of the decisions on the first ``limit`` traces of ``part``."""
        decides = [part.name, part.fingerprint[0], part.mapping.model_dump(), limit, self.config.filter_digest()]
        source = part.source
        decides += [source.constants, source.metadata, source.name, source.spec.digest, source.fields]
        decides += [source.system_prompt, source.suffix]
        decides += [self.lengths.digest, self.benchmarks_digest, code_digest()]
        return digest_bytes(json.dumps(decides, sort_keys=True).encode())

    def file(self, part: Part, limit: int | None, engine: Engine, report: Callable[[int, int | None], None]) -> Path:
        """Return the file of decisions on ``part``; ``engine`` makes it if it is missing.

        ``report`` is called with the rows so far, and the rows in all where known.
        """
        key = self.key(part, limit)
        path = self.folder / f"{key}.parquet"
        if path.exists():
            return path
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / f".{key[:2]}.lock"):  # it stays; so there are 256 of them at most
            if not path.exists():  # no other preparation has made it meanwhile
                self._write(path, part, engine.filtered(part, limit), report)
        return path

    def _write(
        self, path: Path, part: Part, batches: Iterator[Sequence[Trace]], report: Callable[[int, int | None], None]
    ) -> None:
        with atomic_write(path) as temporary, TableWriter(temporary, DECISION, {"part": part.name}) as writer:
            for traces in batches:
                for trace in traces:
                    writer.add(trace.decision_row())
                report(writer.rows, part.fingerprint[1])
            writer.close()

    def count_rows(self, file: Path) -> int:
        """Rows of a cache file; InputError if it is damaged."""
        import pyarrow.parquet as pq

        with readable(file, REMEDY):
            return pq.read_metadata(file).num_rows


def read_decisions(files: Sequence[Path], columns: Sequence[str] | None = None) -> Iterator[list[Trace]]:
    """The traces in cache files in order, some at a time; InputError for a file that is damaged."""
    for file in files:
        with readable(file, REMEDY):
            for rows in iter_batches(file, columns):
                yield [Trace.from_decision(row) for row in rows]
