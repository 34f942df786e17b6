"""What several measurements have in common: their options, the project's commands, rows of targets, an interval."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from subprocess import run
from typing import Any

from core.code_digest import PROJECT

TRAINING = str(PROJECT / ".venv-train/bin/python")


def parser_of(name: str, docstring: str | None) -> ArgumentParser:
    """Return the parser of a measurement of this folder, described by the first line of its docstring."""
    return ArgumentParser(prog=f"python -m perf.trainings.{name}", description=(docstring or "").split("\n", 1)[0])


def call(*command: str | Path) -> None:
    """Run a command; if it fails, end with the last lines of its errors."""
    done = run([str(part) for part in command], cwd=PROJECT, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"error: {' '.join(map(str, command))} ended with status {done.returncode}:\n{done.stderr[-2000:]}")


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
