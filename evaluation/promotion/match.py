"""A match of a policy and its opponent: the evidence of a gain in domain, and the losses out of domain.

An e-value is the wealth of a gambler who bets that the policy scores higher than its opponent, at odds that are fair or
worse while it does not. Such a wealth exceeds ``1 / level`` with a probability of at most ``level``, at any time at
which one may look (Ville's inequality; Waudby-Smith and Ramdas, arXiv 2010.09686). Every function takes counts of equal
differences with any number of leading dimensions, so that a simulation decides thousands of times at once.

The bet on a set of answers is the same for all of them. So what is tested is the mean over the problems, whatever the
differences of single problems are: for differences ``d_i`` of mean 0 or less, ``prod(1 + bet * d_i)`` is at most 1 in
expectation, by the inequality of means, and by Maclaurin's for answers to problems drawn without replacement.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.errors import InputError
from evaluation.benchmarks.suite import Benchmark

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

BETS = (1 / 24, 1 / 8, 0.4, 0.9)  # the gambler divides the first stake among these shares of wealth
OPTIMISM = 1.0  # standard errors by which the rest of the answers may be better before sampling is given up


def log_wealths(values: "NDArray", counts: "NDArray") -> "NDArray":
    """Return the logarithm of the wealth that each of `BETS` has made of 1.

    Args:
        values: shape (..., v); differences, of at least -1.
        counts: shape (..., v); how many answers have each of them.

    Returns:
        Shape (..., bets).
    """
    import numpy as np

    return (counts[..., None] * np.log1p(values[..., None] * BETS)).sum(axis=-2)


def log_evidence(wealths: "NDArray") -> "NDArray":
    """Return the logarithm of the e-value: the mean wealth of all bets.

    >>> import numpy as np
    >>> float(log_evidence(log_wealths(np.array([-1.0, 0.0, 1.0]), np.array([4, 90, 26]))).round(2))
    6.48
    """
    import numpy as np

    most = wealths.max(axis=-1)
    return most + np.log(np.exp(wealths - most[..., None]).mean(axis=-1))


def answers_needed(wealths: "NDArray", answers: "NDArray", level: "NDArray") -> "NDArray":
    """Return how many answers the e-value needs in all to reach ``1 / level``, if the rest are like those so far.

    Infinite where no bet has won anything yet.
    """
    import numpy as np

    best = (wealths / np.asarray(answers)[..., None]).max(axis=-1)
    with np.errstate(divide="ignore"):
        return np.where(best > 0, (math.log(len(BETS)) - np.log(level)) / np.maximum(best, 0), np.inf)


def can_be_shown(
    wealths: "NDArray", answers: "NDArray", squares: "NDArray", level: "NDArray", budget: int
) -> "NDArray":
    """Return whether ``budget`` answers reach an e-value of ``1 / level`` if the rest are `OPTIMISM` errors better.

    Giving up here costs some power and no validity: the rule may end at any time.

    Args:
        squares: the mean square of the differences so far.
    """
    import numpy as np

    answers, rest = np.asarray(answers), budget - np.asarray(answers)
    luck = OPTIMISM * np.sqrt(np.asarray(squares) / answers)
    most = wealths * (budget / answers)[..., None] + np.multiply.outer(rest * luck, BETS)
    return log_evidence(most) >= -np.log(level)


@dataclass(frozen=True)
class Evidence:
    """The evidence for a mean difference above a bound.

    ``answers`` counts the answers of each model, ``needed`` how many show it if the rest are like them (None: none do).
    """

    answers: int
    difference: float
    log_value: float
    shown: bool
    needed: int | None
    hopeful: bool  # within the budget of answers; false without one


def answer_differences(opponent: "pa.Table", policy: "pa.Table") -> "NDArray":
    """Subtract the opponent's answers from the policy's, by number, in GRADED tables of one benchmark.

    Raises:
        InputError: only one of them answered a problem.
    """
    import numpy as np

    scores = [
        {(row["id"], row["sample"]): row["score"] for row in table.select(["id", "sample", "score"]).to_pylist()}
        for table in (opponent, policy)
    ]
    if one_sided := {problem for problem, _ in scores[0]} ^ {problem for problem, _ in scores[1]}:
        raise InputError(
            f"{policy['benchmark'][0]}: {len(one_sided)} problems were answered by only one of the two models; "
            "materialize evals/policy again"
        )
    return np.array([scores[1][key] - score for key, score in scores[0].items() if key in scores[1]])


def weigh(differences: Sequence["NDArray"], level: float, *, bound: float = 0.0, most: int | None = None) -> Evidence:
    """Return the evidence that the mean of the benchmarks' mean differences is above ``bound``.

    The mean gives each benchmark the same weight, so an answer counts more where a benchmark has fewer of them.

    Args:
        differences: Differences of the answers of each benchmark, in [-1, 1].
        level: chance of showing it although it is not so.
        most: answers of each model that may be drawn; None: no more.
    """
    import numpy as np

    answers = sum(len(part) for part in differences)
    weights = [1 / len(part) for part in differences]
    scale = max(weights) * max(1.0, 1.0 + bound)  # no bet can lose more than there is
    scaled = np.concatenate(
        [(part - bound) * weight / scale for part, weight in zip(differences, weights, strict=True)]
    )
    values, counts = np.unique(scaled.round(12), return_counts=True)
    wealths = log_wealths(values, counts)
    needed = float(answers_needed(wealths, np.array(answers), np.array(level)))
    evidence = float(log_evidence(wealths))
    squares = counts @ values**2 / answers
    hopeful = most is not None and answers < most
    return Evidence(
        answers=answers,
        difference=float(np.mean([part.mean() for part in differences])),
        log_value=evidence,
        shown=evidence >= -math.log(level),
        needed=math.ceil(needed) if math.isfinite(needed) else None,
        hopeful=hopeful and bool(can_be_shown(wealths, np.array(answers), squares, np.array(level), most or answers)),
    )


def smallest_gain(answers: Sequence[int], level: float) -> float | None:
    """Return the smallest mean difference that can be shown with ``answers`` of each model to each benchmark.

    It is shown by a policy that loses no answer of its opponent; one that also loses some needs a larger gain. None
    if the answers cannot show any gain.

    >>> smallest_gain([200], level=0.05 / 51), smallest_gain([2, 2, 2], level=0.05 / 51)
    (0.065, None)
    """
    import numpy as np

    shares = np.arange(1, 1001) / 1000  # of the answers that the policy wins
    values = min(answers) / np.array(answers)  # each benchmark counts the same
    shown = log_evidence(log_wealths(values, np.multiply.outer(shares, answers))) >= -math.log(level)
    return float(shares[shown.argmax()]) if shown.any() else None


@dataclass(frozen=True)
class Match:
    """A policy and its opponent on the same problems."""

    gain: Evidence  # in domain
    losses: Mapping[str, Evidence]  # for each benchmark out of domain, that its loss is within the limit
    limits: Mapping[str, float]  # the loss that is allowed there
    answers: int  # number of answers of each model, on all benchmarks
    sequential: bool  # drawn until decided

    def within(self, name: str) -> bool | None:
        """Return whether the loss on a benchmark is within its limit; None: not shown either way.

        With a fixed number of answers the measured loss decides; drawn until decided, it has to be shown.
        """
        loss, measured = self.losses[name], self.losses[name].difference >= -self.limits[name]
        if not self.sequential:
            return measured
        return True if loss.shown else None if measured else False


def compare_answers(
    opponent: "Mapping[str, pa.Table]",
    policy: "Mapping[str, pa.Table]",
    suite: Sequence[Benchmark],
    level: float,
    limits: Mapping[str, float],
    most: Mapping[str, int] | None = None,
) -> Match:
    """Compare GRADED tables of a policy with its opponent's, answer by answer.

    Args:
        level: chance of showing a gain where there is none, and on each benchmark a loss as smaller than it is.
        limits: the loss that is allowed on each benchmark out of domain.
        most: answers to each benchmark of a group that may be drawn in all; None: no more.

    Raises:
        InputError: the suite has no benchmark in domain, or the answers are not to the same problems.
    """
    from core.schemas import is_sequential

    parts = {b.name: answer_differences(opponent[b.name], policy[b.name]) for b in suite if b.name in policy}
    main = [parts[b.name] for b in suite if b.name in parts and b.group == "evals"]
    if not main:
        raise InputError("the suite has no in-domain benchmark (group evals), on which a champion is chosen")
    most_in_domain, most_outside = (most["evals"] * len(main), most.get("ood")) if most else (None, None)
    return Match(
        gain=weigh(main, level, most=most_in_domain),
        losses={name: weigh([parts[name]], level, bound=-limit, most=most_outside) for name, limit in limits.items()},
        limits=limits,
        answers=sum(map(len, parts.values())),
        sequential=is_sequential(policy.values()),
    )
