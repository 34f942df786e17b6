"""The parquet files of targets: their names, how they are written, read and published, and digests over their rows."""

import hashlib
import json
import shutil
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from core.errors import InputError, reason
from core.files import publish
from core.parquet import read_batches, readable, shard_files, shards

if TYPE_CHECKING:
    import pyarrow as pa

PREPARED, PROFILE_FILE, REJECTED_FILE = "prepared.parquet", "profile.parquet", "rejected.parquet"
TRAIN, HELDOUT, LEFT_OUT = "train.parquet", "heldout.parquet", "left_out.parquet"
TOOLS = "tools"  # key in the metadata of targets: the tools that the policy may call, as JSON
STAGING, LOCK = ".preparing", ".preparing.lock"
REMEDY = "run luffy targets"
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
        self._pending_size = 0
        self._tables: list[Any] = []  # of the next row group
        self._bytes = 0  # of them
        self._writer = pq.ParquetWriter(path, schema.with_metadata(dict(metadata)), compression="zstd")

    def add(self, row: dict[str, Any], size: int = 0) -> None:
        """Add a row; ``size``: the characters of its long texts, by which memory is bounded."""
        self._pending.append(row)
        self._pending_size += size
        self.rows += 1
        if len(self._pending) == ROWS_PER_TABLE or self._pending_size >= BYTES_PER_GROUP:
            self._end_table()

    def add_table(self, table: Any) -> None:
        """Add rows that are a table of the schema already."""
        self._end_table()
        self.rows += table.num_rows
        self._append(table)

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
            self._append(pa.Table.from_pylist(self._pending, schema=self._schema))
            self._pending.clear()
            self._pending_size = 0

    def _append(self, table: Any) -> None:
        if not table.num_rows:
            return
        self._tables.append(table)
        self._bytes += table.nbytes
        if self._bytes >= BYTES_PER_GROUP:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa

        if self._tables:
            group = pa.concat_tables(self._tables)
            self._writer.write_table(group, row_group_size=max(1, group.num_rows))
            self._tables.clear()
            self._bytes = 0


def read_metadata(path: Path, remedy: str) -> dict[str, str]:
    """What the writer of a file has recorded in it; InputError if it cannot be read."""
    import pyarrow.parquet as pq

    with readable(path, remedy):
        metadata = pq.read_metadata(shards(path)[0]).metadata or {}
    return {name.decode(): value.decode() for name, value in metadata.items() if name != b"ARROW:schema"}


def iter_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[list[dict[str, Any]]]:
    """The rows of a table, some at a time."""
    for batch in read_batches(path, ROWS_PER_READ, columns):
        yield batch.to_pylist()


def read_columns(path: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """The rows of a table as smaller tables."""
    import pyarrow as pa

    for batch in read_batches(path, ROWS_PER_READ, columns):
        yield pa.Table.from_batches([batch])


def moved_rows(table: "pa.Table", moved: int) -> "pa.Table":
    """Decisions on rows that are ``moved`` rows later in their file than when they were decided."""
    import pyarrow as pa

    if not moved:
        return table
    rows = pa.array([row + moved for row in table["row"].to_pylist()], pa.int64())
    places = zip(*(table[name].to_pylist() for name in ("id", "source", "row")), strict=True)
    ids = [f"{source}:{row + moved}{name.removeprefix(f'{source}:{row}')}" for name, source, row in places]
    for name, column in (("id", pa.array(ids, pa.string())), ("row", rows)):
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)
    return table


@dataclass
class IdDigest:
    """A digest of a collection of ids that does not depend on their order, in constant memory."""

    count: int = 0
    total: int = 0  # of the ids' hashes

    def add(self, identity: str) -> None:
        self.count += 1
        self.total += int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=16).digest(), "big")

    def merge(self, other: "IdDigest") -> None:
        """Add another collection."""
        self.count += other.count
        self.total += other.total

    def record(self) -> list[Any]:
        """The digest as a JSON value."""
        return [self.count, f"{self.total:x}"]

    @classmethod
    def of(cls, record: Sequence[Any]) -> "IdDigest":
        """The digest of a `record`."""
        return cls(record[0], int(record[1], 16))


