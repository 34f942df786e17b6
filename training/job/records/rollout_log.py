"""Read the samples of a run that verl wrote: ``rollouts/STEP.jsonl``, one sample per line."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from core.errors import InputError, first_line


@dataclass(frozen=True)
class Rollout:
    """One sample: what the policy read and wrote, the gold answer and the reward.

    ``prefix_length`` is the number of off-policy tokens at the head of the response; 0 for an on-policy sample.
    ``tokens`` are the response's with its end token, and ``error`` says why its verifier failed, "" if it did
    not.
    """

    prompt: str
    response: str
    gold: str
    reward: float
    prefix_length: int
    tokens: int = 0
    error: str = ""
    cut: bool = False


def steps(folder: Path) -> list[int]:
    """The steps with samples in ``folder`` (a run's ``rollouts``), first to last."""
    return sorted(int(file.stem) for file in folder.glob("*.jsonl") if file.stem.isdigit())


def read(folder: Path, step: int, limit: int | None = None) -> list[Rollout]:
    """The first ``limit`` samples of ``step``; InputError, which names the available steps, if there are none."""
    file = folder / f"{step}.jsonl"
    if not file.is_file():
        available = steps(folder)
        text = f"it has steps {available[0]} to {available[-1]}" if available else "it has no step"
        raise InputError(f"{folder}: no samples of step {step}; {text}")
    with file.open(encoding="utf-8", errors="replace") as lines:
        return [_sample(line, f"{file}: line {number}") for number, line in _complete(islice(lines, limit))]


def _complete(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Number the complete lines; a run that is writing or was killed may leave a partial last line."""
    return ((number, line) for number, line in enumerate(lines, 1) if line.endswith("\n"))


def _sample(line: str, where: str) -> Rollout:
    try:
        row = json.loads(line)
        texts = row["input"], row["output"], str(row["gts"])
        more = int(row.get("tokens", 0)), str(row.get("error", "")), bool(row.get("cut"))
        return Rollout(*texts, float(row["score"]), int(row["prefix_length"]), *more)
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{where}: not a sample ({first_line(error)}); remove the file of this step") from error
