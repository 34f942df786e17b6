"""The promotion rule over simulated years: ``.venv/bin/python -m perf.promotion`` (docs/evaluation.md has the result).

A year has a candidate in each of 52 weeks. How often a problem is solved comes from recorded verdicts: its share of
right answers over the seeds of a recipe in ``results/runs/comparison``. The rule is that of `evaluation.promotion`,
which decides all years at once; the rule per decision is its normal approximation.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from core.code_digest import PROJECT
from core.files import write_text
from evaluation.benchmarks.suite import Benchmark, Source
from evaluation.promotion.comparison import GUARD_LEVEL
from evaluation.promotion.error_budget import PACE
from evaluation.promotion.evidence import can_be_shown, log_evidence, log_wealths
from evaluation.promotion.rounds import FIRST_OOD, first_round, most_answers
from evaluation.promotion.rules import Z90
from evaluation.recorded_run import read_run

RUNS, RECIPES = PROJECT / "results/runs/comparison", ("luffy", "mixed_policy", "sft_rl")
LEARNED = 0.5  # runs below it on the task of the training did not learn it
WEEKS, LIMIT = 52, 0.05
ERROR_RATE = 0.05
OUTCOMES = np.array([-1.0, 0.0, 1.0])
Rates = np.ndarray  # shape (levels, 2): how often a problem is solved, and the share of such problems


@dataclass(frozen=True)
class Suite:
    """``problems``, answers to each, and the recorded benchmark whose difficulty it has."""

    in_domain: Mapping[str, tuple[int, int, str]]
    ood: Mapping[str, tuple[int, int, str]]

    def fixed(self) -> int:
        """The answers of one model with the numbers that the suite names."""
        return sum(problems * k for problems, k, _ in (*self.in_domain.values(), *self.ood.values()))

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
    """How often the problems of a recorded benchmark are solved, over the seeds that learned the task."""
    shares = []
    for recipe in RECIPES:
        tables = [read_run(file).tables for file in sorted(RUNS.glob(f"{recipe}-*.zip"))]
        learned = [t for t in tables if np.mean(t["arithmetic_hard"]["score"].to_numpy()) >= LEARNED]
        scores = [t[benchmark].sort_by("id")["score"].to_numpy() for t in learned]
        shares.append(np.mean(scores, axis=0))
    levels, problems = np.unique(np.round(np.concatenate(shares), 3), return_counts=True)
    return np.column_stack([levels, problems / problems.sum()])


def better(rates: Rates, gain: float) -> np.ndarray:
    """The rates of a model that solves ``gain`` more, by one step in log-odds for all problems."""
    levels, shares = rates.T
    if gain == 0:
        return levels
    odds = np.log(np.clip(levels, 0.01, 0.99) / (1 - np.clip(levels, 0.01, 0.99)))

    def moved(step: float) -> np.ndarray:
        return np.clip(levels + 1 / (1 + np.exp(-odds - step)) - 1 / (1 + np.exp(-odds)), 0, 1)

    steps = np.linspace(-4, 4, 4001)
    gains = np.array([shares @ (moved(step) - levels) for step in steps])
    return moved(steps[np.abs(gains - gain).argmin()])


@dataclass
class Line:
    """The champions of all years at one time: what is left of the error rate, and their answers."""

    rng: np.random.Generator
    slots: np.ndarray  # (rounds, levels): new answers of each round
    ood: int  # answers out of domain of the first round
    rates: np.ndarray  # (levels,) of the champion
    right: np.ndarray  # (years, rounds, levels): the champion's right answers
    drawn: np.ndarray  # (years,): the champion's answers that were paid for
    left: np.ndarray  # (years,)
    tests: int = 0

    @classmethod
    def begin(cls, suite: Suite, years: int, rng: np.random.Generator) -> "Line":
        """The lines before the first decision."""
        rates, group = suite.rates(), len(suite.in_domain)
        entries = [_benchmark(name, "evals", k) for name, (_, k, _) in suite.in_domain.items()]
        sizes = {name: problems for name, (problems, _, _) in suite.in_domain.items()}
        answers, most = first_round(entries)[entries[0].name], most_answers(entries, sizes)["evals"]
        rounds = [group * answers * 2**n for n in range((most // answers).bit_length())]
        shares = rates[:, 1] / rates[:, 1].sum()
        slots = np.diff(np.round(np.multiply.outer(rounds, shares)), axis=0, prepend=0).astype(int)
        right = np.zeros((years, *slots.shape), int)
        ood = FIRST_OOD * len(suite.ood)
        line = cls(rng, slots, ood, rates[:, 0], right, np.zeros(years, int), np.full(years, ERROR_RATE))
        line.renew(np.ones(years, bool))
        return line

    def renew(self, years: np.ndarray) -> None:
        """Let the champions of ``years`` defend their place with answers that nobody has seen."""
        self.right[years] = self.rng.binomial(self.slots, self.rates, size=(years.sum(), *self.slots.shape))
        self.drawn[years] = 0

    def decide(self, candidate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One week with a candidate of these rates: (promoted, answers of both models before a gain is shown)."""
        gains = self.rng.binomial(self.slots - self.right, candidate).sum(-1).cumsum(-1)
        losses = self.rng.binomial(self.right, 1 - candidate).sum(-1).cumsum(-1)
        answers = np.broadcast_to(self.slots.sum(-1).cumsum(), gains.shape)
        level = self.left / (PACE + self.tests + 1)
        wealths = log_wealths(OUTCOMES, np.stack([losses, answers - gains - losses, gains], axis=-1))
        shown = log_evidence(wealths) >= -np.log(level)[:, None]
        squares, most = (gains + losses) / answers, int(answers[0, -1])
        ends = shown | ~can_be_shown(wealths, answers, squares, level[:, None], most)
        ends[:, -1] = True
        years, last = np.arange(len(ends)), ends.argmax(-1)
        promoted, drawn = shown[years, last], answers[years, last]
        paid = drawn + np.maximum(drawn - self.drawn, 0) + self.ood * np.where(self.drawn == 0, 2, 1)
        self.drawn = np.maximum(self.drawn, drawn)
        self.left = np.where(promoted, self.left, self.left - level)
        self.tests += 1
        return promoted, paid


