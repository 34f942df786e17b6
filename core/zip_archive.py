"""Unpack zip files that others made, or refuse them with one message."""

import lzma
import struct
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

from core.errors import InputError, reason

LARGEST = 1 << 28  # bytes of content
# Of what the archive is made of; RuntimeError: it is encrypted; NotImplementedError, which is one: an odd method.
UNREADABLE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError, RuntimeError, ValueError)


def unpack(file: Path, folder: Path, what: str, advice: str, required: Collection[str] = ()) -> None:
    """Unpack ``file`` into ``folder``, and nothing outside of it.

    Raises:
        InputError: it is not a readable zip file, and so not ``what``; it lacks one of the members ``required``; or
            its content is larger than `LARGEST`. The message ends in ``advice``.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            if (size := sum(member.file_size for member in archive.infolist())) > LARGEST:
                raise InputError(f"{file}: {size:,} bytes of content; expected at most {LARGEST:,}; {advice}")
            if missing := sorted({*required}.difference(archive.namelist())):
                raise InputError(f"{file}: no {', '.join(missing)} in it; {advice}")
            archive.extractall(folder)
    except FileNotFoundError:
        raise InputError(f"{file}: no such file") from None
    except InputError:
        raise
    except UNREADABLE as error:
        raise InputError(f"{file}: not {what} ({reason(error)}); {advice}") from error
