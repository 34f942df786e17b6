"""Find equal problems, and choose which of their traces stay.

Exact duplicates agree once runs of blanks and math delimiters are left out. Texts that differ in case or in blanks
within (``x`` and ``X``, ``11/2`` and ``1 1/2``) are duplicates only with the same gold answer. Near duplicates have a
similarity of at least ``near_duplicate`` percent (`near_duplicates`), AND have the same numbers and operators in the
same order AND the same gold answer. By similarity alone, problems that differ in one number would be one: of the 294
pairs of MATH-train problems that reach 95 percent, 280 have different answers.

What the decision needs of each trace is in a database file, so that memory does not grow with their number.
"""

import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.files import digest_bytes
from core.text.patterns import compile_quick_pattern
from grading.answers.spelling import normalize
from targets.config import PrepareConfig
from targets.trace import Rejection, Trace

if TYPE_CHECKING:
    import numpy as np

DELIMITERS = compile_quick_pattern(r"\\[()\[\]]|\$")
NUMBERS_AND_OPERATORS = compile_quick_pattern(
    r"\d+(?:\.\d+)?|[-+*/^=<>|!%]|\\(?:le|ge|leq|geq|times|div|cdot|pm)(?![a-z])"
)
PERMUTATIONS = 128  # of the MinHash of a target
SHINGLE_WORDS = 5
DIVERSE_AMONG = 64  # verified traces of a problem among which the least alike are chosen
CACHE_KIB = 32_768  # of the database's pages in memory


def problem_text(problem: str) -> str:
    """``problem`` without what does not matter for its identity: case, blanks, math delimiters."""
    return " ".join(DELIMITERS.sub(" ", problem.casefold()).split())


def problem_digest(problem: str) -> str:
    """Identify a problem whatever its case and blanks, for pass rates and splits. 32 hex digits."""
    return digest_bytes(problem_text(problem).replace(" ", "").encode())[:32]


def spelling_digest(problem: str) -> str:
    """Identify a problem by its spelling; only math delimiters and runs of blanks are ignored. 32 hex digits."""
    return digest_bytes(" ".join(DELIMITERS.sub("", problem).split()).encode())[:32]


def dedupe_key(problem: str, gold: str) -> str:
    """What near duplicates share exactly: gold answer, numbers and operators in order. 32 hex digits."""
    symbols = NUMBERS_AND_OPERATORS.findall(problem_text(problem))
    return digest_bytes("\0".join([normalize(gold), *symbols]).encode())[:32]


def minhash(target: str) -> bytes:
    """MinHash of a target's runs of five words: 128 values of 32 bits."""
    words = target.split()
    return _minhash_of([" ".join(words[i : i + SHINGLE_WORDS]) for i in range(max(1, len(words) - SHINGLE_WORDS + 1))])


