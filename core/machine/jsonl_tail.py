"""Files of JSON lines that one process writes while another reads them."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.text.parse import parse_object

EVENTS_FILE = "LUFFY_EVENTS_FILE"  # variable: where a program writes its events, for what follows it
FAILED = "failed"  # the event of a program that ends with an error, which is its message


@dataclass
class RecordFile:
    """Reads complete new lines, JSON objects, of a growing file."""

    path: Path
    _offset: int = field(default=0, init=False)
    _lines: int = field(default=0, init=False)

    def new_records(self) -> Iterator[dict[str, Any]]:
        """Records appended since the last call; a line that is still being written is left for the next call.

        Raises:
            InputError: a line is no JSON object; the message says which.
        """
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                self._lines += 1
                yield parse_object(line, f"{self.path}, line {self._lines}")


def send_event(event: dict[str, Any]) -> None:
    """Send an event to the command or Dagster step that follows this process, if one does."""
    if file := os.environ.get(EVENTS_FILE):
        with open(file, "a", encoding="utf-8") as events:
            events.write(json.dumps(event) + "\n")
