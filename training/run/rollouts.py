"""Samples of a run, as verl wrote them: ``rollouts/STEP.jsonl``, a sample a line."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import InputError


@dataclass(frozen=True)
class Rollout:
    """One sample: what the policy read and wrote, its gold answer and its reward.

    ``prefix_length``: leading tokens of the response that are off-policy; 0 for an on-policy sample.
    """

    prompt: str
    response: str
    gold: str
    reward: float
    prefix_length: int


def steps(folder: Path) -> list[int]:
    """Steps whose samples are in ``folder`` (a run's ``rollouts``), first to last."""
    return sorted(int(file.stem) for file in folder.glob("*.jsonl") if file.stem.isdigit())


def read(folder: Path, step: int, limit: int | None = None) -> list[Rollout]:
    """The first ``limit`` samples of ``step``; InputError with the steps there are if it is not one of them."""
    file = folder / f"{step}.jsonl"
    if not file.is_file():
        there = steps(folder)
        known = f"steps {there[0]} to {there[-1]}" if there else "no step"
        raise InputError(f"{folder}: no samples of step {step}; there is {known}")
    found = []
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if len(found) == limit:
                break
            found.append(_rollout(json.loads(line)))
    return found


def _rollout(row: dict[str, Any]) -> Rollout:
    return Rollout(row["input"], row["output"], str(row["gts"]), float(row["score"]), int(row["prefix_length"]))
