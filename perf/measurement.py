"""What several measurements have in common: options, time, the project's commands, rows of targets, an interval."""

import os
import resource
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from subprocess import run
from typing import Any

import psutil

from core import PROJECT

TRAINING = str(PROJECT / ".venv-train/bin/python")


def parser_of(name: str, docstring: str | None) -> ArgumentParser:
    """Return the parser of the measurement ``perf.NAME``, described by the first line of its docstring."""
    return ArgumentParser(prog=f"python -m perf.{name}", description=(docstring or "").split("\n", 1)[0])


@dataclass
class Timed:
    """Wall-clock and CPU seconds of a block; other programs on the machine hardly change the CPU seconds."""

    clock: float = 0.0
    cpu: float = 0.0

    def __enter__(self) -> "Timed":
        self.cpu = -_of_descendants()  # looking for them takes time, which is none of the block's
        self.cpu -= _of_process()
        self.clock = -time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.clock += time.perf_counter()
        self.cpu += _of_process()
        self.cpu += _of_descendants()


def cpu_seconds() -> float:
    """CPU seconds of this process, of its descendants, and of those that it has waited for."""
    return _of_process() + _of_descendants()


def _of_process() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _of_descendants() -> float:
    seconds = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            seconds += sum(process.cpu_times()[:4])
        except psutil.Error:
            continue  # it has just ended, and counts as a child that has
    return seconds


def call(*command: str | Path, environment: Mapping[str, str] | None = None) -> None:
    """Run a command, with more variables in its ``environment``; if it fails, end with the last lines of its errors."""
    parts, variables = [str(part) for part in command], {**os.environ, **(environment or {})}
    done = run(parts, cwd=PROJECT, env=variables, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"error: {' '.join(parts)} ended with status {done.returncode}:\n{done.stderr[-2000:]}")


def overriding(settings: Iterable[str]) -> list[str]:
    """Return the arguments of a command that override these settings, each ``KEY=VALUE``."""
    return [part for text in settings for part in ("--set", text)]


def train_policy(
    out: Path, recipe: str, targets: Path, model: Path, seed: int, settings: Iterable[str], *more: Any
) -> None:
    """Train ``model`` in folder ``out``, unless it is complete there; ``more``: other arguments of the command."""
    files = ["--targets", targets, "--model", model, "--out", out]
    call(TRAINING, "-m", "training", "--recipe", recipe, *files, "--seed", str(seed), *overriding(settings), *more)


def interval(values: Sequence[float], digits: str = ".1f") -> str:
    """The mean with the 95% t-interval over the seeds."""
    from scipy import stats

    mean = fmean(values)
    if len(values) < 2 or len(set(values)) < 2:
        return f"{mean:{digits}}"
    low, high = stats.t.interval(0.95, len(values) - 1, mean, stats.sem(values))
    return f"{mean:{digits}} [{low:{digits}}, {high:{digits}}]"
