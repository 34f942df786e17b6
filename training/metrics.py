"""Step metrics of a run: the JSON lines that verl's file logger writes, followed while they are written."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluation.files import atomic_write


@dataclass
class MetricsFile:
    """Reads complete new lines of a growing file of ``{"step": int, "data": {name: value}}`` records."""

    path: Path
    _offset: int = field(default=0, init=False)

    def new_records(self) -> Iterator[dict[str, Any]]:
        """Records appended since the last call; a line still being written is left for the next one."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield json.loads(line)


def merge_attempts(attempts: list[Path], path: Path) -> list[dict[str, Any]]:
    """Join the metrics of the attempts of a run into ``path``; where two attempts did a step, the later one counts."""
    steps: dict[int, dict[str, Any]] = {}
    for attempt in attempts:
        for record in MetricsFile(attempt).new_records():
            steps = {step: kept for step, kept in steps.items() if step < record["step"]}
            steps[record["step"]] = record
    with atomic_write(path) as temporary:
        temporary.write_text("".join(json.dumps(record) + "\n" for record in steps.values()), encoding="utf-8")
    return list(steps.values())
