"""Write files that are complete or absent, and compute the digests that identify their content."""

import errno
import hashlib
import itertools
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError, reason
from core.machine.processes import Process, start_ticks
from core.text.parse import parse_json, parse_object, parse_yaml
from core.text.patterns import compile_full_match

if TYPE_CHECKING:
    import pyarrow as pa  # a third of a second to import, and the Dagster code location loads this module

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# What an operator can correct by making room or by giving rights.
UNWRITABLE = {*FULL, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST}
TEMPORARY = compile_full_match(r"\.(?P<machine>[0-9a-f]{8})-(?P<pid>\d+)-(?P<since>\d+)-\d+\.tmp")
FOREIGN_SECONDS = 86_400.0  # without a change in what another machine writes: its process is gone
_numbers = itertools.count()


def publish(temporary: Path, path: Path) -> None:
    """Give a finished file or folder the name ``path``: after a crash at any moment it is there in full or not at all.

    Its bytes reach the disk before its name does. A file replaces an earlier one; a folder needs a free name, or an
    empty folder, and raises OSError (ENOTEMPTY, EEXIST) otherwise.
    """
    sync(temporary)
    os.replace(temporary, path)
    _sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file, or a folder with all its files, to the disk."""
    for folder, _, names in os.walk(path):
        for name in names:
            _sync(Path(folder, name))
        _sync(Path(folder))
    if not path.is_dir():
        _sync(path)


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path; if the block ends without an error, what it wrote there is published as ``path``."""
    path = Path(path)
    if path.is_dir():  # the system would name another reason for `.`, and only once everything is written
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with _writing(path) as temporary:
        yield temporary
        publish(temporary, path)


@contextmanager
def atomic_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Yield a new folder that becomes ``path`` if the block ends without an error.

    If another process has published ``path`` meanwhile, that one stays: such folders are named after their content.
    With ``replace`` an earlier folder goes instead; for a moment there is none.
    """
    path = Path(path)
    with _writing(path) as temporary:
        temporary.mkdir()
        yield temporary
        if replace and path.exists():
            _publish_instead(temporary, path)
            return
        try:
            publish(temporary, path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not path.is_dir():
                raise


def remove_folder(folder: Path) -> None:
    """Remove a folder, under another name first, so that half of it never looks like the whole."""
    trash_path = temporary_name(folder.parent)
    os.replace(folder, trash_path)
    _sync(folder.parent)
    shutil.rmtree(trash_path)


def set_aside(path: Path) -> Path:
    """Rename a damaged file to ``<name>.damaged`` (``.damaged-2``, …), where nothing reads it; the new path."""
    number, kept = 1, path.with_name(f"{path.name}.damaged")
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.damaged-{number}")
    os.rename(path, kept)
    _sync(path.parent)
    return kept


def temporary_name(folder: Path) -> Path:
    """Return a free name in ``folder`` that tells which process uses it, so that others know when it is a leftover."""
    pid = os.getpid()
    return Path(folder) / f".{_machine()}-{pid}-{start_ticks(pid)}-{next(_numbers)}.tmp"


def is_leftover(temporary: Path) -> bool:
    """Return whether the writer of ``temporary`` was killed; if we cannot see the writer, whether it is old."""
    match = TEMPORARY(temporary.name)
    if match and match["machine"] == _machine():
        return not Process(int(match["pid"]), int(match["since"])).is_alive()
    return time.time() - measure(temporary)[1] > FOREIGN_SECONDS


def measure(path: Path) -> tuple[int, float]:
    """Return the size of a file or folder in bytes, and when its last file changed (seconds since 1970)."""
    status = path.lstat()
    size, changed = (0 if path.is_dir() else status.st_size), status.st_mtime
    for file in path.rglob("*"):
        status = file.lstat()
        size += status.st_size if file.is_file() and not file.is_symlink() else 0
        changed = max(changed, status.st_mtime)
    return size, changed


@contextmanager
def _writing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path`` that is gone afterwards; an error of the disk names ``path``."""
    temporary = temporary_name(path.parent)
    try:
        _make_folder(path.parent)
        _remove_leftovers(path.parent)
        yield temporary
    except OSError as error:
        if error.errno not in UNWRITABLE or not _is_about(error, temporary, path):
            raise
        advice = ": make room there and start again" if error.errno in FULL else ""
        raise OSError(error.errno, f"cannot write: {os.strerror(error.errno)}{advice}", str(path)) from error
    finally:
        _remove(temporary)


