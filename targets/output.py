"""The files of a preparation: written in streams in a staging folder, moved to their places together, proven complete.

``prepared.parquet`` (TARGET), ``profile.parquet`` (PROFILE, one row for each target) and ``rejected.parquet``
(REJECTED) share the metadata that says how they were made; ``prepared`` also carries counts and funnel.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from core.errors import InputError
from targets.read.traces import LONGEST_DETAIL, LONGEST_GOLD, LONGEST_PROBLEM, Fault, printable

# A row group is as many portions as reach so many bytes: one of long texts, many of short ones. What a file's footer
# says of each group is in memory while it is written and read, so that many small ones would add up.
ROWS_A_PORTION = 1024
BYTES_A_GROUP = 16 << 20
PREPARED, PROFILE_FILE, REJECTED_FILE = "prepared.parquet", "profile.parquet", "rejected.parquet"


class Stream:
    """Rows into one parquet file, a row group at a time. Row groups do not depend on how rows are handed in.

    As a context manager it releases the file if an error ends the block; call `close` to finish it.
    """

    def __init__(self, path: Path, schema: Any, metadata: Mapping[str, str]) -> None:
        import pyarrow.parquet as pq

        self.rows = 0
        self._schema = schema
        self._pending: list[dict[str, Any]] = []
        self._tables: list[Any] = []  # of `extend`, less than a portion
        self._portions: list[Any] = []  # of the next row group
        self.path = path
        self._writer = pq.ParquetWriter(path, schema.with_metadata(dict(metadata)), compression="zstd")

    def add(self, row: dict[str, Any]) -> None:
        self._pending.append(row)
        self.rows += 1
        if len(self._pending) == ROWS_A_PORTION:
            self._pend()

    def extend(self, table: Any) -> None:
        """Add the rows of a pyarrow Table. A stream is fed by `add` or by `extend`, not by both."""
        import pyarrow as pa

        self.rows += table.num_rows
        self._tables.append(table)
        if sum(waiting.num_rows for waiting in self._tables) >= ROWS_A_PORTION:
            waiting = pa.concat_tables(self._tables).combine_chunks()
            whole = waiting.num_rows - waiting.num_rows % ROWS_A_PORTION
            for start in range(0, whole, ROWS_A_PORTION):
                self._portion(waiting.slice(start, ROWS_A_PORTION))
            self._tables = [waiting.slice(whole)]

    def close(self, metadata: Mapping[str, str] | None = None) -> None:
        """Write what is pending; ``metadata`` that is known only now joins the file's."""
        self._pend()
        self._portions += self._tables
        self._write()
        if metadata:
            self._writer.add_key_value_metadata(dict(metadata))
        self._writer.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a full disk fails the footer too; the error that matters is on its way already
            self._writer.close()

    def _pend(self) -> None:
        import pyarrow as pa

        if self._pending:
            self._portion(pa.Table.from_pylist(self._pending, schema=self._schema))
            self._pending.clear()

    def _portion(self, table: Any) -> None:
        self._portions.append(table)
        if sum(portion.nbytes for portion in self._portions) >= BYTES_A_GROUP:
            self._write()

    def _write(self) -> None:
        import pyarrow as pa

        if self._portions:
            group = pa.concat_tables(self._portions)
            self._writer.write_table(group, row_group_size=max(1, group.num_rows))
            self._portions.clear()


@contextmanager
def staging(out_dir: Path) -> Iterator[Path]:
    """A folder inside ``out_dir`` for files that `publish` moves to their places; gone when the block ends.

    Raises InputError while another process prepares into ``out_dir``; what a killed one left behind is cleared. An
    OSError (no space, no permission) gets the folder and the remedy into its message. A folder made here for a
    preparation that failed is removed again.
    """
    made = not out_dir.exists()
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        handle = os.open(out_dir, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _cannot_write(out_dir, error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise InputError(
            f"{out_dir}: another process is preparing targets there: wait, or give another folder"
        ) from None
    room = out_dir / ".preparing"
    try:
        shutil.rmtree(room, ignore_errors=True)
        room.mkdir()
        yield room
    except OSError as error:
        raise _cannot_write(out_dir, error) from error
    finally:
        shutil.rmtree(room, ignore_errors=True)
        if made and not any(out_dir.iterdir()):
            out_dir.rmdir()
        os.close(handle)


def publish(room: Path, out_dir: Path, names: Sequence[str] = (REJECTED_FILE, PROFILE_FILE, PREPARED)) -> None:
    """Move the finished files of ``room`` to ``out_dir``."""
    for name in names:
        os.replace(room / name, out_dir / name)


def _cannot_write(out_dir: Path, error: OSError) -> OSError:
    message = f"cannot write targets into {out_dir}: {error.strerror or error}: make room or give another folder"
    return OSError(error.errno or 0, message)


class Tally:
    """A fingerprint of a set of ids that does not depend on order: equal for equal multisets, in constant memory."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0

    def add(self, identity: str) -> None:
        self.count += 1
        self._sum += int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=16).digest(), "big")

    def hexdigest(self) -> str:
        """The sum as text, to be kept with the count."""
        return f"{self._sum:x}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and (self.count, self._sum) == (other.count, other._sum)

    def __hash__(self) -> int:
        return hash((self.count, self._sum))


def tally_files(paths: Sequence[Path]) -> Tally:
    """The ids in written files, read back from them."""
    import pyarrow.parquet as pq

    tally = Tally()
    for path in paths:
        file = pq.ParquetFile(path, pre_buffer=False)
        nested = "extra_info" in file.schema_arrow.names
        for batch in file.iter_batches(columns=["extra_info.id" if nested else "id"]):
            ids = batch.column(0).field("id") if nested else batch.column(0)
            for identity in ids.to_pylist():
                tally.add(identity)
    return tally


class RowDigest:
    """sha256 over the texts of targets in order: the version of the data, whatever the compression or metadata."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, row: Mapping[str, Any]) -> None:
        messages = [text for part in ("prompt", "target") for m in row[part] for text in (m["role"], m["content"])]
        for text in (row["extra_info"]["id"], row["reward_model"]["ground_truth"], *messages):
            data = text.encode()
            self._digest.update(len(data).to_bytes(8, "big") + data)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def target_row(judged: Mapping[str, Any], index: int, split: str = "train") -> dict[str, Any]:
    """A TARGET row from a judged one."""
    return {
        "data_source": "",
        "prompt": judged["prompt"],
        "target": [{"role": "assistant", "content": judged["target"]}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": judged["gold"]},
        "extra_info": {"split": split, "index": index, "id": judged["id"], "source": judged["source"]},
    }


def rejected_row(judged: Mapping[str, Any], fault: Fault | None = None) -> dict[str, Any]:
    """A REJECTED row from a judged one: why, and enough to find the trace again, its texts cut.

    ``fault``: why an accepted trace goes after all; else the reasons are its own.
    """
    reasons = [fault.reason] if fault else judged["reasons"]
    return {
        **{name: judged[name] for name in ("id", "source", "row", "upstream_correct")},
        "reason": reasons[0],
        "reasons": reasons,
        "detail": printable(fault.detail if fault else judged["detail"], LONGEST_DETAIL),
        "problem": printable(judged["problem"], LONGEST_PROBLEM),
        "gold": printable(judged["gold"], LONGEST_GOLD),
    }
