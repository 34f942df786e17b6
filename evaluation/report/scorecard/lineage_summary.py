"""What a scorecard says of a policy's ``lineage.json``: what its targets are made of, and what training it cost."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import fsum
from typing import Any

import pyarrow as pa

from core.metric_table import STEP_SECONDS, STEP_TOKENS
from core.model.lineage_file import Manifest
from core.text.patterns import compile_full_match
from evaluation.sample_tables import recorded

MOST_VALUES = 20  # most values of one metadata column
DIGEST = compile_full_match(r"[0-9a-f]{40,}")


def composition(manifest: Manifest | None) -> list[tuple[str, str, int, int]]:
    """Summarise the targets as their preparation counted them: (what, value, traces read, targets used).

    By source, and by each metadata that a source declares (teacher, license, …), the most frequent values first.
    Empty where the targets are of one source without metadata.
    """
    metadata = manifest.targets.metadata if manifest else {}
    if metadata.get("format") != "luffy-targets":
        return []
    sources, declared = (json.loads(metadata.get(name, "{}")) for name in ("sources", "breakdown"))
    if len(sources) < 2 and not declared:
        return []
    ordered = dict(sorted(sources.items(), key=lambda entry: (-entry[1]["read"], entry[0])))
    return [
        (name, value[:16] if DIGEST(value) else value, counts["read"], counts["kept"])
        for name, values in {"source": ordered, **declared}.items()
        for value, counts in list(values.items())[:MOST_VALUES]
    ]


def costs(
    manifest: Manifest | None, metrics: Sequence[Mapping[str, Any]], results: Mapping[str, Mapping[str, pa.Table]]
) -> list[tuple[str, str]]:
    """List the cost of training and evaluation as (what, how much) pairs, as far as the records say.

    ``metrics``: the step metrics of the training. ``results``: role -> benchmark -> GRADED.
    """
    lines, steps = [], [record["data"] for record in metrics]
    trainer = manifest.config.get("trainer", {}) if manifest else {}
    devices = int(trainer.get("nnodes", 1)) * int(trainer.get("n_gpus_per_node", 1))
    if seconds := fsum(float(step.get(STEP_SECONDS, 0.0)) for step in steps):
        where = "1 device" if devices == 1 else f"{devices} devices"
        hours = f"{seconds * devices / 3600:.2f} device-hours"
        lines.append(("training", f"{_duration(seconds)} in {len(steps)} steps on {where}: {hours}"))
    if manifest and manifest.finished:
        wall = datetime.fromisoformat(manifest.finished) - datetime.fromisoformat(manifest.started)
        lines.append(("last attempt at training, with start and export", _duration(wall.total_seconds())))
    if tokens := fsum(float(step.get(STEP_TOKENS, 0.0)) for step in steps):
        lines.append(("tokens trained on", f"{tokens:,.0f}"))
    for role, tables in results.items():
        samples = sum(table.num_rows for table in tables.values())
        tokens = sum(sum(table["tokens"].to_pylist()) for table in tables.values())
        kinds = sorted({recorded(table, "device") for table in tables.values()} - {""})
        where = f" on {', '.join(kinds)}" if kinds else ""
        lines.append((f"samples of the {role}", f"{samples:,} with {tokens:,} tokens{where}"))
    return lines


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
