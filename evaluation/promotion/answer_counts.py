"""How many answers are drawn before a decision, where ``evaluation.samples`` is ``until_decided``.

Every benchmark of a group is asked for as many answers, in rounds that double them. A round draws its problems anew,
without replacement: so its evidence is a fair bet's, whatever the rounds before it showed (see
`evaluation.promotion.match`).
"""

import random
from collections.abc import Mapping, Sequence

from evaluation.benchmarks.suite import Benchmark
from evaluation.promotion.match import Match

FIRST, FIRST_OOD = 128, 32  # answers of the first round: in domain of all benchmarks together, out of domain of each
BUDGET = 12  # times the answers that the suite's own numbers ask for in domain


def first_round(suite: Sequence[Benchmark]) -> dict[str, int]:
    """Answers by benchmark of the first round."""
    main = sum(benchmark.group == "evals" for benchmark in suite)
    return {b.name: -(-FIRST // main) if b.group == "evals" else FIRST_OOD for b in suite}


def most_answers(suite: Sequence[Benchmark], problems: Mapping[str, int]) -> dict[str, int]:
    """Return the most answers to a benchmark of each group: the first round's, doubled while within `BUDGET`.

    Args:
        problems: their number by benchmark.
    """
    fixed = [problems[b.name] * b.samples for b in suite if b.group == "evals"]
    limit, first = BUDGET * sum(fixed) / len(fixed), first_round(suite)
    return {b.group: doubled(first[b.name], limit) for b in suite}


def next_round(comparison: Match, answers: Mapping[str, int]) -> dict[str, int] | None:
    """Return the ``answers`` by benchmark of the next round; None if it is decided, or the budget cannot decide it.

    Losses out of domain matter once there is a gain: before that, only benchmarks in domain are answered.
    """
    losses = comparison.losses
    if comparison.gain.shown:
        grow = {name for name, loss in losses.items() if not loss.shown and loss.hopeful}
    else:
        grow = answers.keys() - losses.keys() if comparison.gain.hopeful else set()
    return {name: count * (2 if name in grow else 1) for name, count in answers.items()} if grow else None


def doubled(first: int, limit: float) -> int:
    """Return ``first`` doubled as often as it stays within ``limit``."""
    while 2 * first <= limit:
        first *= 2
    return first


def answers_by_problem(problems: Sequence[str], first: int, answers: int, seed: str) -> dict[str, int]:
    """Return how often each problem has been asked at the end of the round that has ``answers`` in all.

    Args:
        problems: ids.
        first: answers of the first round.
        answers: ``first``, or a power of two times it.
        seed: decides which problems a round draws.

    >>> answers_by_problem(["a", "b"], 3, 6, "0")
    {'a': 3, 'b': 3}
    """
    ids = sorted(problems)
    counts = dict.fromkeys(ids, 0)
    done, end = 0, first
    while done < answers:
        each, rest = divmod(end - done, len(ids))
        drawn = set(random.Random(f"{seed}/{end}").sample(ids, rest))
        for problem in ids:
            counts[problem] += each + (problem in drawn)
        done, end = end, 2 * end
    return {problem: count for problem, count in counts.items() if count}