def _is_about(error: OSError, temporary: Path, path: Path) -> bool:
    """Return whether an error is about writing a file at ``path``; an error without a file name counts."""
    written = error.filename2 or error.filename  # a copy names its source first
    if written is None:
        return True
    file = Path(os.fsdecode(written))
    return file.is_relative_to(temporary) or (error.errno in FULL and path.is_relative_to(file))


def _publish_instead(temporary: Path, path: Path) -> None:
    """Publish a folder in the place of an earlier one, which comes back if that fails."""
    earlier = temporary_name(path.parent)
    os.rename(path, earlier)
    try:
        publish(temporary, path)
    except OSError:
        if path.exists():  # it has its name, which may not be on the disk
            os.rename(path, temporary)
        os.rename(earlier, path)
        raise
    _remove(earlier)


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _remove_leftovers(folder: Path) -> None:
    for entry in os.scandir(folder):
        if TEMPORARY(entry.name) is None:
            continue
        try:
            # Another user's processes may be hidden from us.
            left = entry.stat(follow_symlinks=False).st_uid == os.geteuid() and is_leftover(Path(entry.path))
        except FileNotFoundError:  # its process has just finished it
            continue
        if left:
            _remove(Path(entry.path))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)  # another process may remove the same leftover
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a mounted object store that cannot sync folders
            raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(descriptor)


@cache
def _machine() -> str:
    """Return a name for this boot of this machine and our namespace of process ids, within which ids are unique."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    return digest_bytes(f"{boot}{os.stat('/proc/self/ns/pid').st_ino}".encode())[:8]


def read_json(path: Path) -> Any:
    """Return the value of a JSON file; InputError if it is missing or not UTF-8 JSON."""
    return parse_json(_read_text(path), str(path))


def read_object(path: Path, *, unique: bool = False) -> dict[str, Any]:
    """Return the object in a JSON file; InputError if it is missing or holds something else.

    ``unique``: refuse an object that has a key twice, as for settings that a user writes.
    """
    return parse_object(_read_text(path), str(path), unique=unique)


def read_json_lines(path: Path) -> list[Any]:
    """Return the values of a file with one JSON value per line; blank lines are skipped."""
    # Split at \n only: texts hold U+2028, at which str.splitlines would cut.
    lines = enumerate(_read_text(path).split("\n"), start=1)
    return [parse_json(line, f"{path}, line {number}") for number, line in lines if line.strip()]


def _read_text(path: Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").removeprefix("\ufeff")  # a byte order mark
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; expected a file") from None
    except PermissionError as error:
        raise InputError(f"{path}: {reason(error)}; make it readable") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}; convert the file to UTF-8") from error


def write_json(value: Any, path: Path) -> None:
    """Write ``value`` as indented UTF-8 JSON, atomically."""
    write_text(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n", path)


def write_text(text: str, path: Path) -> None:
    """Write ``text`` as UTF-8, atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_yaml(path: Path, what: str) -> dict[str, Any]:
    """Return the mapping in a YAML file; InputError that starts with ``what`` and the path if there is none."""
    try:
        values = parse_yaml(Path(path).read_bytes(), f"{what} {path}")
    except OSError as error:
        raise InputError(f"{what} {path}: {error.strerror}; give a YAML file") from error
    if not isinstance(values, dict | None):
        raise InputError(f"{what} {path}: expected a mapping of keys to values, got {type(values).__name__}")
    if odd := [key for key in values or {} if not isinstance(key, str)]:
        raise InputError(f"{what} {path}: the key {odd[0]!r:.80} is no text; expected names as keys")
    return values or {}


def write_table(table: "pa.Table", path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write ``table`` as zstd parquet, atomically; ``metadata`` joins the schema's key-value metadata."""
    import pyarrow.parquet as pq

    if metadata:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **metadata})
    with atomic_write(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", row_group_size=8192)


def digest_bytes(data: bytes) -> str:
    """Return the sha256 of ``data`` in hex."""
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path) -> str:
    """Return the sha256 of a file's bytes in hex."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_table(table: "pa.Table") -> str:
    """Return the sha256 over the rows of ``table``, which is the same whatever the chunks or the compression."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    combined = table.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_stream(sink, combined.schema) as stream:
        stream.write_table(combined)
    return digest_bytes(sink.getvalue())
