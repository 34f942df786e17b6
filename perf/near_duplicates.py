"""Measure the search for near duplicates among problems of one gold answer; ``python -m perf.targets duplicates``."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pyarrow as pa

from core.schemas import DECISION
from perf.measurement import Timed
from targets.config import build_config
from targets.select.dedupe import Duplicates, describe, problem_text, search_near
from targets.select.near_duplicates import minhash_bands, near_duplicates
from targets.trace import Trace

COMPARED_PAIRWISE = 2000  # problems; the time of all pairs grows with their square
WORDS = 3000
EDITED = 10  # every tenth problem repeats an earlier one with a word changed
TEMPLATE = "Read the claim and say whether it follows from what is known about it. Claim: {}. Answer with Yes or No."


def duplicates(sizes: list[int]) -> None:
    """Print the CPU time per problem at each number of problems, and that of comparing all pairs up to a size."""
    for name, template in (("free text", "{}"), ("one template", TEMPLATE)):
        for size in sizes:
            problems = _problems(size, template)
            ours, repeated = _timed(merged, problems)
            shared, alone = _search_times(problems)
            print(
                f"{name}, {size:>9,} problems: {ours:8.0f} µs per problem, {len(repeated):,} repeat another; the "
                f"search takes {shared:.0f} µs for MinHash, which tasks share, and {alone:.0f} µs in one task"
            )
            if size <= COMPARED_PAIRWISE:
                pairs, expected = _timed(_all_pairs, problems)
                print(f"{'':14}all pairs by MinHash: {pairs:8.0f} µs per problem, the same {repeated == expected}")


def _search_times(problems: list[str]) -> tuple[float, float]:
    """CPU time in µs per problem of the two parts of the search in a large group."""
    texts, threshold = [problem_text(problem) for problem in problems], build_config({}).near_duplicate
    with Timed() as shared:
        bands = minhash_bands(len(texts), texts.__getitem__, threshold)
    with Timed() as alone:
        list(near_duplicates(len(texts), texts.__getitem__, threshold, bands))
    return shared.cpu * 1e6 / len(texts), alone.cpu * 1e6 / len(texts)


def _timed(work: Callable[[list[str]], set[int]], problems: list[str]) -> tuple[float, set[int]]:
    """CPU time in µs per problem, and what ``work`` finds."""
    with Timed() as timed:
        found = work(problems)
    return timed.cpu * 1e6 / len(problems), found


def _problems(size: int, template: str) -> list[str]:
    """Problems without numbers, of 12 to 25 words whose frequencies fall as those of a language do."""
    random = Random(0)
    vocabulary = ["".join(random.choices("etaoinshrdlucmfwypvbgk", k=random.randint(2, 9))) for _ in range(WORDS)]

    def words(count: int) -> list[str]:
        return [vocabulary[int(WORDS * random.random() ** 2.5)] for _ in range(count)]

    texts: list[list[str]] = []
    for number in range(size):
        if number % EDITED:
            texts.append(words(random.randint(12, 25)))
        else:
            text = list(random.choice(texts)) if texts else words(20)
            text[random.randrange(len(text))] += "s"
            texts.append(text)
    return [template.format(" ".join(text)) for text in texts]


def merged(problems: Sequence[str], golds: Sequence[str] = ()) -> set[int]:
    """The positions of the problems that the preparation rejects; without ``golds`` all have one gold answer."""
    pairs = zip(problems, golds or ["Yes"] * len(problems), strict=True)
    traces = [_trace(number, *pair) for number, pair in enumerate(pairs)]
    with tempfile.TemporaryDirectory() as folder:
        found = Duplicates(build_config({}), Path(folder))
        found.add(pa.Table.from_pylist([trace.decision_row() for trace in traces], schema=DECISION))
        pairs = search_near(found.find_problems(), lambda n: problem_text(problems[n]), build_config({}).near_duplicate)
        return set(found.decide(pairs).positions.tolist())


def _trace(number: int, problem: str, gold: str) -> Trace:
    trace = Trace(str(number), "source", number, problem=problem, gold=gold, target=str(number))
    describe(trace)
    return trace


def _all_pairs(problems: list[str]) -> set[int]:
    """The same by comparing the MinHash of each problem with that of all before it that repeat none."""
    import numpy as np
    from rapidfuzz import fuzz
    from rensa import RMinHash  # pyright: ignore[reportAttributeAccessIssue]  # a compiled module without stubs

    threshold, alike = build_config({}).near_duplicate, 0.59
    distinct: list[tuple[str, np.ndarray]] = []
    repeated = set()
    for number, text in enumerate(map(problem_text, problems)):
        minhash = RMinHash(num_perm=128, seed=0)
        minhash.update([text[i : i + 3] for i in range(len(text) - 2)])
        values = np.array(minhash.digest(), np.uint32)
        for other, its_values in distinct:
            if (values == its_values).mean() >= alike and fuzz.ratio(text, other, score_cutoff=threshold):
                repeated.add(number)
                break
        else:
            distinct.append((text, values))
    return repeated
