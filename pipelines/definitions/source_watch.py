"""Whether the traces changed, looked at often: cheap where nothing did.

A tick lists the files with sizes and times (and asks the hub for its commit); content is read only where that moved.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.files import digest_bytes
from targets.config import EMBEDDED, PrepareConfig


@dataclass(frozen=True)
class Seen:
    """What the last look found. ``requested``: digest whose preparation was asked for; ``number`` of requests."""

    listing: str = ""
    digest: str = ""
    requested: str = ""
    number: int = 0

    @classmethod
    def read(cls, cursor: str | None) -> "Seen":
        return cls(**json.loads(cursor)) if cursor else cls()

    def write(self) -> str:
        return json.dumps(asdict(self))


def watched(config: PrepareConfig) -> list[str]:
    """The sources that can change by themselves: all but the embedded generator."""
    return [spec for spec in config.source if spec != EMBEDDED]


def look(config: PrepareConfig, seen: Seen) -> Seen:
    """``seen`` with the listing and digest of now. InputError for a source that cannot be reached."""
    from targets.read.sources import observe

    listing = _listing(watched(config))
    if listing and listing == seen.listing:
        return seen
    return Seen(listing, observe(config).digest, seen.requested, seen.number)


def _listing(specs: Sequence[str]) -> str:
    """Digest of names, sizes and times of all files; "" if a source is none of files, and has to be asked."""
    import fsspec

    from targets.read.files import find_files

    entries: list[Any] = []
    for spec in specs:
        filesystem, path = fsspec.core.url_to_fs(spec)
        if not (filesystem.exists(path) or any(character in spec for character in "*?[")):
            return ""
        for file in find_files(spec):
            info = filesystem.info(file.path)
            stamp = info.get("ETag") or info.get("etag") or info.get("mtime") or info.get("LastModified")
            inode = info.get("ino")
            entries.append([file.path, info.get("size"), str(stamp), inode, _nanoseconds(file.path)])
    return digest_bytes(json.dumps(entries).encode())


def _nanoseconds(path: str) -> int | None:
    local = Path(path)
    return local.stat().st_mtime_ns if local.is_file() else None
