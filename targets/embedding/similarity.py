"""Compare the vectors of problems: with those of benchmark problems, and with those of problems with the same gold.

Embedding models hardly see a number, so that "3 apples and 4 more" and "2 apples and 5 more" are alike for them. So two
problems are the same only if their numbers agree, too, whatever their order.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from core.text.patterns import compile_quick_pattern

ROWS, COLUMNS = 1024, 8192  # vectors that are compared at once
DECIMALS = 2  # of a similarity in percent: what different processors add up differently is less
MOST_SIMILAR = 64  # of the problems before, the earliest ones, from which the owner of a problem is chosen
WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBER_OF = {word: str(number) for number, word in enumerate(WORDS, start=2)}  # "one" is often no number

_NUMBER = compile_quick_pattern(r"\d+(?:,\d\d\d)*|[a-z]+")


class Alike(NamedTuple):
    """A similar problem: its number, and the similarity in percent."""

    number: int
    similarity: float


def numbers(problem: str) -> Counter[str]:
    """The numbers of a problem, also those of one word.

    >>> sorted(numbers("Two of the 1,200 sheep weigh 3.5 kg"))
    ['1200', '2', '3', '5']
    """
    counts: Counter[str] = Counter()
    for token in _NUMBER.findall(problem.lower()):
        if token[0].isdigit():
            counts[token.replace(",", "")] += 1
        elif token in NUMBER_OF:
            counts[NUMBER_OF[token]] += 1
    return counts


def same_numbers(first: Counter[str], second: Counter[str]) -> bool:
    """Whether all numbers of one problem are numbers of the other, which may repeat or spell out more of them."""
    return not first - second or not second - first


def similarities(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """100 times the cosine of each pair of vectors of length 1; shape (rows, columns), float32."""
    products = rows.astype(np.float32) @ columns.astype(np.float32).T
    return np.round(100 * products, DECIMALS)


@dataclass(frozen=True)
class BenchmarkVectors:
    """Benchmark problems and their vectors, in which paraphrases are looked up; they can be sent to other processes.

    Args:
        rows: with ``benchmark``, ``id`` and ``problem``.
        vectors: of them; shape (rows, size).
        threshold: the least similarity in percent.
    """

    rows: Sequence[dict[str, str]]
    vectors: np.ndarray
    threshold: float

    @cached_property
    def _numbers(self) -> list[Counter[str]]:
        return [numbers(row["problem"]) for row in self.rows]

    def match(self, problems: Sequence[str], vectors: np.ndarray) -> list[Alike | None]:
        """The most similar benchmark problem of each problem, if it has the same numbers and reaches the threshold."""
        found: list[Alike | None] = []
        for problem, row in zip(problems, similarities(vectors, self.vectors), strict=True):
            close = np.flatnonzero(row >= self.threshold)
            its_numbers = numbers(problem) if len(close) else Counter[str]()
            ordered = close[np.argsort(-row[close], kind="stable")].tolist()
            same = (number for number in ordered if same_numbers(its_numbers, self._numbers[number]))
            number = next(same, None)
            found.append(None if number is None else Alike(number, float(row[number])))
        return found


def similar_before(
    problems: Sequence[str], vectors: np.ndarray, start: int, stop: int, threshold: float
) -> Iterator[tuple[int, Alike]]:
    """For each problem from ``start`` to ``stop``, the earliest similar ones before it, at most `MOST_SIMILAR`."""

    @cache
    def its_numbers(position: int) -> Counter[str]:
        return numbers(problems[position])

    for first in range(start, stop, ROWS):
        rows = range(first, min(first + ROWS, stop))
        counts = dict.fromkeys(rows, 0)
        for begin in range(0, rows.stop, COLUMNS):
            end = min(begin + COLUMNS, rows.stop)
            found = similarities(vectors[rows.start : rows.stop], vectors[begin:end])
            for row, column in np.argwhere(found >= threshold).tolist():
                position, other = first + row, begin + column
                if other >= position or counts[position] == MOST_SIMILAR:
                    continue
                if same_numbers(its_numbers(position), its_numbers(other)):
                    counts[position] += 1
                    yield position, Alike(other, float(found[row, column]))
