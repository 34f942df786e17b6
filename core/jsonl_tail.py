"""Files of JSON lines that one process writes while another reads them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class RecordFile:
    """Reads complete new lines, JSON objects, of a growing file."""

    path: Path
    _offset: int = field(default=0, init=False)

    def new_records(self) -> Iterator[dict[str, Any]]:
        """Records appended since the last call; a line that is still being written is left for the next call."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield json.loads(line)


def append_record(path: Path, record: dict[str, Any]) -> None:
    """Append one line to a file that a `RecordFile` reads; one process writes to it."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
