"""Find benchmark problems among training problems, so that a score does not measure memory.

A shared run of eight words makes a pair a candidate. A candidate is a match if the texts are nearly equal (an edit
similarity of at least 90 of 100) or if shared runs cover at least half of the benchmark problem, unless more than one
number or variable of it is another one: then both follow one template. By this rule 56 of MATH's 7,474 training
problems match a problem of MATH-500; 23 of them state the same or differ in one word. open-r1's rule, which rejects
every candidate, would remove 747. Of texts with few words (``7+5-3=?``, "Compute $2^8$."), and of problems that a
generator makes from templates, or that are held out of the traces, only equal ones match: different ones look alike.
The same problem occurs with and without its drawing (``[asy]…[/asy]``), so equality and similarity ignore drawings.
Coverage does not: without its drawing, a benchmark problem may be little more than "What is the area of this
trapezoid?".
"""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from core.model.lineage_file import Manifest
from core.parquet import is_there, read_table, shards
from core.text.patterns import compile_quick_pattern

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

GRAM = 8
RATIO = 90.0
COVERAGE = 0.5
REPLACED = 1  # numbers and variables that may be others
ARTICLES = frozenset({"a", "i"})  # words of one letter
FEWEST_WORDS = 5  # of two letters or more; a text with fewer is compared for equality only
BASE = 0x9E3779B97F4A7C15  # odd; runs of word numbers are hashed as polynomials in it modulo 2**64

_TOKEN = compile_quick_pattern(r"[^\W_]+")
_DRAWING = compile_quick_pattern(r"(?s)\[asy\].*?(?:\[/asy\]|$)")


@dataclass(frozen=True)
class Match:
    """A benchmark problem that a training problem repeats, and how much of it."""

    benchmark: str
    id: str
    problem: str
    ratio: float  # edit similarity, 0 to 100
    coverage: float  # share of the benchmark problem's words inside shared runs of eight
    held_out: bool = False  # of the traces themselves, which makes it no memory


class BenchmarkIndex:
    """The problems of benchmarks, looked up by equality and by shared runs of eight words.

    It keeps runs as sorted 64-bit hashes, 12 bytes each, so that an index of 15,000 problems takes a few megabytes and
    can be sent to worker processes.
    """

    def __init__(self, benchmark: "pa.Table") -> None:
        """Build the index from the BENCHMARK rows of one or several benchmarks."""
        import numpy as np

        self._rows = benchmark.select(["benchmark", "id", "problem"]).to_pylist()
        self._held_out, templated = held_out_benchmarks(benchmark), templated_benchmarks(benchmark)
        self._exact: dict[str, int] = {}
        self._texts: dict[int, tuple[str, np.ndarray, Counter[str]]] = {}
        numbers: list[np.ndarray] = []  # of the words of each problem
        owners: list[int] = []  # problems whose words these are
        lengths: list[int] = []
        for number, row in enumerate(self._rows):
            for text in _spellings(row["problem"]):
                self._exact.setdefault(text, number)
            tokens = _tokens(row["problem"])
            if _wordy(tokens) and row["benchmark"] not in templated:
                numbers.append(_numbers(tokens))
                owners.append(number)
                lengths.append(len(tokens))
        owner = np.repeat(np.array(owners, np.int32), lengths)
        hashes = _runs(np.concatenate(numbers) if numbers else _numbers(()))
        owner, ends = owner[: len(hashes)], owner[GRAM - 1 :]
        hashes, owner = hashes[owner == ends], owner[owner == ends]  # no run reaches into the next problem
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._owners = hashes[order], owner[order]

    def match(self, problem: str) -> Match | None:
        """The benchmark problem that ``problem`` repeats most, or None."""
        from rapidfuzz import fuzz

        if equal := [self._exact[text] for text in _spellings(problem) if text in self._exact]:
            row = self._rows[equal[0]]
            return Match(row["benchmark"], row["id"], row["problem"], 100.0, 1.0, row["benchmark"] in self._held_out)
        tokens = _tokens(problem)
        if not _wordy(tokens):
            return None
        runs = _runs(_numbers(tokens))
        text, best = _words(problem), None
        symbols = _symbols(problem)
        for number in self._candidates(runs):
            other, its_runs, its_symbols = self._features(number)
            ratio = fuzz.ratio(text, other, score_cutoff=RATIO)
            covered = _coverage(its_runs, runs)
            if (ratio < RATIO and covered < COVERAGE) or _replaced(symbols, its_symbols) > REPLACED:
                continue
            row, ratio = self._rows[number], fuzz.ratio(text, other)
            if best is None or (ratio, covered) > (best.ratio, best.coverage):
                best = Match(row["benchmark"], row["id"], row["problem"], round(ratio, 1), round(covered, 3))
        return best

    def _features(self, number: int) -> "tuple[str, np.ndarray, Counter[str]]":
        """Return words, runs and symbols of a benchmark problem; cached, because a common one is often a candidate."""
        if number not in self._texts:
            problem = self._rows[number]["problem"]
            self._texts[number] = _words(problem), _runs(_numbers(_tokens(problem))), _symbols(problem)
        return self._texts[number]

    def _candidates(self, runs: "np.ndarray") -> list[int]:
        """Numbers of the benchmark problems that share a run, ascending."""
        import numpy as np

        first = np.searchsorted(self._hashes, runs, side="left")
        last = np.searchsorted(self._hashes, runs, side="right")
        return sorted({int(n) for a, b in zip(first, last, strict=True) if a < b for n in self._owners[a:b]})


