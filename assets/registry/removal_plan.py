"""The plan of which old outputs of a storage can be removed, and their removal.

Outputs are immutable folders ``<stage>/<name>/<identity>``. One stays if it is young, if a reference, a champion, a
training run or the caller names something in it, or if it holds the newest complete policy. The samples of a policy,
``samples/<group>``, stay as long as the policy does.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from assets.shared.settings import RetentionSettings
from core.errors import InputError
from core.files import is_leftover, measure, read_json, read_yaml, temporary_name
from core.model.lineage_file import MANIFEST
from core.settings import RUNS as RUN_SETTINGS
from evaluation.promotion.champions import Registry

STAGES = ("targets", "training", "benchmarks", "generations", "graded", "report", "rounds")
RUNS = "training/policy"
TRAINER_FOLDERS = ("checkpoints", "rollouts", "tensorboard")  # in a run's folder; the policy needs none of them
DAY_S = 86_400.0


@dataclass(frozen=True)
class Removal:
    """A folder that can be removed, its bytes, when the last of its files changed, and why it can go."""

    path: Path
    size: int
    changed: float  # seconds since 1970
    why: str


@dataclass(frozen=True)
class Plan:
    """What can be removed, and how many bytes stay."""

    removals: tuple[Removal, ...]
    kept: int

    @property
    def size(self) -> int:
        return sum(removal.size for removal in self.removals)


@dataclass(frozen=True)
class References:
    """The outputs that something refers to at a moment: ``whole`` ones stay with all files."""

    whole: frozenset[Path]
    kept: frozenset[Path]

    def need(self, path: Path, storage: Path) -> bool:
        """Whether the output ``path``, or the part ``path`` of an output, is in use."""
        output = storage.joinpath(*path.relative_to(storage).parts[:3])
        return output in self.whole or (path == output and output in self.kept)


def find_uses(storage: Path, keep_champions: int, named: Iterable[str]) -> References:
    """What is in use: champions with their scores, and what references, training runs and ``named`` refer to."""
    champions = [file for record in Registry(storage).champions(keep_champions) for file in record.files()]
    whole = _outputs_of(storage, champions)
    others = _outputs_of(storage, (*named, *_referenced(storage), *_inputs_of_runs(storage)))
    return References(frozenset(whole), frozenset(whole | others | _newest(storage)))


def plan_removals(storage: Path, rules: RetentionSettings, *, named: Iterable[str], now: float) -> Plan:
    """What can be removed from ``storage``.

    Args:
        named: Paths that are in use, besides those that the storage itself names.
        now: Seconds since 1970.
    """
    uses, removals, kept = find_uses(storage, rules.keep_champions, named), [], 0
    for output in sorted(folder for stage in STAGES for folder in (storage / stage).glob("*/*") if folder.is_dir()):
        size, changed = measure(output)
        old = now - changed >= rules.keep_days * DAY_S
        if output.name.startswith(".") and output.name.endswith(".tmp"):
            if is_leftover(output):
                removals.append(Removal(output, size, changed, "a temporary folder of a process that was killed"))
        elif old and not uses.need(output, storage):
            removals.append(Removal(output, size, changed, "nothing refers to it"))
        elif old and rules.drop_checkpoints and output not in uses.whole and _is_complete_run(storage, output):
            parts = [part for name in TRAINER_FOLDERS if (part := output / name).is_dir()]
            why = "only the trainer needs it, and the policy is complete"
            unneeded = [Removal(part, *measure(part), why) for part in parts]
            removals += unneeded
            kept += size - sum(removal.size for removal in unneeded)
        else:
            kept += size
    for run in sorted((storage / RUN_SETTINGS).glob("*")):
        size, changed = measure(run)
        if now - changed >= rules.keep_days * DAY_S:
            removals.append(Removal(run, size, changed, "the settings of an old run"))
    for group in _samples_of_removed_policies(storage):
        size, changed = measure(group)
        if now - changed >= rules.keep_days * DAY_S:
            removals.append(Removal(group, size, changed, "samples of a policy that was removed"))
    return Plan(tuple(removals), kept)


def remove(
    storage: Path, removals: Iterable[Removal], rules: RetentionSettings, *, named: Callable[[], Iterable[str]]
) -> Iterator[Removal]:
    """Delete the ``removals`` that are still not in use, yielding each when it is gone.

    A folder gets another name first, and is then looked at once more: what began to be used in between comes back.
    The champion does not change meanwhile.

    Args:
        named: Looks which paths are in use now, besides those that the storage itself names. An error that it raises
            ends the removal.
    """

    def in_use() -> bool:
        return find_uses(storage, rules.keep_champions, named()).need(removal.path, storage)

    for removal in removals:
        trash_path = temporary_name(removal.path.parent)
        with Registry(storage).locked():
            if not removal.path.exists() or measure(removal.path)[1] > removal.changed or in_use():
                continue
            os.rename(removal.path, trash_path)
            used = True
            try:
                used = in_use()
            finally:
                if used:
                    os.rename(trash_path, removal.path)
        if not used:
            shutil.rmtree(trash_path)
            yield removal


def _is_complete_run(storage: Path, output: Path) -> bool:
    return output.is_relative_to(storage / RUNS) and (output / "policy" / MANIFEST).is_file()


def _samples_of_removed_policies(storage: Path) -> Iterator[Path]:
    """The samples of policies that are gone after a decision on them, but not of base models and teachers."""
    manifests = (storage / RUNS).glob(f"*/policy/{MANIFEST}")
    present = {read_json(file).get("checkpoint_digest") for file in manifests}
    gone = {record.checkpoint for record in Registry(storage).decisions()} - present
    for file in sorted((storage / "samples").glob("*/group.json")):
        if read_json(file).get("checkpoint") in gone:
            yield file.parent


def _newest(storage: Path) -> set[Path]:
    manifests = sorted((storage / RUNS).glob(f"*/policy/{MANIFEST}"), key=lambda file: file.stat().st_mtime)
    return {manifests[-1].parents[1]} if manifests else set()


def _referenced(storage: Path) -> Iterator[str]:
    for file in (storage / "references").rglob("*.json"):
        yield from _strings(read_json(file))


def _inputs_of_runs(storage: Path) -> Iterator[str]:
    """The targets and base models that the trainings in ``storage`` read."""
    for run in (storage / RUNS).glob("*"):
        for folder in (run, run / "first_stage"):
            # A run that has no policy yet may be resumed.
            for file, read in ((folder / "policy" / MANIFEST, _named_in_manifest), (folder / "config.yaml", _named_in)):
                if file.is_file():
                    yield from read(file, file.stat().st_mtime_ns)
                    break


@lru_cache(maxsize=4096)
def _named_in_manifest(file: Path, _changed_ns: int) -> tuple[str, ...]:
    values = read_json(file)
    if not isinstance(values, dict):
        raise InputError(f"{file}: not a manifest: restore it, or remove the run that it is in")
    stages = [values, values.get("first_stage") or {}]
    inputs = [stage.get(name, {}) for stage in stages for name in ("targets", "base_model")]
    return tuple(os.path.normpath(file.parent / record["path"]) for record in inputs if "path" in record)


@lru_cache(maxsize=4096)
def _named_in(file: Path, _changed_ns: int) -> tuple[str, ...]:
    return tuple(_strings(read_yaml(file, "configuration")))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _outputs_of(storage: Path, texts: Iterable[str]) -> set[Path]:
    """The output folders that the paths among ``texts`` lead into, wherever the storage was when they were written."""
    outputs = set()
    for text in texts:
        parts = Path(text).parts if "/" in text else ()
        places = (number for number, part in enumerate(parts[:-2]) if part in STAGES)
        named = (storage.joinpath(*parts[number : number + 3]) for number in places)
        outputs |= {output for output in named if output.is_dir()}
    return outputs
