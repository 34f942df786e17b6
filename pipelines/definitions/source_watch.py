"""Detect changes of the raw traces; a tick without a change is cheap.

It lists the files with their sizes and times (or asks the hub for its commit), and reads content only if these changed.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from core.files import digest_bytes
from grading.gym_tasks import task_of
from targets.settings import TargetSettings
from targets.source_settings import EMBEDDED, GENERATED


@dataclass(frozen=True)
class SourceState:
    """The source at the last tick, stored in the sensor's cursor.

    Args:
        requested: Digest of the content for which a preparation was last requested.
        number: The number of preparations requested so far.
    """

    listing: str = ""
    digest: str = ""
    requested: str = ""
    number: int = 0

    @classmethod
    def from_cursor(cls, cursor: str | None) -> "SourceState":
        return cls(**json.loads(cursor)) if cursor else cls()

    def to_cursor(self) -> str:
        return json.dumps(asdict(self))

    def observe(self, config: TargetSettings) -> "SourceState":
        """Return the present state of the source; InputError if it cannot be reached."""
        from targets.read.sources import observe

        listing = _listing(changing_sources(config))
        if listing and listing == self.listing:
            return self
        return replace(self, listing=listing, digest=observe(config).digest)


def changing_sources(config: TargetSettings) -> list[str]:
    """Return the sources that can change: all but the embedded generator and what the graph generates itself."""
    return [path for path in config.paths if path not in (EMBEDDED, GENERATED) and not task_of(path)]


def _listing(sources: Sequence[str]) -> str:
    """Return the digest of the names, sizes and times of all files; "" if a source has no files and has to be asked."""
    import fsspec

    from targets.read.data_files import find_files

    entries: list[Any] = []
    for source in sources:
        filesystem, path = fsspec.core.url_to_fs(source)
        if not (filesystem.exists(path) or any(character in source for character in "*?[")):
            return ""
        for file in find_files(source):
            info = filesystem.info(file.path)
            stamp = info.get("ETag") or info.get("etag") or info.get("mtime") or info.get("LastModified")
            inode = info.get("ino")
            entries.append([file.path, info.get("size"), str(stamp), inode, _nanoseconds(file.path)])
    return digest_bytes(json.dumps(entries).encode())


def _nanoseconds(path: str) -> int | None:
    local = Path(path)
    return local.stat().st_mtime_ns if local.is_file() else None
