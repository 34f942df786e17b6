"""Files that are complete or absent, and the digests that name their content."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa  # a third of a second to import, and the Dagster code location loads this module

CHUNK_BYTES = 1 << 20


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it onto ``path`` when the block ends without an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(value: Any, path: Path) -> None:
    """Write ``value`` as indented UTF-8 JSON, atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def write_table(table: "pa.Table", path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write ``table`` as zstd parquet, atomically; ``metadata`` joins the schema's key-value metadata."""
    import pyarrow.parquet as pq

    if metadata:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **metadata})
    with atomic_write(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=8192)


def digest_bytes(data: bytes) -> str:
    """sha256 of ``data`` in hex."""
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path) -> str:
    """sha256 of a file's bytes in hex."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def digest_tree(folder: Path, pattern: str = "*") -> str:
    """sha256 over the relative names and contents of the files below ``folder`` that match ``pattern``."""
    digest = hashlib.sha256()
    for file in sorted(p for p in Path(folder).rglob(pattern) if p.is_file()):
        digest.update(f"{file.relative_to(folder).as_posix()}\0{digest_file(file)}\n".encode())
    return digest.hexdigest()


def digest_table(table: "pa.Table") -> str:
    """sha256 over the rows of ``table``: the same for the same rows, whatever the chunks or the compression."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    combined = table.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_stream(sink, combined.schema) as stream:
        stream.write_table(combined)
    return digest_bytes(sink.getvalue())
