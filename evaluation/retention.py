"""The plan of which old outputs of a storage can be removed, and their removal.

Outputs are immutable folders ``<stage>/<name>/<identity>``. One stays if it is young, if a reference, a champion or the
caller names something in it, or if it holds the newest complete policy.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from core.manifest import MANIFEST

STAGES = ("targets", "training", "benchmarks", "generations", "graded", "report", "experiments")
RUNS = "training/policy"
TRAINER_FOLDERS = ("checkpoints", "rollouts", "tensorboard")  # in a run's folder; the policy needs none of them
DAY_S = 86_400.0


class RetentionRules(BaseModel):
    """What stays besides everything that is referred to."""

    keep_days: float = Field(default=30.0, ge=1, description="Outputs younger than this many days stay.")
    keep_champions: int = Field(default=3, ge=1, description="Number of champions that stay whole for rollbacks.")
    drop_checkpoints: bool = Field(
        default=True,
        description="Remove the trainer's own checkpoints and rollouts from complete old runs that stay.",
    )


@dataclass(frozen=True)
class Removal:
    """A folder that can be removed, its bytes, and why."""

    path: Path
    size: int
    why: str


@dataclass(frozen=True)
class Plan:
    """What can be removed, and how many bytes stay."""

    removals: tuple[Removal, ...]
    kept: int

    @property
    def size(self) -> int:
        return sum(removal.size for removal in self.removals)


def plan_removals(
    storage: Path, rules: RetentionRules, *, champions: Iterable[str], named: Iterable[str], now: float
) -> Plan:
    """What can be removed from ``storage``.

    Args:
        champions: Paths of champions and their scores, whose outputs stay whole.
        named: Other paths that are in use.
        now: Seconds since 1970.
    """
    whole = _outputs_of(storage, champions)
    protected = whole | _outputs_of(storage, named) | _outputs_of(storage, _referenced(storage)) | _newest(storage)
    removals, kept = [], 0
    for output in sorted(folder for stage in STAGES for folder in (storage / stage).glob("*/*") if folder.is_dir()):
        size, changed = measure(output)
        old = now - changed >= rules.keep_days * DAY_S
        if output.name.startswith(".") and output.name.endswith(".tmp"):
            if now - changed >= DAY_S:
                removals.append(Removal(output, size, "a temporary folder of a process that was killed"))
        elif old and output not in protected:
            removals.append(Removal(output, size, "nothing refers to it"))
        elif old and rules.drop_checkpoints and output not in whole and _is_complete_run(storage, output):
            parts = [part for name in TRAINER_FOLDERS if (part := output / name).is_dir()]
            unneeded = [
                Removal(part, measure(part)[0], "only the trainer needs it, and the policy is complete")
                for part in parts
            ]
            removals += unneeded
            kept += size - sum(removal.size for removal in unneeded)
        else:
            kept += size
    return Plan(tuple(removals), kept)


def remove(removals: Iterable[Removal]) -> None:
    """Delete folders; each disappears at once, under a name that the next retention recognizes as left over."""
    for removal in removals:
        gone = removal.path
        if not gone.name.startswith("."):
            gone = removal.path.with_name(f".{removal.path.name}.tmp")
            os.replace(removal.path, gone)
        shutil.rmtree(gone)


def measure(folder: Path) -> tuple[int, float]:
    """Bytes of the files below ``folder``, and when the last of them changed (seconds since 1970)."""
    size, changed = 0, folder.stat().st_mtime
    for file in folder.rglob("*"):
        status = file.lstat()
        size += status.st_size if file.is_file() and not file.is_symlink() else 0
        changed = max(changed, status.st_mtime)
    return size, changed


def _is_complete_run(storage: Path, output: Path) -> bool:
    return output.is_relative_to(storage / RUNS) and (output / "policy" / MANIFEST).is_file()


def _newest(storage: Path) -> set[Path]:
    """The run folder of the newest complete policy."""
    manifests = sorted((storage / RUNS).glob(f"*/policy/{MANIFEST}"), key=lambda file: file.stat().st_mtime)
    return {manifests[-1].parents[1]} if manifests else set()


def _referenced(storage: Path) -> Iterator[str]:
    for file in (storage / "references").rglob("*.json"):
        yield from _strings(json.loads(file.read_text(encoding="utf-8")))


def _strings(value: Any) -> Iterator[str]:
    """Every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _outputs_of(storage: Path, texts: Iterable[str]) -> set[Path]:
    """The output folders that hold the paths among ``texts``."""
    outputs = set()
    for text in texts:
        if text.startswith("/") and Path(text).is_relative_to(storage):
            parts = Path(text).relative_to(storage).parts
            if len(parts) >= 3 and parts[0] in STAGES:
                outputs.add(storage.joinpath(*parts[:3]))
    return outputs
