"""The promotion rule over simulated years: ``.venv/bin/python -m perf.promotion`` (docs/evaluation.md has the result).

A year has a candidate in each of 52 weeks. How often a problem is solved comes from recorded verdicts: its share of
right answers over the seeds of a recipe in ``results/runs/comparison``. The rule is that of `evaluation.promotion`,
which decides all years at once; "per decision" is a 95% test for each decision alone, in its normal approximation.
"""

import itertools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from core.files import write_text
from evaluation.promotion.answer_counts import FIRST_OOD, first_round
from evaluation.promotion.evidence import can_be_shown, log_evidence, log_wealths
from evaluation.promotion.promotion_limits import PACE
from evaluation.promotion.promotion_rules import Z90
from perf.measurement import parser_of
from perf.recorded_suites import PAPER, SUITES, Suite, better, recorded

WEEKS, LIMIT = 52, 0.05
ERROR_RATE = 0.05
OUTCOMES = np.array([-1.0, 0.0, 1.0])
Guard = Literal["champion", "measured", "shown"]  # per decision; error rate, with fixed samples and until decided


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
        """Return the lines before the first decision."""
        rates, group = suite.rates(), len(suite.in_domain)
        entries, most = suite.entries(), suite.most("evals")
        answers = first_round(entries)[entries[0].name]
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
    """Return the rule per decision: (power in the first week, share of years with a false promotion by each week)."""
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


@dataclass(frozen=True)
class Decline:
    """After a year of candidates that lose points out of domain."""

    left: np.ndarray  # (years,): difference from the base
    passed: float  # share of the candidates that were let through

    def __str__(self) -> str:
        beyond = (self.left < -LIMIT - 0.01 - 1e-9).mean()
        worst = np.quantile(self.left, 0.01)
        return f"{100 * self.left.mean():+6.1f} {100 * worst:+6.1f} {beyond:7.2%} {self.passed:6.0%}"


def decline(benchmark: str, loss: float, guard: Guard, years: int, rng: np.random.Generator) -> Decline:
    """Return a year of candidates that lose ``loss`` on a benchmark of the paper against the champion of their week.

    All gain enough in domain to be promoted for it.
    """
    problems, _, name = PAPER.ood[benchmark]
    levels, shares = recorded(name).T
    spread = float(shares @ (2 * levels * (1 - levels)))  # variance of the difference of two answers
    true, measured, best = np.zeros(years), np.zeros(years), np.zeros(years)  # differences from the base
    of_base, passed = rng.normal(0, np.sqrt(spread / 2 / problems), years), 0.0
    for week in range(WEEKS):
        margin = np.full(years, LIMIT) if guard == "champion" else LIMIT - np.maximum(0, best - measured)
        if guard == "shown":
            within, answers, change = _shown_within(loss, margin, spread, week, rng)
        else:
            answers, change = np.full(years, problems), rng.normal(-loss, np.sqrt(spread / problems), years)
            within = change >= -margin
        # The candidate's answers are the same beside those of the champion and beside those of the base.
        of_policy = (change + loss) / 2 + rng.normal(0, np.sqrt(spread / 4 / answers))
        of_subset = rng.normal(0, np.sqrt(spread / 2 * np.maximum(0, 1 / answers - 1 / problems)))
        above = true - loss + of_policy + of_base + of_subset
        promoted = within & ((above >= best - LIMIT) | (guard == "champion"))
        true = np.where(promoted, np.maximum(true - loss, -shares @ levels), true)
        measured = np.where(promoted, above, measured)
        best = np.where(promoted, np.maximum(best, above - Z90 * np.sqrt(spread / answers)), best)
        passed += promoted.mean() / WEEKS
    return Decline(true, passed)


def _shown_within(
    loss: float, margin: np.ndarray, spread: float, week: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether sampling shows that ``loss`` is within ``margin``, the answers that it takes, and the mean difference."""
    chances = np.array([(spread + loss) / 2, 1 - max(spread, loss), max(0.0, (spread - loss) / 2)])
    level, most = ERROR_RATE * PACE / (PACE + week) / (PACE + week + 1), PAPER.most("ood")
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
    parser = parser_of("promotion", __doc__)
    parser.add_argument("--years", type=int, default=2_000, help="years to simulate (default 2000)")
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
    write("a benchmark out of domain, in points from the base, after a year of candidates that all gain in domain:\n")
    write(f"mean, the lowest 1% of years, years more than a point beyond {100 * LIMIT:.0f}, and candidates promoted;\n")
    write("per decision | by the error rate with the suite's samples | by the error rate until decided\n")
    for benchmark, loss in itertools.product(PAPER.ood, (0.0, 0.005, 0.04)):
        found = [str(decline(benchmark, loss, guard, options.years, rng)) for guard in get_args(Guard)]
        write(f"  {benchmark:12} loses {100 * loss:.1f} a week  {' | '.join(found)}\n")


if __name__ == "__main__":
    main()
