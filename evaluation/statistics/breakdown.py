"""Where a score comes from: by subject or difficulty, by length of the response, and what it cost."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from evaluation.statistics.scores import effective_size, mean_and_error, wilson

if TYPE_CHECKING:
    import pyarrow as pa

LENGTH_BINS = 5
MOST_SUBJECTS = 20

Interval = tuple[float, float, float]  # low, mean, high


@dataclass(frozen=True)
class Subject:
    """Scores on the problems of one subject or level of difficulty, with 95% intervals."""

    name: str
    problems: int
    base: Interval
    policy: Interval


@dataclass(frozen=True)
class LengthBin:
    """Samples whose responses have ``low`` to ``high`` tokens, and the share of them that is right."""

    low: int
    high: int
    samples: int
    mean: float


def by_subject(base: "pa.Table", policy: "pa.Table") -> tuple[Subject, ...]:
    """Scores of two GRADED tables on the same problems by subject; () where fewer than two are known."""
    found = [_by_subject(base), _by_subject(policy)]
    names = sorted(found[1], key=lambda name: (-len(found[1][name]), name))
    if len(names) < 2 or found[0].keys() != found[1].keys():
        return ()
    kept = sorted(names[:MOST_SUBJECTS])
    return tuple(
        Subject(name, len(found[1][name]), _interval(found[0][name]), _interval(found[1][name])) for name in kept
    )


def _by_subject(graded: "pa.Table") -> dict[str, list[float]]:
    """The mean scores of the problems of each subject."""
    problems: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in graded.select(["subject", "id", "score"]).to_pylist():
        if row["subject"] is not None:
            problems[_level(row["subject"]), row["id"]].append(row["score"])
    subjects: dict[str, list[float]] = defaultdict(list)
    for (subject, _), scores in problems.items():
        subjects[subject].append(math.fsum(scores) / len(scores))
    return subjects


def _level(subject: str) -> str:
    """A difficulty such as 4.25 as its level, which holds more problems; other subjects as they are."""
    try:
        return f"level {int(float(subject))}"
    except (ValueError, OverflowError):
        return subject


def _interval(means: Sequence[float]) -> Interval:
    mean, error = mean_and_error(list(means))
    low, high = wilson(mean, effective_size(mean, error, len(means)))
    return low, mean, high


def by_length(graded: "pa.Table") -> tuple[LengthBin, ...]:
    """Samples in up to `LENGTH_BINS` bins of equal size by length; samples of equal length are in one bin."""
    rows = sorted(zip(graded["tokens"].to_pylist(), graded["score"].to_pylist(), strict=True))
    bins, start = [], 0
    for number in range(1, LENGTH_BINS + 1):
        end = max(start, round(len(rows) * number / LENGTH_BINS))
        while 0 < end < len(rows) and rows[end][0] == rows[end - 1][0]:
            end += 1
        if part := rows[start:end]:
            bins.append(
                LengthBin(part[0][0], part[-1][0], len(part), math.fsum(score for _, score in part) / len(part))
            )
        start = end
    return tuple(bins)


def costs(
    lineage: Mapping[str, Any], metrics: Sequence[Mapping[str, Any]], tables: "Mapping[str, Mapping[str, pa.Table]]"
) -> list[tuple[str, str]]:
    """What training and evaluation took, as (what, how much) lines; only what the records say.

    ``tables``: role -> benchmark -> GRADED.
    """
    found = []
    steps = [record["data"] for record in metrics]
    seconds = math.fsum(float(step.get("timing_s/step", 0.0)) for step in steps)
    trainer = lineage.get("config", {}).get("trainer", {})
    devices = int(trainer.get("nnodes", 1)) * int(trainer.get("n_gpus_per_node", 1))
    if seconds:
        where = "device" if devices == 1 else "devices"
        found.append(
            ("training", f"{_hours(seconds)} in {len(steps)} steps on {devices} {where}: "
             f"{seconds * devices / 3600:.2f} device-hours")
        )  # fmt: skip
    if "started" in lineage and "finished" in lineage:
        wall = datetime.fromisoformat(lineage["finished"]) - datetime.fromisoformat(lineage["started"])
        found.append(("training, last attempt with start and export", _hours(wall.total_seconds())))
    if tokens := math.fsum(float(step.get("perf/total_num_tokens", 0.0)) for step in steps):
        found.append(("tokens trained on", f"{tokens:,.0f}"))
    for role, results in tables.items():
        samples = sum(table.num_rows for table in results.values())
        drawn = sum(sum(table["tokens"].to_pylist()) for table in results.values())
        device = {(table.schema.metadata or {}).get(b"device", b"").decode() for table in results.values()} - {""}
        on = f" on {', '.join(sorted(device))}" if device else ""
        found.append((f"samples of the {role}", f"{samples:,} with {drawn:,} tokens{on}"))
    return found


def _hours(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
