"""Summarise a checkpoint's ``lineage.json`` and the cost of its training and evaluation for the pages."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import fsum
from typing import TYPE_CHECKING, Any

from core.metric_table import STEP_SECONDS
from core.text.patterns import compile_full_match
from evaluation.sample_tables import recorded

if TYPE_CHECKING:
    import pyarrow as pa

MOST_VALUES = 20  # most values of one metadata column
DIGEST = compile_full_match(r"[0-9a-f]{40,}")


@dataclass(frozen=True)
class Lineage:
    """The facts of a manifest that a scorecard uses; empty where a manifest does not name them."""

    checkpoint: str = ""  # digests
    base: str = ""
    targets: str = ""
    base_source: str = ""
    target_rows: int | None = None
    recipe: str = ""
    steps: int | None = None
    devices: int = 1
    wall_time: timedelta | None = None  # time of the last attempt, with its start and export
    manifest: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> "Lineage":
        """Return the facts of ``lineage.json``."""
        base, targets = manifest.get("base_model", {}), manifest.get("targets", {})
        trainer = manifest.get("config", {}).get("trainer", {})
        times = [datetime.fromisoformat(manifest[key]) for key in ("started", "finished") if key in manifest]
        return cls(
            checkpoint=manifest.get("checkpoint_digest", ""),
            base=base.get("digest", ""),
            targets=targets.get("digest", ""),
            base_source=base.get("source", ""),
            target_rows=targets.get("rows"),
            recipe=manifest.get("request", {}).get("recipe", ""),
            steps=manifest.get("steps"),
            devices=int(trainer.get("nnodes", 1)) * int(trainer.get("n_gpus_per_node", 1)),
            wall_time=times[1] - times[0] if len(times) == 2 else None,
            manifest=manifest,
        )

    def facts(self) -> list[tuple[str, str]]:
        """Return the manifest's short facts, one line each; whole configurations are left to `text`."""
        facts = []
        for key, value in self.manifest.items():
            if key in ("config", "last_step", "ledger"):
                continue
            if isinstance(value, Mapping):
                pairs = {k: v for k, v in value.items() if not isinstance(v, Mapping | list | tuple)}
                text = " · ".join(f"{k} {_shorten(v)}" for k, v in pairs.items() if v not in (None, ""))
            else:
                text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else _shorten(value)
            facts += [(key.replace("_", " "), text)] if text else []
        return facts

    def composition(self) -> list[tuple[str, str, int, int]]:
        """Summarise the targets as their preparation counted them: (what, value, traces read, targets kept).

        By source, and by each metadata that a source declares (teacher, license, …), the most frequent values first.
        Empty where the targets are of one source without metadata.
        """
        metadata = self.manifest.get("targets", {}).get("metadata", {})
        if metadata.get("format") != "luffy-targets":
            return []
        sources, declared = (json.loads(metadata.get(name, "{}")) for name in ("sources", "breakdown"))
        if len(sources) < 2 and not declared:
            return []
        ordered = dict(sorted(sources.items(), key=lambda entry: (-entry[1]["read"], entry[0])))
        return [
            (name, _shorten(value), counts["read"], counts["kept"])
            for name, values in {"source": ordered, **declared}.items()
            for value, counts in list(values.items())[:MOST_VALUES]
        ]

    def learned(self) -> dict[str, dict[str, int]]:
        """Return the number of targets by source and verdict of the training; {} if it kept no ledger."""
        return self.manifest.get("ledger") or {}

    def text(self) -> str:
        """Return the whole manifest as JSON, empty if there is none."""
        return json.dumps(self.manifest, indent=2, ensure_ascii=False, default=str) if self.manifest else ""


def _shorten(value: Any) -> str:
    text = str(value)
    return text[:16] if DIGEST(text) else text


def costs(
    lineage: Lineage, metrics: Sequence[Mapping[str, Any]], results: "Mapping[str, Mapping[str, pa.Table]]"
) -> list[tuple[str, str]]:
    """List the cost of training and evaluation as (what, how much) pairs, as far as the records say.

    ``metrics``: the step metrics of the training. ``results``: role -> benchmark -> GRADED.
    """
    lines, steps = [], [record["data"] for record in metrics]
    if seconds := fsum(float(step.get(STEP_SECONDS, 0.0)) for step in steps):
        where = "1 device" if lineage.devices == 1 else f"{lineage.devices} devices"
        hours = f"{seconds * lineage.devices / 3600:.2f} device-hours"
        lines.append(("training", f"{_duration(seconds)} in {len(steps)} steps on {where}: {hours}"))
    if lineage.wall_time is not None:
        lines.append(("last attempt at training, with start and export", _duration(lineage.wall_time.total_seconds())))
    if tokens := fsum(float(step.get("perf/total_num_tokens", 0.0)) for step in steps):
        lines.append(("tokens trained on", f"{tokens:,.0f}"))
    for role, tables in results.items():
        samples = sum(table.num_rows for table in tables.values())
        tokens = sum(sum(table["tokens"].to_pylist()) for table in tables.values())
        devices = sorted({recorded(table, "device") for table in tables.values()} - {""})
        where = f" on {', '.join(devices)}" if devices else ""
        lines.append((f"samples of the {role}", f"{samples:,} with {tokens:,} tokens{where}"))
    return lines


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