@dataclass(frozen=True)
class Contamination:
    """The result of searching training problems for benchmark problems."""

    targets: int  # training problems that were searched
    problems: int  # benchmark problems they were compared with
    matches: tuple[tuple[str, Match], ...]  # (training problem, the benchmark problem it repeats)

    def by_benchmark(self) -> dict[str, int]:
        """How many problems of each benchmark are among the training problems."""
        ids: dict[str, set[str]] = defaultdict(set)
        for _, match in self.matches:
            ids[match.benchmark].add(match.id)
        return {name: len(matched) for name, matched in sorted(ids.items())}


def search_targets(path: Path, benchmark: "pa.Table") -> Contamination:
    """Search the prompts of a file of targets (`core.schemas.TARGET`) for the problems of a BENCHMARK table."""
    import pyarrow as pa

    from core.schemas import TARGET

    schema = pa.schema([TARGET.field("prompt")])
    tables = [read_table(file, schema, "give the file of targets/train") for file in shards(path)]
    prompts = [prompt for table in tables for prompt in table["prompt"].to_pylist()]
    problems = [next((m["content"] for m in reversed(prompt) if m["role"] == "user"), "") for prompt in prompts]
    pairs = zip(problems, overlaps(problems, benchmark), strict=True)
    matches = tuple((problem, match) for problem, match in pairs if match)
    return Contamination(len(problems), benchmark.num_rows, matches)


def search_lineage(lineage: Manifest, checkpoint: Path, benchmark: "pa.Table") -> Contamination | None:
    """`search_targets` in the file that the ``lineage.json`` of ``checkpoint`` names; None if the file is gone."""
    path = lineage.targets.locate(checkpoint)
    return search_targets(path, benchmark) if is_there(path) else None


def templated_benchmarks(benchmark: "pa.Table") -> set[str]:
    """The names of those benchmarks of a BENCHMARK table with problems that follow templates of the targets."""
    generated = {entry["name"] for entry in _entries(benchmark) if entry.get("generator")}
    return generated | held_out_benchmarks(benchmark)


def held_out_benchmarks(benchmark: "pa.Table") -> set[str]:
    """The names of those benchmarks of a BENCHMARK table that are held out of the traces."""
    return {entry["name"] for entry in _entries(benchmark) if entry.get("held_out")}


def _entries(benchmark: "pa.Table") -> list[dict[str, Any]]:
    from core.schemas import ENTRIES_KEY

    return json.loads((benchmark.schema.metadata or {}).get(ENTRIES_KEY, b"[]"))


def overlaps(problems: list[str], benchmark: "pa.Table") -> list[Match | None]:
    """For each training problem, in order, the problem of a BENCHMARK table that it repeats, or None."""
    index = BenchmarkIndex(benchmark)
    return [index.match(problem) for problem in problems]


def _tokens(text: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(text.lower()))


def _words(text: str) -> str:
    """The text that similarity compares: the words, without a drawing if enough is left."""
    without = _tokens(_DRAWING.sub(" ", text))
    return " ".join(without if _wordy(without) else _tokens(text))


def _symbols(text: str) -> Counter[str]:
    """The numbers and variables of a problem, without its drawing."""
    tokens = _tokens(_DRAWING.sub(" ", text))
    return Counter(token for token in tokens if (len(token) == 1 or not token.isalpha()) and token not in ARTICLES)


def _replaced(first: Counter[str], second: Counter[str]) -> int:
    """How many symbols of one problem are others in the other; those that only one of them has more of do not count.

    >>> _replaced(Counter("xx2"), Counter("xx3")), _replaced(Counter("x2"), Counter("x2abc"))
    (1, 0)
    """
    return min((first - second).total(), (second - first).total())


def _spellings(text: str) -> list[str]:
    """The texts that equality compares: without spaces, and also without a drawing if enough is left."""
    spellings = ["".join(text.lower().split())]
    if "[asy]" in text and _wordy(_tokens(without := _DRAWING.sub("", text))):
        spellings.append("".join(without.lower().split()))
    return spellings


def _wordy(tokens: tuple[str, ...]) -> bool:
    return len(tokens) >= GRAM and sum(len(t) > 1 and t.isalpha() for t in tokens) >= FEWEST_WORDS


def _numbers(tokens: tuple[str, ...]) -> "np.ndarray":
    """A number for each word, the same in every process; uint64."""
    import numpy as np

    return np.fromiter((crc32(token.encode()) for token in tokens), np.uint64, len(tokens))


def _runs(words: "np.ndarray") -> "np.ndarray":
    """Hash of each run of eight of the words with these numbers; shape (len(words) - 7,), uint64."""
    import numpy as np

    hashes = np.zeros(max(0, len(words) - GRAM + 1), np.uint64)
    for offset in range(GRAM):
        hashes = hashes * np.uint64(BASE) + words[offset : offset + len(hashes)]
    return hashes


def _coverage(entry: "np.ndarray", runs: "np.ndarray") -> float:
    """Share of a benchmark problem's words that are inside shared runs."""
    import numpy as np

    covered = np.zeros(len(entry) + GRAM - 1, bool)
    for start in np.flatnonzero(np.isin(entry, runs)):
        covered[start : start + GRAM] = True
    return float(covered.mean())
