"""Write and read the parquet files of targets, and compute the digests over their rows."""

import hashlib
import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from core.errors import InputError

ROWS_PER_READ = 256
# A row group is as many tables as reach so many bytes: one of long texts, many of short ones. What a file's footer
# says of each group is in memory while it is written and read, so that many small groups would add up.
ROWS_PER_TABLE = 1024
BYTES_PER_GROUP = 16 << 20


class TableWriter:
    """Writes rows into one parquet file, a row group at a time.

    As a context manager it releases the file if an error ends the block; call `close` to finish it.
    """

    def __init__(self, path: Path, schema: Any, metadata: Mapping[str, str]) -> None:
        import pyarrow.parquet as pq

        self.path = path
        self.rows = 0
        self._schema = schema
        self._pending: list[dict[str, Any]] = []
        self._tables: list[Any] = []  # of the next row group
        self._writer = pq.ParquetWriter(path, schema.with_metadata(dict(metadata)), compression="zstd")

    def add(self, row: dict[str, Any]) -> None:
        self._pending.append(row)
        self.rows += 1
        if len(self._pending) == ROWS_PER_TABLE:
            self._end_table()

    def close(self, metadata: Mapping[str, str] | None = None) -> None:
        """Write what is pending. ``metadata`` that only the last row completes joins the file's."""
        self._end_table()
        self._write_group()
        if metadata:
            self._writer.add_key_value_metadata(dict(metadata))
        self._writer.close()

    def __enter__(self) -> "TableWriter":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a full disk fails the footer too; the error that matters is on its way already
            self._writer.close()

    def _end_table(self) -> None:
        import pyarrow as pa

        if self._pending:
            self._tables.append(pa.Table.from_pylist(self._pending, schema=self._schema))
            self._pending.clear()
            if sum(table.nbytes for table in self._tables) >= BYTES_PER_GROUP:
                self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa

        if self._tables:
            group = pa.concat_tables(self._tables)
            self._writer.write_table(group, row_group_size=max(1, group.num_rows))
            self._tables.clear()


@contextmanager
def readable(path: Path, remedy: str) -> Iterator[None]:
    """Turn the errors of reading ``path`` as parquet into an InputError that ends with ``remedy``."""
    import pyarrow as pa

    try:
        yield
    except (OSError, KeyError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {error}; {remedy}") from error


def read_metadata(path: Path, remedy: str) -> dict[str, str]:
    """What the writer of a file has recorded in it; InputError if it cannot be read."""
    import pyarrow.parquet as pq

    with readable(path, remedy):
        metadata = pq.read_metadata(path).metadata or {}
    return {name.decode(): value.decode() for name, value in metadata.items() if name != b"ARROW:schema"}


def iter_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[list[dict[str, Any]]]:
    """The rows of a file, some at a time."""
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path, pre_buffer=False).iter_batches(ROWS_PER_READ, columns=columns):
        yield batch.to_pylist()


class IdDigest:
    """A digest of a collection of ids that does not depend on their order, in constant memory."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0

    def add(self, identity: str) -> None:
        self.count += 1
        self._sum += int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=16).digest(), "big")

    def hexdigest(self) -> str:
        """Equal for equal collections of the same `count`."""
        return f"{self._sum:x}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdDigest) and (self.count, self._sum) == (other.count, other._sum)

    def __hash__(self) -> int:
        return hash((self.count, self._sum))


def digest_ids(paths: Sequence[Path]) -> IdDigest:
    """The ids in written files, read back from them."""
    import pyarrow.parquet as pq

    digest = IdDigest()
    for path in paths:
        file = pq.ParquetFile(path, pre_buffer=False)
        nested = "extra_info" in file.schema_arrow.names
        for batch in file.iter_batches(columns=["extra_info.id" if nested else "id"]):
            ids = batch.column(0).field("id") if nested else batch.column(0)
            for identity in ids.to_pylist():
                digest.add(identity)
    return digest


class RowDigest:
    """sha256 over the texts of targets in order, with log-probabilities, pass rates, fields and metadata, and with the
    verifiers that are not ``math``: the version of the data, whatever the compression or what the file records.

    ``verifiers``: what the file says of the verifier of each source, as JSON.
    """

    def __init__(self, verifiers: str = "{}") -> None:
        self._digest = hashlib.sha256()
        records = json.loads(verifiers)
        self._verifiers = {name: of["digest"] for name, of in records.items() if of["verifier"] != "math"}

    def add(self, row: Mapping[str, Any]) -> None:
        messages = [text for part in ("prompt", "target") for m in row[part] for text in (m["role"], m["content"])]
        for text in (row["extra_info"]["id"], row["reward_model"]["ground_truth"], *messages):
            data = text.encode()
            self._digest.update(len(data).to_bytes(8, "big") + data)
        if (log_probs := row.get("target_log_probs")) is not None:
            self._digest.update(array("f", log_probs).tobytes())
        if (pass_rate := row.get("pass_rate")) is not None:
            self._digest.update(array("d", [pass_rate]).tobytes())
        if metadata := {name: value for name, value in (row.get("metadata") or {}).items() if value is not None}:
            self._digest.update(json.dumps(metadata, sort_keys=True).encode())
        if verifier := self._verifiers.get(row["data_source"]):
            self._digest.update(f"{verifier} {row['extra_info'].get('fields') or ''}".encode())

    def hexdigest(self) -> str:
        return self._digest.hexdigest()
