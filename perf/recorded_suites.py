"""Suites for simulations: their problems are solved as often as those of recorded runs were."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from core import PROJECT
from evaluation.benchmarks.suite import Benchmark, Source
from evaluation.promotion.answer_counts import most_answers
from evaluation.recorded_run import read_run

RUNS, RECIPES = PROJECT / "results/runs/comparison", ("luffy", "mixed_policy", "sft_rl")
LEARNED = 0.5  # runs below it on the task of the training did not learn it
Rates = np.ndarray  # shape (levels, 2): how often a problem is solved, and the share of such problems


@dataclass(frozen=True)
class Suite:
    """``problems``, answers to each, and the recorded benchmark whose difficulty it has."""

    in_domain: Mapping[str, tuple[int, int, str]]
    ood: Mapping[str, tuple[int, int, str]]

    def fixed(self) -> int:
        """Return the answers of one model with the numbers that the suite names."""
        return sum(problems * k for problems, k, _ in (*self.in_domain.values(), *self.ood.values()))

    def entries(self) -> list[Benchmark]:
        """Return the suite as the rule reads it; where its problems come from is of no meaning."""
        groups: dict[Literal["evals", "ood"], Mapping[str, tuple[int, int, str]]]
        groups = {"evals": self.in_domain, "ood": self.ood}
        return [
            Benchmark(name=name, group=group, title=name, samples=k, sources=(Source(file=name),))
            for group, parts in groups.items()
            for name, (_, k, _) in parts.items()
        ]

    def most(self, group: str) -> int:
        """Return the most answers to a benchmark of a group."""
        sizes = {name: problems for name, (problems, _, _) in (*self.in_domain.items(), *self.ood.items())}
        return most_answers(self.entries(), sizes)[group]

    def rates(self) -> Rates:
        """Of an answer in domain, where each benchmark is asked for as many."""
        parts = [recorded(name) * (1, 1 / len(self.in_domain)) for _, _, name in self.in_domain.values()]
        levels, which = np.unique(np.concatenate(parts)[:, 0], return_inverse=True)
        return np.column_stack([levels, np.bincount(which, np.concatenate(parts)[:, 1])])


PAPER = Suite(
    in_domain={
        "aime24": (30, 32, "arithmetic_mul"),
        "aime25": (30, 32, "arithmetic_mul"),
        "amc": (83, 32, "arithmetic_long"),
        "math500": (500, 1, "arithmetic_hard"),
        "minerva": (272, 1, "arithmetic_long"),
        "olympiadbench": (675, 1, "arithmetic_long"),
    },
    ood={
        "arc_c": (1172, 1, "arithmetic_short"),
        "gpqa_diamond": (198, 1, "arithmetic_long"),
        "mmlu_pro": (12032, 1, "arithmetic_long"),
    },
)
EMBEDDED = Suite(
    in_domain={"arithmetic": (200, 1, "arithmetic_hard")},
    ood={name: (100, 1, name) for name in ("arithmetic_long", "arithmetic_mul", "arithmetic_short")},
)
SUITES = {"paper": PAPER, "embedded": EMBEDDED}


@cache
def recorded(benchmark: str) -> Rates:
    """Return how often the problems of a recorded benchmark are solved, over the seeds that learned the task."""
    shares = []
    for recipe in RECIPES:
        tables = [read_run(file).tables for file in sorted(RUNS.glob(f"{recipe}-*.zip"))]
        learned = [t for t in tables if np.mean(t["arithmetic_hard"]["score"].to_numpy()) >= LEARNED]
        scores = [t[benchmark].sort_by("id")["score"].to_numpy() for t in learned]
        shares.append(np.mean(scores, axis=0))
    levels, problems = np.unique(np.round(np.concatenate(shares), 3), return_counts=True)
    return np.column_stack([levels, problems / problems.sum()])


def better(rates: Rates, gain: float) -> np.ndarray:
    """Return the rates of a model that solves ``gain`` more, by one step in log-odds for all problems."""
    levels, shares = rates.T
    if gain == 0:
        return levels
    odds = np.log(np.clip(levels, 0.01, 0.99) / (1 - np.clip(levels, 0.01, 0.99)))

    def moved(step: float) -> np.ndarray:
        return np.clip(levels + 1 / (1 + np.exp(-odds - step)) - 1 / (1 + np.exp(-odds)), 0, 1)

    steps = np.linspace(-4, 4, 4001)
    gains = np.array([shares @ (moved(step) - levels) for step in steps])
    return moved(steps[np.abs(gains - gain).argmin()])