class Duplicates:
    """Collects accepted traces (`add`), then says which of them do not survive (`decide`) and why (`rejections`).

    ``file``: the database, created here. Positions are those of the accepted traces in order, from 0.
    """

    def __init__(self, file: Path, config: PrepareConfig) -> None:
        self._config = config
        self._database = sqlite3.connect(file)
        self._count = 0
        for statement in (
            "PRAGMA journal_mode = OFF",
            "PRAGMA synchronous = OFF",
            "PRAGMA temp_store = FILE",
            f"PRAGMA cache_size = -{CACHE_KIB}",
            "CREATE TABLE spelling (digest TEXT PRIMARY KEY, problem INTEGER)",
            "CREATE TABLE problem (number INTEGER PRIMARY KEY, text_and_gold TEXT UNIQUE, dedupe_key TEXT, text TEXT,"
            " same_as INTEGER, similarity REAL)",
            "CREATE INDEX of_dedupe_key ON problem (dedupe_key)",
            "CREATE TABLE trace (position INTEGER PRIMARY KEY, id TEXT, problem INTEGER, target TEXT, bytes INTEGER,"
            " minhash BLOB)",
            "CREATE TABLE rejected (position INTEGER PRIMARY KEY, reason TEXT, detail TEXT, duplicate_of TEXT)",
        ):
            self._database.execute(statement)

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> "Duplicates":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, traces: Iterable[Trace]) -> None:
        """Collect accepted traces."""
        rows = []
        for trace in traces:
            problem = self._problem(trace)
            rows.append((self._count, trace.id, problem, trace.target_digest, trace.target_bytes, trace.minhash))
            self._count += 1
        self._database.executemany("INSERT INTO trace VALUES (?, ?, ?, ?, ?, ?)", rows)

    def decide(self) -> None:
        """Decide between the traces of each problem."""
        self._merge_near_duplicates()
        order = "owner, bytes, position" if self._config.keep == "shortest" else "owner, position"
        rows = self._database.execute(
            "SELECT coalesce(same_as, number) AS owner, position, id, problem, target, minhash"
            f" FROM trace JOIN problem ON problem = number ORDER BY {order}"
        )
        for _, group in groupby((_Candidate(*row) for row in rows), key=lambda candidate: candidate.owner):
            self._database.executemany("INSERT INTO rejected VALUES (?, ?, ?, ?)", self._decide(group))

    def rejections(self) -> Iterator[tuple[int, Rejection]]:
        """(position, why it goes) of every trace that does not survive, by position."""
        for position, *why in self._database.execute("SELECT * FROM rejected ORDER BY position"):
            yield position, Rejection(*why)

    def _problem(self, trace: Trace) -> int:
        """The number of the trace's problem."""
        by_spelling = "SELECT problem FROM spelling WHERE digest = ?"
        if row := self._database.execute(by_spelling, (trace.problem_digest,)).fetchone():
            return row[0]
        text_and_gold = f"{problem_digest(trace.problem or '')} {normalize(trace.gold or '')}"
        by_gold = "SELECT number FROM problem WHERE text_and_gold = ?"
        if row := self._database.execute(by_gold, (text_and_gold,)).fetchone():
            (number,) = row
        else:
            statement = "INSERT INTO problem (text_and_gold, dedupe_key, text) VALUES (?, ?, ?)"
            values = (text_and_gold, trace.dedupe_key, problem_text(trace.problem or ""))
            number = self._database.execute(statement, values).lastrowid
            assert number is not None
        self._database.execute("INSERT INTO spelling VALUES (?, ?)", (trace.problem_digest, number))
        return number

    def _merge_near_duplicates(self) -> None:
        """Mark each problem that is near an earlier one with the same `dedupe_key`."""
        keys = self._database.execute("SELECT dedupe_key FROM problem GROUP BY dedupe_key HAVING count(*) > 1")
        for (key,) in keys:
            statement = "UPDATE problem SET same_as = ?, similarity = ? WHERE number = ?"
            self._database.executemany(statement, list(self._near_duplicates(key)))

    def _near_duplicates(self, key: str | None) -> Iterator[tuple[int, float, int]]:
        """(the repeated problem, similarity, the problem that repeats it) among those with this `dedupe_key`."""
        from targets.select.near_duplicates import near_duplicates

        rows = self._database.execute("SELECT number FROM problem WHERE dedupe_key = ? ORDER BY number", (key,))
        numbers = array("q", (number for (number,) in rows))
        threshold = self._config.near_duplicate
        pairs = near_duplicates(len(numbers), lambda position: self._look_up("text", numbers[position]), threshold)
        for position, other, similarity in pairs:
            yield numbers[other], similarity, numbers[position]

    def _look_up(self, column: str, number: int) -> Any:
        return self._database.execute(f"SELECT {column} FROM problem WHERE number = ?", (number,)).fetchone()[0]

    def _decide(self, group: Iterable["_Candidate"]) -> Iterator[tuple[int, str, str, str]]:
        """(position, reason, detail, id of the kept one) of the traces of one problem that do not survive.

        ``group``: its traces in order of preference.
        """
        limit = self._config.traces_per_problem
        if self._config.keep == "diverse":
            group = _diverse_first(group, limit)
        kept: dict[str, _Candidate] = {}
        for candidate in group:
            same = kept.get(candidate.target)
            if same is None and len(kept) < limit:
                kept[candidate.target] = candidate
                continue
            first = next(iter(kept.values()))
            if candidate.problem != first.problem:
                detail = f"{self._similarity(candidate, first)} {first.id}"
                yield candidate.position, "near_duplicate", detail, first.id
            else:
                detail = f"the same text as {same.id}" if same else f"kept {first.id}"
                yield candidate.position, "too_many_per_problem", detail, (same or first).id

    def _similarity(self, candidate: "_Candidate", first: "_Candidate") -> str:
        for number in (candidate.problem, first.problem):
            if number != candidate.owner:
                similarity = self._look_up("similarity", number)
                if candidate.owner in (candidate.problem, first.problem):
                    return f"{similarity:.1f}% similar to the problem of"
        return "both similar to one problem with the problem of"


@dataclass(frozen=True, slots=True)
class _Candidate:
    """The properties of a trace that the choice between the traces of a problem needs."""

    owner: int
    position: int
    id: str
    problem: int
    target: str
    minhash: bytes | None


def _diverse_first(group: Iterable[_Candidate], limit: int) -> Iterator[_Candidate]:
    """The traces of a problem, reordered: the first, then ``limit`` - 1 times the one that is least like any chosen so
    far (of equals the earlier), then the others."""
    among: dict[str, _Candidate] = {}
    rest: list[_Candidate] = []  # only what comes before the pool is full
    stream = iter(group)
    for candidate in stream:
        if candidate.target in among:
            rest.append(candidate)
        else:
            among[candidate.target] = candidate
        if len(among) == DIVERSE_AMONG:
            break
    pool = list(among.values())
    chosen = [pool.pop(0)]
    while pool and len(chosen) < limit:
        likeness = [max(jaccard(_values(c.minhash), _values(other.minhash)) for other in chosen) for c in pool]
        chosen.append(pool.pop(likeness.index(min(likeness))))
    yield from chosen
    yield from sorted([*pool, *rest], key=lambda candidate: candidate.position)
    yield from stream


def jaccard(first: "np.ndarray", second: "np.ndarray") -> float:
    """The Jaccard similarity of two sets, estimated from their MinHash values."""
    return float((first == second).mean())


def _minhash_of(shingles: list[str]) -> bytes:
    import numpy as np
    from rensa import RMinHash  # pyright: ignore[reportAttributeAccessIssue]  # a compiled module without stubs

    minhash = RMinHash(num_perm=PERMUTATIONS, seed=0)
    minhash.update(shingles)
    return np.array(minhash.digest(), "<u4").tobytes()


def _values(packed: bytes | None) -> "np.ndarray":
    import numpy as np

    return np.frombuffer(packed or b"", "<u4")
