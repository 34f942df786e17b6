"""Files that are complete or absent, and the digests that name their content."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError

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


def read_json(path: Path) -> Any:
    """The value of a JSON file; InputError if it is missing or not UTF-8 JSON."""
    try:
        return json.loads(_read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: not JSON ({error})") from error


def read_json_lines(path: Path) -> list[Any]:
    """The values of a file with one JSON value per line; blank lines are skipped."""
    values = []
    # Split at \n only: texts hold U+2028, at which str.splitlines would cut.
    for number, line in enumerate(_read_text(path).split("\n"), start=1):
        if line.strip():
            try:
                values.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise InputError(f"{path}, line {number}: not JSON ({error}); expected one value per line") from error
    return values


def _read_text(path: Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}; convert the file to UTF-8") from error


def read_parquet(path: Path, advice: str, **options: Any) -> "pa.Table":
    """The table of a parquet file, its texts checked to be UTF-8; ``options`` are those of ``pq.read_table``.

    Raises InputError, which ends in ``advice``, if the file is missing or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, **options)
        table.validate(full=True)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {advice}") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable parquet file ({error}); {advice}") from error
    return table


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a path where the block creates a folder; without an error that folder then takes the place of ``path``."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        yield temporary
        if path.exists():
            shutil.rmtree(path)
        os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_json(value: Any, path: Path) -> None:
    """Write ``value`` as indented UTF-8 JSON, atomically."""
    write_text(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n", path)


def write_text(text: str, path: Path) -> None:
    """Write ``text`` as UTF-8, atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_yaml(path: Path, what: str) -> dict[str, Any]:
    """The mapping in a YAML file; InputError that starts with ``what`` and the path if there is none."""
    import yaml

    try:
        values = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    except OSError as error:
        raise InputError(f"{what} {path}: {error.strerror}; give a YAML file") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{what} {path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict | None):
        raise InputError(f"{what} {path}: expected a mapping of keys to values, got {type(values).__name__}")
    return values or {}


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


def digest_table(table: "pa.Table") -> str:
    """sha256 over the rows of ``table``: the same for the same rows, whatever the chunks or the compression."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    combined = table.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_stream(sink, combined.schema) as stream:
        stream.write_table(combined)
    return digest_bytes(sink.getvalue())