def digest_ids(paths: Sequence[Path]) -> IdDigest:
    """The ids in written tables, read back from them."""
    import pyarrow.parquet as pq

    digest = IdDigest()
    for path in chain.from_iterable(map(shards, paths)):
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

    ``verifiers``, ``tools``: what the file says of the verifier of each source, and of the tools, as JSON.
    """

    def __init__(self, verifiers: str = "{}", tools: str = "") -> None:
        self._digest = hashlib.sha256(json.loads(tools)["digest"].encode() if tools else b"")
        records = json.loads(verifiers)
        self._verifiers = {name: of["digest"] for name, of in records.items() if of["verifier"] != "math"}

    def add(self, table: "pa.Table") -> None:
        """Add rows of targets."""
        info, reward = (table[name].combine_chunks() for name in ("extra_info", "reward_model"))
        texts = [info.field("id").to_pylist(), reward.field("ground_truth").to_pylist()]
        prompts, targets = (_messages(table[name].combine_chunks()) for name in ("prompt", "target"))
        none = [None] * len(table)
        names = ("target_log_probs", "pass_rate", "metadata")
        more = [table[name].to_pylist() if name in table.column_names else none for name in names]
        fields = info.field("fields").to_pylist() if info.type.get_field_index("fields") >= 0 else none
        columns = (*texts, prompts, targets, *more, table["data_source"].to_pylist(), fields)
        for identity, gold, prompt, target, log_probs, pass_rate, metadata, source, of in zip(*columns, strict=True):
            parts = []
            for text in (identity, gold, *prompt, *target):
                data = text.encode()
                parts += (len(data).to_bytes(8, "big"), data)
            if log_probs is not None:
                parts.append(array("f", log_probs).tobytes())
            if pass_rate is not None:
                parts.append(array("d", [pass_rate]).tobytes())
            if described := {name: value for name, value in (metadata or {}).items() if value is not None}:
                parts.append(json.dumps(described, sort_keys=True).encode())
            if verifier := self._verifiers.get(source):
                parts.append(f"{verifier} {of or ''}".encode())
            self._digest.update(b"".join(parts))

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def _messages(column: "pa.ListArray") -> Iterator[list[str]]:
    messages = column.flatten()
    texts = list(zip(messages.field("role").to_pylist(), messages.field("content").to_pylist(), strict=True))
    ends = column.value_lengths().to_pylist()
    for begin, count in zip(accumulate(ends, initial=0), ends, strict=False):
        yield list(chain.from_iterable(texts[begin : begin + count]))


def combined_digest(digests: Sequence[str]) -> str:
    """The digest of rows in several files, by the `RowDigest` of each; the digest of one file is its own."""
    return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()


def clear_staging(out_dir: Path) -> None:
    """Remove the staging folder of a killed preparation from ``out_dir``, unless a preparation is running there."""
    if (out_dir / STAGING).exists():
        with suppress(Timeout), FileLock(out_dir / LOCK, timeout=0):
            shutil.rmtree(out_dir / STAGING)


@contextmanager
def staging(out_dir: Path, names: Sequence[str], outdated: Sequence[str] = ()) -> Iterator[Path]:
    """A folder inside ``out_dir``. When the block ends, its tables ``names`` move to ``out_dir``, in that order.

    The tables ``outdated`` of ``out_dir`` were made from the earlier ones, and are removed before.

    Several files cannot take the place of earlier ones at once. The earlier last table is removed before they move, so
    that a kill on the way leaves files that are incomplete, and not some of each version.

    Raises InputError while another process prepares into ``out_dir``. What a killed one left behind is cleared. An
    OSError (no space, no permission) gets the folder and the remedy into its message. If the block fails, ``out_dir``
    is as it was, and a folder that was created here is removed. The lock file stays with the files: were it unlinked,
    two processes could hold two locks of one name.
    """
    created = not out_dir.exists()
    lock = FileLock(out_dir / LOCK, timeout=0)
    staging_dir = out_dir / STAGING
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        lock.acquire()
        shutil.rmtree(staging_dir, ignore_errors=True)
        staging_dir.mkdir()
        yield staging_dir
        tables = {name: shards(staging_dir / name) for name in names}
        for name in outdated:
            _remove_table(out_dir / name)
        if any(len(files) > 1 for files in tables.values()) or any(shard_files(out_dir / name) for name in names):
            _remove_table(out_dir / names[-1])
        for name, files in tables.items():
            for file in files:
                publish(file, out_dir / file.name)
            _remove_table(out_dir / name, [out_dir / file.name for file in files])
    except Timeout:
        raise InputError(
            f"{out_dir}: another process is preparing targets there: wait, or give another folder"
        ) from None
    except OSError as error:
        message = f"cannot write targets there: {reason(error)}: make room or give another folder"
        raise OSError(error.errno or 0, message, str(out_dir)) from error
    finally:
        if lock.is_locked:
            shutil.rmtree(staging_dir, ignore_errors=True)
            if created and all(path.is_dir() or path.suffix == ".lock" for path in out_dir.rglob("*")):
                shutil.rmtree(out_dir)
            lock.release()


def _remove_table(path: Path, but: Collection[Path] = ()) -> None:
    for file in {path, *shard_files(path)} - {*but}:
        file.unlink(missing_ok=True)
