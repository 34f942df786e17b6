"""Which of two recipes learns sooner, decided at looks that were planned before the runs were made.

The measure is the number of batches until a recipe's own samples are often right, censored at the end of the training.
It is compared by a log-rank test (Mantel 1966) at each look; the bound of a look spends the share of the error rate
that O'Brien and Fleming's function gives it (Lan and DeMets 1983), so looking again costs nothing.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from core.errors import InputError
from core.text.markdown import markdown_table
from research.outcomes import permutation_test
from research.recorded_run import read_run
from research.trials import SUITE

LOOKS: tuple[int, ...] = (8, 16, 24, 48)  # pairs of seeds
ERROR_RATE = 0.05  # two-sided, over all looks
LEARNED = 0.3  # the share of a batch's on-policy samples that is right
HORIZON = 60  # batches of a training
FIRST_STAGE = {"sft_rl": 30}  # batches that supervised training took before: 60 updates of half as many prompts
BEFORE_THE_PLAN = 8  # seeds that were known when the looks were planned


@dataclass(frozen=True)
class Time:
    """Batches until a training learned; without ``learned``, it had not by then."""

    batches: int
    learned: bool


def time_to_learn(metrics: Sequence[Mapping[str, Any]], before: int = 0) -> Time:
    """Return when the reward of on-policy samples first reached `LEARNED`, after ``before`` batches of a first stage.

    >>> steps = [{"step": step, "data": {"reward/on_policy": step / 10}} for step in (1, 2, 3, 4)]
    >>> time_to_learn(steps), time_to_learn(steps[:2], before=30)
    (Time(batches=3, learned=True), Time(batches=32, learned=False))
    """
    for record in metrics:
        if record["data"].get("reward/on_policy", 0.0) >= LEARNED:
            return Time(before + record["step"], True)
    return Time(before + metrics[-1]["step"], False)


def _censored(times: Sequence[Time]) -> Any:
    from scipy.stats import CensoredData

    learned, others = ([time.batches for time in times if time.learned is kind] for kind in (True, False))
    return CensoredData(uncensored=learned, right=others)


def restricted_mean(times: Sequence[Time], horizon: int = HORIZON) -> tuple[float, float]:
    """Return the mean number of batches up to ``horizon``, the area under Kaplan and Meier's curve, and its variance.

    The variance is Greenwood's.

    >>> restricted_mean([Time(10, True), Time(30, True), Time(60, False), Time(60, False)])
    (40.0, 112.5)
    """
    from scipy.stats import ecdf

    curve = ecdf(_censored(times)).sf
    at = [time for time in curve.quantiles.tolist() if time <= horizon]
    levels = [1.0, *curve.probabilities.tolist()]
    areas = [(end - start) * level for start, end, level in zip([0, *at], [*at, horizon], levels, strict=False)]
    variance = 0.0
    for number, time in enumerate(at):
        risk = sum(other.batches >= time for other in times)
        events = sum(other.batches == time and other.learned for other in times)
        if 0 < events < risk:
            variance += sum(areas[number + 1 :]) ** 2 * events / (risk * (risk - events))
    return sum(areas), variance


def bounds(fractions: Sequence[float], error_rate: float = ERROR_RATE) -> list[float]:
    """Return the absolute value of a standard normal statistic that decides at each look.

    A part ``t`` of the information may spend ``4 (1 - Phi(z / sqrt(t)))``, with ``z`` the quantile of a quarter of
    ``error_rate`` (both sides of O'Brien and Fleming's function). Between looks the statistic is a Brownian motion: its
    density below the bounds is carried from look to look on a grid (Armitage, McPherson and Rowe 1969).

    Four equal looks at 0.05 have these bounds in Lan and DeMets' program:

    >>> [round(bound, 3) for bound in bounds([0.25, 0.5, 0.75, 1.0])]
    [4.333, 2.963, 2.359, 2.014]
    """
    import numpy as np
    from scipy.stats import norm

    grid, step = np.linspace(-8, 8, 8001, retstep=True)
    made: list[float] = []
    density, spent, last = np.where(grid == 0, 1 / step, 0.0), 0.0, 0.0
    for fraction in fractions:
        transition = norm.pdf(grid, scale=math.sqrt(fraction - last)) * step
        density = np.convolve(density, transition, mode="same")
        may_spend = 4 * norm.sf(norm.isf(error_rate / 4) / math.sqrt(fraction))
        outside = 2 * np.cumsum(density[::-1])[: len(grid) // 2] * step  # beyond the points from the right
        edge = np.interp(may_spend - spent, outside, grid[::-1][: len(outside)] - step / 2)
        made.append(float(edge / math.sqrt(fraction)))
        density, spent, last = np.where(abs(grid) < edge, density, 0.0), may_spend, fraction
    return made


def read_times(runs: Path, recipe: str) -> dict[int, Time]:
    """Return the time of each recorded seed of a recipe. InputError if ``runs`` has none."""
    files = {int(file.stem.rpartition("-")[2]): file for file in runs.glob(f"{recipe}-*.zip")}
    if not files:
        raise InputError(f"{runs}: no recorded run of {recipe}; expected {recipe}-SEED.zip")
    before = FIRST_STAGE.get(recipe, 0)
    return {seed: time_to_learn(read_run(file).metrics, before) for seed, file in sorted(files.items())}


def looks_table(first: Mapping[int, Time], second: Mapping[int, Time]) -> str:
    """Return a table with one row per look that the recorded seeds reach, and one for the seeds made since the plan."""
    seeds = sorted(first.keys() & second.keys())
    plan = dict(zip(LOOKS, bounds([pairs / LOOKS[-1] for pairs in LOOKS]), strict=True))
    reached = [pairs for pairs in LOOKS if pairs <= len(seeds)]
    if not reached:
        raise InputError(f"{len(seeds)} seeds of both are recorded: expected at least {LOOKS[0]}, the first look")
    header = ("pairs", "learned", "batches until 30%, difference", "log-rank z", "bound", "decided")
    rows = [_row(str(pairs), first, second, seeds[:pairs], plan[pairs]) for pairs in reached]
    if since := [seed for seed in seeds[: reached[-1]] if seed >= BEFORE_THE_PLAN]:
        rows.append(_row(f"the {len(since)} since the plan", first, second, since, None))
    return markdown_table(header, rows)


def _row(
    name: str, first: Mapping[int, Time], second: Mapping[int, Time], seeds: Sequence[int], bound: float | None
) -> tuple[str, ...]:
    from scipy.stats import logrank

    one, other = ([times[seed] for seed in seeds] for times in (first, second))
    statistic = float(logrank(_censored(one), _censored(other)).statistic)
    (mean, variance), (mean_other, variance_other) = restricted_mean(one), restricted_mean(other)
    half = 1.96 * math.sqrt(variance + variance_other)
    difference = mean - mean_other
    decided = "" if bound is None else "yes" if abs(statistic) >= bound else "no"
    learned = f"{sum(time.learned for time in one)} and {sum(time.learned for time in other)}"
    interval = f"{difference:+.1f} [{difference - half:+.1f}, {difference + half:+.1f}]"
    return name, learned, interval, f"{statistic:+.2f}", "" if bound is None else f"{bound:.2f}", decided


def final_scores(runs: Path, recipe: str, seeds: Sequence[int]) -> list[float]:
    """Return the share of right answers in domain after the training of each seed; benchmarks count alike."""
    import pyarrow.parquet as pq

    entries = json.loads((pq.read_schema(runs / SUITE).metadata or {})[b"benchmarks"])
    names = [entry["name"] for entry in entries if entry["group"] == "evals"]
    tables = [read_run(runs / f"{recipe}-{seed}.zip").tables for seed in seeds]
    return [fmean(fmean(of_seed[name]["score"].to_pylist()) for name in names) for of_seed in tables]


def sections(recipes: Sequence[str], against: str, runs: Path) -> Iterator[str]:
    """Yield a Markdown section per recipe of ``recipes``, each compared with ``against``."""
    baseline = read_times(runs, against)
    for recipe in recipes:
        times = read_times(runs, recipe)
        table = looks_table(times, baseline)
        seeds = sorted(times.keys() & baseline.keys())
        seeds = seeds[: max(pairs for pairs in LOOKS if pairs <= len(seeds))]
        first, second = (final_scores(runs, name, seeds) for name in (recipe, against))
        p = permutation_test(first, second)
        scores = f"{fmean(first):.1%} and {fmean(second):.1%} (p {'<0.001' if p < 0.001 else f'{p:.3f}'})"
        yield f"`{recipe}` and `{against}`:\n\n{table}\n\nRight in domain after these pairs: {scores}.\n"