def _benchmark(name: str, group: str, samples: int) -> Benchmark:
    origin = (Source(file=name),)  # of no meaning: only the numbers count
    return Benchmark(name=name, group=group, title=name, samples=samples, sources=origin)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class Year:
    """Years in which no candidate is better: the share with a false promotion by each week, and answers."""

    false: np.ndarray  # (weeks,)
    answers: np.ndarray  # (weeks, years): of both models
    left: float  # of the error rate, in the mean


def null_year(suite: Suite, years: int, rng: np.random.Generator) -> Year:
    """Candidates exactly as good as the champion."""
    line, any_yet, false, answers = Line.begin(suite, years, rng), np.zeros(years, bool), [], []
    for _ in range(WEEKS):
        promoted, paid = line.decide(line.rates)
        line.renew(promoted)
        any_yet |= promoted
        false.append(any_yet.mean())
        answers.append(paid)
    return Year(np.array(false), np.array(answers), float(line.left.mean()))


def power(suite: Suite, gain: float, week: int, years: int, rng: np.random.Generator) -> tuple[float, float]:
    """How often a candidate that is better by ``gain`` is promoted after ``week`` - 1 others; the median of answers."""
    line = Line.begin(suite, years, rng)
    line.tests = week - 1
    line.left[:] = ERROR_RATE * PACE / (PACE + week - 1)
    promoted, paid = line.decide(better(suite.rates() / (1, suite.rates()[:, 1].sum()), gain))
    return float(promoted.mean()), float(np.median(paid))


