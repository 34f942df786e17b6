"""Publish several files together: write them into a staging folder, and move them out when all are finished."""

import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from core.errors import InputError, reason
from core.files import publish
from core.parquet import shard_files, shards

STAGING, LOCK = ".preparing", ".preparing.lock"


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
    is as it was, and a folder that was created here is removed. The lock file stays beside the files: were it unlinked,
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
    """Remove the files of the table ``path`` which are not among ``but``."""
    for file in {path, *shard_files(path)} - {*but}:
        file.unlink(missing_ok=True)
