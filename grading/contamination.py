"""Which training problems are benchmark problems: the check that keeps a score from measuring memory.

A shared run of eight words makes a pair a candidate; it is a match when the texts are nearly equal (edit similarity of
at least 90 of 100) or shared runs cover at least half of the benchmark problem. The bare 8-gram rule of open-r1 refuses
747 of 7,474 MATH-train problems, most of them for common phrases. Texts with few words (``7+5-3=?``, "Compute $2^8$.")
differ by what little they hold, so there only equality counts. A problem comes with and without its drawing
(``[asy]…[/asy]``), so equality and similarity look at the words alone; what runs cover is counted with it, or a
benchmark problem would be little more than "What is the area of this trapezoid?".
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

GRAM = 8
RATIO = 90.0
COVERAGE = 0.5
FEWEST_WORDS = 5  # words of two letters or more; below it a text is compared for equality only
BASE = 0x9E3779B97F4A7C15  # odd: runs of word numbers are hashed as polynomials modulo 2**64

_TOKEN = re.compile(r"[^\W_]+")
_DRAWING = re.compile(r"\[asy\].*?(?:\[/asy\]|$)", re.DOTALL)


@dataclass(frozen=True)
class Match:
    """A benchmark problem that a training problem repeats, and how much of it."""

    benchmark: str
    id: str
    problem: str
    ratio: float  # edit similarity, 0 to 100
    coverage: float  # share of the benchmark problem's words inside shared runs of eight


class BenchmarkIndex:
    """The problems of benchmarks, looked up by equality and by shared runs of eight words.

    Runs are kept as sorted 64-bit hashes, 12 bytes each, so that an index of 15,000 problems is a few megabytes and can
    be handed to worker processes.
    """

    def __init__(self, benchmark: "pa.Table") -> None:
        """``benchmark``: BENCHMARK rows, of one or several benchmarks."""
        import numpy as np

        self._rows = benchmark.select(["benchmark", "id", "problem"]).to_pylist()
        self._exact: dict[str, int] = {}
        self._vocabulary: dict[str, int] = {}
        self._seen: dict[int, tuple[str, np.ndarray]] = {}
        numbers: list[int] = []  # of the words of all problems, one after the other
        owners: list[int] = []  # problems whose words these are
        lengths: list[int] = []
        for number, row in enumerate(self._rows):
            for text in _spellings(row["problem"]):
                self._exact.setdefault(text, number)
            tokens = _tokens(row["problem"])
            if _wordy(tokens):
                numbers += [self._vocabulary.setdefault(token, len(self._vocabulary) + 1) for token in tokens]
                owners.append(number)
                lengths.append(len(tokens))
        owner = np.repeat(np.array(owners, np.int32), lengths)
        hashes = _runs(numbers)
        owner, ends = owner[: len(hashes)], owner[GRAM - 1 :]
        hashes, owner = hashes[owner == ends], owner[owner == ends]  # no run reaches into the next problem
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._owners = hashes[order], owner[order]

    def match(self, problem: str) -> Match | None:
        """The benchmark problem that ``problem`` repeats most, or None."""
        from rapidfuzz import fuzz

        if equal := [self._exact[text] for text in _spellings(problem) if text in self._exact]:
            row = self._rows[equal[0]]
            return Match(row["benchmark"], row["id"], row["problem"], 100.0, 1.0)
        tokens = _tokens(problem)
        if not _wordy(tokens):
            return None
        runs = _runs(self._numbers(tokens))
        text, best = _words(problem), None
        for number in self._candidates(runs):
            other, its_runs = self._looked_at(number)
            ratio = fuzz.ratio(text, other, score_cutoff=RATIO)
            covered = _coverage(its_runs, runs)
            if ratio < RATIO and covered < COVERAGE:
                continue
            row, ratio = self._rows[number], fuzz.ratio(text, other)
            if best is None or (ratio, covered) > (best.ratio, best.coverage):
                best = Match(row["benchmark"], row["id"], row["problem"], round(ratio, 1), round(covered, 3))
        return best

    def _looked_at(self, number: int) -> "tuple[str, np.ndarray]":
        """Words and runs of a benchmark problem; common phrases make the same ones candidates again and again."""
        if number not in self._seen:
            problem = self._rows[number]["problem"]
            self._seen[number] = _words(problem), _runs(self._numbers(_tokens(problem)))
        return self._seen[number]

    def _numbers(self, tokens: tuple[str, ...]) -> list[int]:
        return [self._vocabulary.get(token, 0) for token in tokens]  # 0: a word of no benchmark

    def _candidates(self, runs: "np.ndarray") -> list[int]:
        """Numbers of the benchmark problems that share a run, ascending."""
        import numpy as np

        first = np.searchsorted(self._hashes, runs, side="left")
        last = np.searchsorted(self._hashes, runs, side="right")
        return sorted({int(n) for a, b in zip(first, last, strict=True) if a < b for n in self._owners[a:b]})


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
    """Look through the prompts of a file of targets (`core.schemas.TARGET`) for BENCHMARK problems."""
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


def _words(text: str) -> str:
    """What similarity looks at: the words of a text, without its drawing where enough is left."""
    without = _tokens(_DRAWING.sub(" ", text))
    return " ".join(without if _wordy(without) else _tokens(text))


def _spellings(text: str) -> list[str]:
    """What equality looks at: the text without blanks, and, where enough is left, without its drawing too."""
    spellings = ["".join(text.lower().split())]
    if "[asy]" in text and _wordy(_tokens(without := _DRAWING.sub("", text))):
        spellings.append("".join(without.lower().split()))
    return spellings


def _wordy(tokens: tuple[str, ...]) -> bool:
    return len(tokens) >= GRAM and sum(len(t) > 1 and t.isalpha() for t in tokens) >= FEWEST_WORDS


def _runs(numbers: list[int]) -> "np.ndarray":
    """Hash of each run of eight; shape (len(numbers) - 7,), uint64."""
    import numpy as np

    words = np.array(numbers, np.uint64)
    hashes = np.zeros(max(0, len(numbers) - GRAM + 1), np.uint64)
    for place in range(GRAM):
        hashes = hashes * np.uint64(BASE) + words[place : place + len(hashes)]
    return hashes


def _coverage(entry: "np.ndarray", runs: "np.ndarray") -> float:
    """Share of a benchmark problem's words inside runs that the other text has too."""
    import numpy as np

    covered = np.zeros(len(entry) + GRAM - 1, bool)
    for start in np.flatnonzero(np.isin(entry, runs)):
        covered[start : start + GRAM] = True
    return float(covered.mean())
