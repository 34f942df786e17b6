"""The judged rows of each part of a source, kept: a part is judged once for the same content, settings and code.

``<cache>/<key>.parquet``, complete or absent, never changed. The key is a digest of everything that decides what is in
it, so a new file costs its own rows and a new threshold costs all. Deleting the folder costs time only.
"""

import fcntl
import importlib.metadata
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from core import code
from core.errors import InputError
from core.files import digest_bytes
from core.tokens import Lengths
from targets.config import PrepareConfig
from targets.engines import Engine
from targets.filter.batch import judged_schema
from targets.output import Stream
from targets.read.sources import Part
from targets.read.traces import readable

PACKAGES = ("math-verify", "latex2sympy2_extended", "sympy", "antlr4-python3-runtime", "tokenizers", "rensa")
SAMPLE = 16  # texts of a part on which the two ways to count tokens must agree
ROWS_A_READ = 256


@cache
def code_digest() -> str:
    """Digest of the code, and the versions of the packages, that decide a judgement."""
    parts = [code.code_digest(*code.PREPARATION_CODE)]
    parts += [f"{name} {importlib.metadata.version(name)}" for name in PACKAGES]
    return digest_bytes("\n".join(parts).encode())


@dataclass(frozen=True)
class Judging:
    """What decides judgements beside the part itself."""

    config: PrepareConfig
    lengths: Lengths
    benchmarks_digest: str
    folder: Path  # the cache

    def key(self, part: Part, limit: int | None) -> str:
        """Name of the judged rows of ``part``, of its first ``limit`` traces."""
        decides = [part.name, part.fingerprint[0], part.mapping.model_dump(), limit, self.config.judging_digest()]
        decides += [self.lengths.digest, self.benchmarks_digest, code_digest()]
        return digest_bytes(json.dumps(decides, sort_keys=True).encode())

    def file(self, part: Part, limit: int | None, engine: Engine, report: Callable[[int, int | None], None]) -> Path:
        """The judged rows of ``part``, made if they are not there. ``report``: rows so far, rows in all if known."""
        key = self.key(part, limit)
        path = self.folder / f"{key}.parquet"
        if path.exists():
            return path
        first = [readable(trace, self.config).response for trace in islice(part.traces(), SAMPLE)]
        exact = self.lengths.agreeing([text for text in first if text]).fast is not self.lengths.fast
        self.folder.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder / f"{key}.lock"):
            if path.exists():  # another preparation has made it meanwhile
                return path
            temporary = self.folder / f".{key}.tmp"  # what a killed one left is overwritten
            try:
                with Stream(temporary, judged_schema(), {"part": part.name}) as stream:
                    for table in engine.judged(part, limit, exact):
                        stream.extend(table.cast(judged_schema()))
                        report(stream.rows, part.fingerprint[1])
                    stream.close()
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
        return path

    def tidy(self) -> None:
        """Remove the folder if it holds nothing."""
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait for, and hold, the right to make one file; the kernel frees it when this process ends."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def count_rows(file: Path) -> int:
    """Rows of a judged file; InputError if it is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_metadata(file).num_rows
    except (OSError, pa.ArrowException) as error:
        raise _damaged(file, error) from error


def judged_rows(files: Sequence[Path], columns: list[str] | None = None) -> Iterator[list[dict[str, Any]]]:
    """The rows of judged files in order, some at a time; InputError for a file that is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in files:
        try:
            for batch in pq.ParquetFile(file, pre_buffer=False).iter_batches(ROWS_A_READ, columns=columns):
                yield batch.to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise _damaged(file, error) from error


def _damaged(file: Path, error: Exception) -> InputError:
    return InputError(f"{file}: damaged ({error}): delete it, and its rows are judged again")
