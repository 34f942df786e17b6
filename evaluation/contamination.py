"""Which training problems are benchmark problems: the check that keeps a score from measuring memory.

A shared run of eight words makes a pair a candidate; it is a match when the texts are nearly equal (edit similarity of
at least 90 of 100) or shared runs cover at least half of the benchmark problem. The bare 8-gram rule of open-r1 refuses
747 of 7,474 MATH-train problems, most of them for common phrases. Texts with few words (``7+5-3=?``, "Compute $2^8$.")
differ by what little they hold, so there only equality counts.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

GRAM = 8
RATIO = 90.0
COVERAGE = 0.5
FEWEST_WORDS = 5  # words of two letters or more; below it a text is compared for equality only

_TOKEN = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Match:
    """A benchmark problem that a training problem repeats, and how much of it."""

    benchmark: str
    id: str
    problem: str
    ratio: float  # edit similarity, 0 to 100
    coverage: float  # share of the benchmark problem's words inside shared runs of eight


@dataclass(frozen=True)
class _Entry:
    benchmark: str
    id: str
    problem: str
    tokens: tuple[str, ...]
    text: str


class BenchmarkIndex:
    """The problems of benchmarks, looked up by equality and by shared runs of eight words."""

    def __init__(self, benchmark: "pa.Table") -> None:
        """``benchmark``: BENCHMARK rows, of one or several benchmarks."""
        self._exact: dict[str, _Entry] = {}
        self._grams: dict[tuple[str, ...], list[int]] = defaultdict(list)
        self._entries: list[_Entry] = []
        for row in benchmark.select(["benchmark", "id", "problem"]).to_pylist():
            tokens = _tokens(row["problem"])
            entry = _Entry(row["benchmark"], row["id"], row["problem"], tokens, " ".join(tokens))
            self._exact.setdefault(_squeezed(row["problem"]), entry)
            if _wordy(tokens):
                for gram in set(_runs(tokens)):
                    self._grams[gram].append(len(self._entries))
                self._entries.append(entry)

    def match(self, problem: str) -> Match | None:
        """The benchmark problem that ``problem`` repeats most, or None."""
        from rapidfuzz import fuzz

        if equal := self._exact.get(_squeezed(problem)):
            return Match(equal.benchmark, equal.id, equal.problem, 100.0, 1.0)
        tokens = _tokens(problem)
        if not _wordy(tokens):
            return None
        runs = set(_runs(tokens))
        candidates = sorted({number for run in runs for number in self._grams.get(run, ())})
        text = " ".join(tokens)
        best: Match | None = None
        for entry in (self._entries[number] for number in candidates):
            ratio = fuzz.ratio(text, entry.text, score_cutoff=RATIO)
            covered = _coverage(entry.tokens, runs)
            if ratio < RATIO and covered < COVERAGE:
                continue
            ratio = fuzz.ratio(text, entry.text)
            if best is None or (ratio, covered) > (best.ratio, best.coverage):
                best = Match(entry.benchmark, entry.id, entry.problem, round(ratio, 1), round(covered, 3))
        return best


@dataclass(frozen=True)
class Contamination:
    """What a search of training problems for benchmark problems found."""

    targets: int  # training problems looked at
    problems: int  # benchmark problems they were compared with
    matches: tuple[tuple[str, Match], ...]  # (training problem, the benchmark problem it repeats)

    def by_benchmark(self) -> dict[str, int]:
        """Benchmark problems that were found among the training problems."""
        found: dict[str, set[str]] = defaultdict(set)
        for _, match in self.matches:
            found[match.benchmark].add(match.id)
        return {name: len(ids) for name, ids in sorted(found.items())}


def search_targets(path: Path, benchmark: "pa.Table") -> Contamination:
    """Look through the prompts of a file of targets (`evaluation.records.TARGET`) for BENCHMARK problems."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        prompts = pq.read_table(path, columns=["prompt"])["prompt"].to_pylist()
    except FileNotFoundError:
        raise InputError(f"targets {path}: no such file") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"targets {path}: not a parquet file with prompts ({error})") from error
    problems = [next((m["content"] for m in reversed(prompt) if m["role"] == "user"), "") for prompt in prompts]
    found = overlaps(problems, benchmark)
    matches = tuple((problem, match) for problem, match in zip(problems, found, strict=True) if match)
    return Contamination(len(problems), benchmark.num_rows, matches)


def search_lineage(lineage: Mapping[str, Any], benchmark: "pa.Table") -> Contamination | None:
    """`search_targets` in the file that a ``lineage.json`` names; None where it names none that is still there."""
    path = lineage.get("targets", {}).get("path")
    return search_targets(Path(path), benchmark) if path and Path(path).is_file() else None


def overlaps(problems: list[str], benchmark: "pa.Table") -> list[Match | None]:
    """For each training problem the benchmark problem it repeats, or None; BENCHMARK rows in, order kept."""
    index = BenchmarkIndex(benchmark)
    return [index.match(problem) for problem in problems]


def _tokens(text: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(text.lower()))


def _squeezed(text: str) -> str:
    return "".join(text.lower().split())


def _wordy(tokens: tuple[str, ...]) -> bool:
    return len(tokens) >= GRAM and sum(len(t) > 1 and t.isalpha() for t in tokens) >= FEWEST_WORDS


def _runs(tokens: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [tokens[i : i + GRAM] for i in range(len(tokens) - GRAM + 1)]


def _coverage(tokens: tuple[str, ...], runs: set[tuple[str, ...]]) -> float:
    covered = [False] * len(tokens)
    for start, run in enumerate(_runs(tokens)):
        if run in runs:
            covered[start : start + GRAM] = [True] * GRAM
    return sum(covered) / len(covered)
