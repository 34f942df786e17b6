"""Years of promotion decisions, simulated: false promotions, gains that are found, and losses out of domain.

A year has a candidate in each of 52 weeks. How often a problem is solved comes from the recorded verdicts of
``research/runs/comparison``: its share of right answers over the seeds that learned the task. The decisions are made
by `evaluation.promotion`, for all years at once, with a suite's own answers (``fixed``) and until they decide.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from pipelines.api import BUDGET, FIRST, FIRST_OOD, PACE, Z90, can_be_shown, doubled, log_evidence, log_wealths
from research.recorded_run import read_run

RUNS, RECIPES = Path(__file__).resolve().parent / "runs/comparison", ("luffy", "mixed_policy", "sft_rl")
LEARNED = 0.5  # runs below it on the task of the training did not learn it
WEEKS, BETTER_FROM = 52, 20
ERROR_RATE, LIMIT = 0.05, 0.05
GAINS, LOSSES = (0.02, 0.05, 0.1), (0.005, 0.04)
OUTCOMES = np.array([-1.0, 0.0, 1.0])
Parts = Mapping[str, tuple[int, int, str]]  # problems, answers to each, the recorded benchmark of their difficulty


@dataclass(frozen=True)
class Suite:
    """A suite of benchmarks of recorded difficulty."""

    in_domain: Parts
    ood: Parts

    @property
    def answers(self) -> int:
        """Answers in domain of one model, by the suite's own numbers."""
        return sum(problems * k for problems, k, _ in self.in_domain.values())

    def most(self, first: int) -> int:
        """The most answers to a benchmark: the first round's, doubled within the budget."""
        return doubled(first, BUDGET * self.answers / len(self.in_domain))

    def rounds(self, *, fixed: bool) -> np.ndarray:
        """The answers in domain at the end of each round."""
        group = len(self.in_domain)
        first = -(-FIRST // group)
        return (
            np.array([self.answers]) if fixed else group * 2 ** np.arange(np.log2(self.most(first) / first) + 1) * first
        )

    def rates(self) -> tuple[np.ndarray, np.ndarray]:
        """How often problems are solved in domain, and the share of such answers; each benchmark counts alike."""
        parts = np.concatenate([recorded(name) * (1, 1 / len(self.in_domain)) for *_, name in self.in_domain.values()])
        levels, which = np.unique(parts[:, 0], return_inverse=True)
        return levels, np.bincount(which, parts[:, 1])


SUITES = {
    "paper": Suite(
        {
            "aime24": (30, 32, "arithmetic_mul"),
            "aime25": (30, 32, "arithmetic_mul"),
            "amc": (83, 32, "arithmetic_long"),
            "math500": (500, 1, "arithmetic_hard"),
            "minerva": (272, 1, "arithmetic_long"),
            "olympiadbench": (675, 1, "arithmetic_long"),
        },
        {
            "arc_c": (1172, 1, "arithmetic_short"),
            "gpqa_diamond": (198, 1, "arithmetic_long"),
            "mmlu_pro": (12032, 1, "arithmetic_long"),
        },
    ),
    "embedded": Suite(
        {"arithmetic": (200, 1, "arithmetic_hard")},
        {name: (100, 1, name) for name in ("arithmetic_long", "arithmetic_mul", "arithmetic_short")},
    ),
}


@cache
def recorded(benchmark: str) -> np.ndarray:
    """How often the problems of a recorded benchmark are solved, and the share of such problems: ``[levels, 2]``."""
    shares = []
    for recipe in RECIPES:
        tables = [read_run(file).tables for file in sorted(RUNS.glob(f"{recipe}-*.zip"))]
        learned = [t for t in tables if np.mean(t["arithmetic_hard"]["score"].to_numpy()) >= LEARNED]
        shares.append(np.mean([t[benchmark].sort_by("id")["score"].to_numpy() for t in learned], axis=0))
    levels, problems = np.unique(np.round(np.concatenate(shares), 3), return_counts=True)
    return np.column_stack([levels, problems / problems.sum()])


def better(levels: np.ndarray, shares: np.ndarray, gain: float) -> np.ndarray:
    """The rates of a model that solves ``gain`` more, by one step in log-odds for all problems."""
    if gain == 0:
        return levels
    odds = np.log(np.clip(levels, 0.01, 0.99) / (1 - np.clip(levels, 0.01, 0.99)))

    def moved(step: float) -> np.ndarray:
        return np.clip(levels + 1 / (1 + np.exp(-odds - step)) - 1 / (1 + np.exp(-odds)), 0, 1)

    steps = np.linspace(-4, 4, 4001)
    gains = np.array([shares @ (moved(step) - levels) for step in steps])
    return moved(steps[np.abs(gains - gain).argmin()])


class Line:
    """The champions of all years at one time: what is left of the error rate, and their answers."""

    def __init__(self, suite: Suite, years: int, rng: np.random.Generator, *, fixed: bool, below: float = 0.0) -> None:
        """``below``: what the champion solves less than the recorded policies."""
        self._rng, self._fixed = rng, fixed
        recorded_rates, shares = suite.rates()
        self.rates = better(recorded_rates, shares, -below)
        ends = np.round(np.multiply.outer(suite.rounds(fixed=fixed), shares))
        self._slots = np.diff(ends, axis=0, prepend=0).astype(int)  # [rounds, levels]: new answers
        self._left, self._tests = np.full(years, ERROR_RATE), 0
        self._right = rng.binomial(self._slots, self.rates, size=(years, *self._slots.shape))

    def decide(self, candidate: np.ndarray) -> np.ndarray:
        """Return in which years a candidate of these rates is promoted; its answers are drawn in rounds."""
        gains = self._rng.binomial(self._slots - self._right, candidate).sum(-1).cumsum(-1)
        losses = self._rng.binomial(self._right, 1 - candidate).sum(-1).cumsum(-1)
        answers = np.broadcast_to(self._slots.sum(-1).cumsum(), gains.shape)
        level = self._left / (PACE + self._tests + 1)
        wealths = log_wealths(OUTCOMES, np.stack([losses, answers - gains - losses, gains], axis=-1))
        shown = log_evidence(wealths) >= -np.log(level)[:, None]
        hopeful = can_be_shown(wealths, answers, (gains + losses) / answers, level[:, None], int(answers[0, -1]))
        ends = shown | (~hopeful & (not self._fixed))
        ends[:, -1] = True
        promoted = shown[np.arange(len(ends)), ends.argmax(-1)]
        self._left = np.where(promoted, self._left, self._left - level)
        self._tests += 1
        return promoted

    def renew(self, years: np.ndarray, rates: np.ndarray) -> None:
        """Let the new champions of ``years``, which have these rates, answer anew."""
        self._right[years] = self._rng.binomial(self._slots, rates, size=(years.sum(), *self._slots.shape))


def false_promotions(suite: Suite, years: int, rng: np.random.Generator, *, fixed: bool) -> float:
    """The share of years with a promotion, where every candidate is exactly as good as the champion."""
    line, any_yet = Line(suite, years, rng, fixed=fixed), np.zeros(years, bool)
    for _ in range(WEEKS):
        promoted = line.decide(line.rates)
        line.renew(promoted, line.rates)
        any_yet |= promoted
    return float(any_yet.mean())


def missed(suite: Suite, gain: float, years: int, rng: np.random.Generator, *, fixed: bool) -> float:
    """The share of years in which a candidate that is better by ``gain`` from week `BETTER_FROM` on is not promoted.

    The candidate solves what the recorded policies solve, and its champion less.
    """
    line, found = Line(suite, years, rng, fixed=fixed, below=gain), np.zeros(years, bool)
    candidate, _ = suite.rates()
    for week in range(1, WEEKS + 1):
        promoted = line.decide(line.rates if week < BETTER_FROM else candidate)
        if week < BETTER_FROM:
            line.renew(promoted, line.rates)
        else:
            found |= promoted
    return float(1 - found.mean())


def decline(
    part: tuple[int, int, str], most: int, loss: float, years: int, rng: np.random.Generator, *, fixed: bool
) -> str:
    """A year of candidates that gain enough in domain and lose ``loss`` on a benchmark against their champion.

    Returns the mean of the last champion's difference from the base in points, and the share of years in which it is
    more than a point beyond `LIMIT`.
    """
    problems, _, name = part
    levels, shares = recorded(name).T
    spread = float(shares @ (2 * levels * (1 - levels)))  # variance of the difference of two answers
    true, measured, best = np.zeros(years), np.zeros(years), np.zeros(years)  # differences from the base
    of_base = rng.normal(0, np.sqrt(spread / 2 / problems), years)
    for week in range(WEEKS):
        margin = LIMIT - np.maximum(0, best - measured)
        if fixed:
            answers, change = np.full(years, problems), rng.normal(-loss, np.sqrt(spread / problems), years)
            within = change >= -margin
        else:
            within, answers, change = _shown_within(loss, margin, spread, week, most, rng)
        # The candidate's answers are the same compared with the champion and with the base.
        of_policy = (change + loss) / 2 + rng.normal(0, np.sqrt(spread / 4 / answers))
        of_subset = rng.normal(0, np.sqrt(spread / 2 * np.maximum(0, 1 / answers - 1 / problems)))
        above = true - loss + of_policy + of_base + of_subset
        promoted = within & (above >= best - LIMIT)
        true = np.where(promoted, np.maximum(true - loss, -shares @ levels), true)
        measured = np.where(promoted, above, measured)
        best = np.where(promoted, np.maximum(best, above - Z90 * np.sqrt(spread / answers)), best)
    return f"{100 * true.mean():+.1f}, {(true < -LIMIT - 0.01 - 1e-9).mean():.0%}"


def _shown_within(
    loss: float, margin: np.ndarray, spread: float, week: int, most: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether sampling shows that ``loss`` is within ``margin``, the answers that it takes, and the mean difference."""
    chances = np.array([(spread + loss) / 2, 1 - max(spread, loss), max(0.0, (spread - loss) / 2)])
    level = ERROR_RATE * PACE / (PACE + week) / (PACE + week + 1)
    within, ended = np.zeros(len(margin), bool), np.zeros(len(margin), bool)
    size, new, counts = FIRST_OOD, FIRST_OOD, np.zeros((len(margin), 3))
    while True:
        counts[~ended] += rng.multinomial(new, chances / chances.sum(), (~ended).sum())
        values = (OUTCOMES + margin[:, None]) / np.maximum(1, 1 - margin[:, None])
        within |= log_evidence(log_wealths(values, counts)) >= -np.log(level)
        ended |= within
        if 2 * size > most or ended.all():
            answers = counts.sum(axis=-1)
            return within, answers, counts @ OUTCOMES / answers
        new, size = size, 2 * size


def simulate(years: int, seed: int) -> Iterator[str]:
    """The lines of a table: each case with the suite's own answers, and until they decide."""
    rng = np.random.default_rng(seed)
    for name, suite in SUITES.items():
        shown = [f"{false_promotions(suite, years, rng, fixed=fixed):.2%}" for fixed in (True, False)]
        yield f"| {name}: years with a false promotion | {' | '.join(shown)} |"
        for gain in GAINS:
            shown = [f"{missed(suite, gain, years, rng, fixed=fixed):.1%}" for fixed in (True, False)]
            yield f"| {name}: +{100 * gain:.0f} points from week {BETTER_FROM} on are missed | {' | '.join(shown)} |"
    paper = SUITES["paper"]
    for benchmark, part in paper.ood.items():
        for loss in LOSSES:
            most = paper.most(FIRST_OOD)
            shown = [decline(part, most, loss, years, rng, fixed=fixed) for fixed in (True, False)]
            yield f"| {benchmark} loses {100 * loss:.1f} points a week | {' | '.join(shown)} |"