def per_decision(suite: Suite, gain: float, years: int, rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """The rule per decision: (power in the first week, share of years with a false promotion by each week)."""
    variance = 0.0
    for problems, k, name in suite.in_domain.values():
        levels, shares = recorded(name).T
        variance += shares @ (levels * (1 - levels)) / (problems * k) / len(suite.in_domain) ** 2
    error, z95 = np.sqrt(variance), 1.96 * np.sqrt(2)
    champion, any_yet, false = rng.normal(0, error, years), np.zeros(years, bool), []
    first = gain + rng.normal(0, error, years) - champion > z95 * error
    for _ in range(WEEKS):
        score = rng.normal(0, error, years)
        wins = score - champion > z95 * error
        champion, any_yet = np.where(wins, score, champion), any_yet | wins
        false.append(any_yet.mean())
    return float(first.mean()), np.array(false)


def decline(loss: float, guarded: bool, years: int, rng: np.random.Generator) -> np.ndarray:
    """How far a benchmark out of domain falls in a year of candidates that each lose ``loss`` against the champion.

    All gain enough in domain. ``guarded``: by the rule; or else by the measured loss against the champion alone.
    """
    problems, _, name = PAPER.ood["arc_c"]
    levels, shares = recorded(name).T
    spread = float(shares @ (2 * levels * (1 - levels)))
    true, measured, best = np.zeros(years), np.zeros(years), np.zeros(years)  # differences from the base
    most = most_answers([_benchmark("m", "evals", 1), _benchmark("o", "ood", 1)], {"m": problems})["ood"]
    for _ in range(WEEKS):
        if guarded:
            margin = LIMIT - np.maximum(0, best - measured)
            within, answers = _shown_within(loss, margin, spread, most, years, rng)
        else:
            answers = np.full(years, problems)
            within = rng.normal(-loss, np.sqrt(spread / problems), years) >= -LIMIT
        above = true - loss + rng.normal(0, 1, years) * np.sqrt(spread / answers)
        promoted = within & (above >= best - LIMIT) if guarded else within
        true = np.where(promoted, np.maximum(true - loss, -shares @ levels), true)
        measured = np.where(promoted, above, measured)
        surely = above - Z90 * np.sqrt(spread / answers)
        best = np.where(promoted, np.maximum(best, surely), best)
    return true


def _shown_within(
    loss: float, margin: np.ndarray, spread: float, most: int, years: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Whether sampling shows that ``loss`` is within ``margin``, and the answers that it takes."""
    chances = [(spread + loss) / 2, 1 - max(spread, loss), max(0.0, (spread - loss) / 2)]
    within, ended = np.zeros(years, bool), np.zeros(years, bool)
    total, size, counts = np.full(years, FIRST_OOD), FIRST_OOD, np.zeros((years, 3))
    new = FIRST_OOD
    while True:
        counts += rng.multinomial(new, np.array(chances) / sum(chances), years)
        values = (OUTCOMES + margin[:, None]) / np.maximum(1, 1 - margin[:, None])
        shown = log_evidence(log_wealths(values, counts)) >= -np.log(GUARD_LEVEL)
        within |= shown & ~ended
        total = np.where(ended, total, size)
        ended |= shown
        if 2 * size > most or ended.all():
            return within, total
        new, size = size, 2 * size


def figure(years: Mapping[str, np.ndarray], out: Path) -> None:
    """Draw the share of years with a false promotion by week."""
    from evaluation.report.charts import LIGHT, Line, curves

    colours = (LIGHT["bad"], LIGHT["policy"])
    lines = [
        Line(name, colour, [(week + 1, 100 * float(share)) for week, share in enumerate(shares)])
        for (name, shares), colour in zip(years.items(), colours, strict=True)
    ]
    title = "Years with a false promotion, in percent, by week"
    write_text(curves(title, lines, legend=True), out)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m perf.promotion", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--years", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", type=Path, metavar="FILE.svg")
    options = parser.parse_args()
    rng, write = np.random.default_rng(options.seed), sys.stdout.write
    for name, suite in SUITES.items():
        year, (_, before) = null_year(suite, options.years, rng), per_decision(suite, 0.0, options.years, rng)
        fixed, drawn = suite.fixed(), np.median(year.answers)
        write(f"suite {name}, {options.years:,} years of {WEEKS} candidates that are no better\n")
        write(f"  years with a false promotion   per decision {before[-1]:6.1%}   error rate {year.false[-1]:6.2%}\n")
        write(f"  answers per decision, median   per decision {fixed:6,}   until decided {drawn:,.0f} (both models)\n")
        write(f"  answers per decision, mean     per decision {fixed:6,}   until decided {year.answers.mean():,.0f}\n")
        write(f"  error rate left                {year.left:.4f} of {ERROR_RATE}\n")
        for gain in (0.01, 0.02, 0.05):
            found = [power(suite, gain, week, options.years, rng) for week in (1, WEEKS)]
            first = per_decision(suite, gain, options.years, rng)[0]
            shown = ", ".join(
                f"week {w} {p:.1%} ({a:,.0f} answers)" for w, (p, a) in zip((1, WEEKS), found, strict=True)
            )
            write(f"  {100 * gain:+.0f} points are promoted          per decision {first:6.1%}   error rate {shown}\n")
        if name == "paper" and options.figure:
            figure({"per decision": before, "error rate": year.false}, options.figure)
    write("a benchmark out of domain after a year of candidates that lose points there against the champion\n")
    for loss in (0.002, 0.005, 0.01, 0.04):
        ends = {guarded: decline(loss, guarded, options.years, rng) for guarded in (False, True)}
        shown = [f"mean {100 * end.mean():+.1f}, 1% below {100 * np.quantile(end, 0.01):+.1f}" for end in ends.values()]
        write(
            f"candidates that lose {100 * loss:.1f} out of domain: after a year {shown[0]}; with the guard {shown[1]}\n"
        )


if __name__ == "__main__":
    main()
