"""operations/retention: what old outputs nobody refers to any more, and their removal.

Outputs are immutable folders ``<stage>/<name>/<identity>``. One stays if it is young, if a reference, the champion, one
of its predecessors, or the last materialization of an asset names something in it, or if it holds the newest complete
policy.
"""

import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from assets.shared.failures import explained
from assets.shared.metadata import cell
from assets.shared.options import RetentionOptions, with_defaults
from assets.shared.storage import Storage
from core.code import code_version, identity
from core.errors import InputError
from core.manifest import MANIFEST
from evaluation.promotion import Registry

KEY = dg.AssetKey(["operations", "retention"])
STAGES = ("targets", "training", "benchmarks", "generations", "graded", "report", "experiments")
RUNS = "training/policy"
TRAINERS_OWN = ("checkpoints", "rollouts", "tensorboard")  # in a run's folder; the policy needs none of them
DAY = 86_400.0
UNFINISHED = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]
MOST_SHOWN = 100


@dataclass(frozen=True)
class Removal:
    """A folder that can go, its bytes, and why."""

    path: Path
    size: int
    why: str


@dataclass(frozen=True)
class Plan:
    """What would go, and how many bytes stay."""

    removals: tuple[Removal, ...]
    kept: int

    @property
    def size(self) -> int:
        return sum(removal.size for removal in self.removals)


def plan(storage: Path, named: Iterable[str], options: RetentionOptions, now: float) -> Plan:
    """What can go from ``storage``; ``named``: paths that the instance's last materializations name."""
    registry = Registry(storage)
    moved = [record for record in registry.decisions() if record["decision"]["promoted"]]
    champions = [registry.champion() or {}, *moved[-options.keep_champions :]]
    whole = _units(storage, _strings(champions))
    protected = whole | _units(storage, named) | _units(storage, _referenced(storage)) | _newest(storage)
    removals, kept = [], 0
    for unit in sorted(folder for stage in STAGES for folder in (storage / stage).glob("*/*") if folder.is_dir()):
        size, changed = measure(unit)
        old = now - changed >= options.keep_days * DAY
        if unit.name.startswith(".") and unit.name.endswith(".tmp"):
            if now - changed >= DAY:
                removals.append(Removal(unit, size, "a temporary folder of a process that was killed"))
        elif old and unit not in protected:
            removals.append(Removal(unit, size, "nothing refers to it"))
        elif old and options.drop_checkpoints and _complete(storage, unit) and unit not in whole:
            parts = [
                Removal(part, measure(part)[0], "the trainer's own; the policy is complete") for part in _own(unit)
            ]
            removals += parts
            kept += size - sum(part.size for part in parts)
        else:
            kept += size
    return Plan(tuple(removals), kept)


def remove(removals: Iterable[Removal]) -> None:
    """Delete folders; each disappears at once, under a name that the next retention knows as a leftover."""
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


def _own(unit: Path) -> list[Path]:
    return [unit / name for name in TRAINERS_OWN if (unit / name).is_dir()]


def _complete(storage: Path, unit: Path) -> bool:
    return unit.is_relative_to(storage / RUNS) and (unit / "policy" / MANIFEST).is_file()


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


def _units(storage: Path, texts: Iterable[str]) -> set[Path]:
    """The output folders in which the paths among ``texts`` lie."""
    found = set()
    for text in texts:
        if text.startswith("/") and Path(text).is_relative_to(storage):
            parts = Path(text).relative_to(storage).parts
            if len(parts) >= 3 and parts[0] in STAGES:
                found.add(storage.joinpath(*parts[:3]))
    return found


def named_by_materializations(instance: dg.DagsterInstance) -> Iterator[str]:
    """Paths in the metadata of the last materialization of every asset."""
    for key in instance.all_asset_keys():
        event = instance.get_latest_materialization_event(key)
        if event is not None and event.asset_materialization is not None:
            for value in event.asset_materialization.metadata.values():
                if isinstance(value, dg.PathMetadataValue):
                    yield str(value.path)


def build_retention(options: RetentionOptions) -> list[dg.AssetsDefinition]:
    """The retention, by default with ``options``."""

    class Config(with_defaults(options)): ...

    @dg.asset(
        key=KEY,
        group_name="operations",
        kinds={"storage"},
        pool="gpu",  # never beside a training or an evaluation
        code_version=code_version("assets/retention.py"),
        description="What old outputs (runs, checkpoints, generations, scores, pages) nobody refers to, with sizes. "
        "dry_run: false in the Launchpad removes them. The champion, its predecessors, the newest complete policy and "
        "everything that is referred to stay.",
    )
    @explained
    def retention(context: dg.AssetExecutionContext, config: Config, storage: Storage) -> dg.MaterializeResult[Any]:
        under_way = [
            run.run_id
            for run in context.instance.get_runs(filters=dg.RunsFilter(statuses=UNFINISHED))
            if run.run_id != context.run_id
        ]
        if under_way and not config.dry_run:
            raise InputError(
                f"operations/retention: run {under_way[0]} is under way and may take up what would go; launch it after"
            )
        found = plan(storage.path, named_by_materializations(context.instance), config, time.time())
        if not config.dry_run:
            with storage.writable():
                remove(found.removals)
        verb = "would free" if config.dry_run else "freed"
        context.log.info(f"{verb} {_megabytes(found.size)} MB in {len(found.removals)} folders")
        lines = ["| folder | MB | why |", "|---|--:|---|"]
        lines += [
            f"| {cell(removal.path.relative_to(storage.path))} | {_megabytes(removal.size)} | {removal.why} |"
            for removal in sorted(found.removals, key=lambda removal: -removal.size)[:MOST_SHOWN]
        ]
        return dg.MaterializeResult(
            data_version=dg.DataVersion(identity([str(removal.path) for removal in found.removals], config.dry_run)),
            metadata={
                "dry run": config.dry_run,
                "folders": len(found.removals),
                "bytes to free": found.size if config.dry_run else 0,
                "bytes freed": 0 if config.dry_run else found.size,
                "bytes that stay": found.kept,
                "list": dg.MetadataValue.md("\n".join(lines) if found.removals else "nothing"),
                "settings": dg.MetadataValue.json(config.model_dump()),
            },
        )

    return [retention]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f}"
