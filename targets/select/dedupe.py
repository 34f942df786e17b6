"""One problem, few survivors: which problems are the same, and which of their traces stay.

Exact duplicates agree after normalisation of blanks, case and math delimiters. Near duplicates are alike by the MinHash
of their three-character shingles, then by a similarity of at least ``near_duplicate`` percent, AND have the same
numbers and operators in the same order AND the same gold answer. By similarity alone, problems that differ in one
number would be one: of the 294 pairs of MATH-train problems that reach 95 percent, 280 have different answers.

What has to be remembered of each trace lies in a database file, so that memory does not grow with their number.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.files import digest_bytes
from grading.answers import normalize
from targets.config import PrepareConfig
from targets.read.traces import Fault

if TYPE_CHECKING:
    import numpy as np

DELIMITERS = re.compile(r"\\[()\[\]]|\$")
SKELETON = re.compile(r"\d+(?:\.\d+)?|[-+*/^=<>|!%]|\\(?:le|ge|leq|geq|times|div|cdot|pm)(?![a-z])")
PERMUTATIONS = 128
SHINGLE = 3  # characters, of a problem
SHINGLE_WORDS = 5  # of a target
MARGIN = 0.15  # below the Jaccard similarity that texts at the threshold have: four standard errors of the estimate
DIVERSE_AMONG = 64  # verified traces of a problem among which the least alike are chosen: the first so many
CACHE_KIB = 32_768  # of the database's pages in memory


def problem_text(problem: str) -> str:
    """``problem`` without what does not matter for its identity: case, blanks, math delimiters."""
    return " ".join(DELIMITERS.sub(" ", problem.casefold()).split())


def problem_digest(problem: str) -> str:
    """Name of a problem: equal for exact duplicates. 32 hex digits."""
    return digest_bytes(problem_text(problem).replace(" ", "").encode())[:32]


def skeleton(problem: str, gold: str) -> str:
    """What near duplicates share exactly: gold answer, numbers and operators in order. 32 hex digits."""
    return digest_bytes("\0".join([normalize(gold), *SKELETON.findall(problem_text(problem))]).encode())[:32]


def sketch(target: str) -> bytes:
    """MinHash of a target's runs of five words: 128 values of 32 bits."""
    words = target.split()
    return _minhash([" ".join(words[i : i + SHINGLE_WORDS]) for i in range(max(1, len(words) - SHINGLE_WORDS + 1))])


class Duplicates:
    """Accepted traces as they come (`add`), then which of them do not survive and why (`losers`).

    ``file``: the database, made here. Positions are those of the accepted traces in order, from 0.
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
            "CREATE TABLE problem (number INTEGER PRIMARY KEY, digest TEXT UNIQUE, skeleton TEXT, text TEXT,"
            " same_as INTEGER, similarity REAL)",
            "CREATE INDEX of_skeleton ON problem (skeleton)",
            "CREATE TABLE trace (position INTEGER PRIMARY KEY, id TEXT, owner INTEGER, problem INTEGER,"
            " target TEXT, size INTEGER, sketch BLOB)",
            "CREATE TABLE loser (position INTEGER PRIMARY KEY, reason TEXT, detail TEXT)",
        ):
            self._database.execute(statement)

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> "Duplicates":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Remember accepted traces: rows with id, problem, problem_digest, skeleton, target_digest, size, sketch."""
        traces = []
        for row in rows:
            problem, owner = self._problem(row)
            traces.append((self._count, row["id"], owner, problem, row["target_digest"], row["size"], row["sketch"]))
            self._count += 1
        self._database.executemany("INSERT INTO trace VALUES (?, ?, ?, ?, ?, ?, ?)", traces)

    def losers(self) -> Iterator[tuple[int, Fault]]:
        """(position, why it goes) of every trace that does not survive, by position."""
        order = "owner, size, position" if self._config.keep == "shortest" else "owner, position"
        found = self._database.execute(
            f"SELECT owner, position, id, problem, target, sketch FROM trace ORDER BY {order}"
        )
        for _, group in groupby((_Candidate(*row) for row in found), key=lambda candidate: candidate.owner):
            self._database.executemany("INSERT INTO loser VALUES (?, ?, ?)", self._decide(group))
        for position, reason, detail in self._database.execute("SELECT * FROM loser ORDER BY position"):
            yield position, Fault(reason, detail)

    def _problem(self, row: Mapping[str, Any]) -> tuple[int, int]:
        """(number of the trace's problem, number of the problem it repeats: itself, if none)."""
        look_up = "SELECT number, coalesce(same_as, number) FROM problem WHERE digest = ?"
        if known := self._database.execute(look_up, (row["problem_digest"],)).fetchone():
            return known
        text = problem_text(row["problem"])
        same_as, similarity = self._repeated(text, row["skeleton"])
        statement = "INSERT INTO problem (digest, skeleton, text, same_as, similarity) VALUES (?, ?, ?, ?, ?)"
        values = (row["problem_digest"], row["skeleton"], text, same_as, similarity)
        number = self._database.execute(statement, values).lastrowid
        assert number is not None
        return number, same_as or number

    def _repeated(self, text: str, skeleton: str) -> tuple[int | None, float | None]:
        """The earliest problem of this skeleton that repeats none itself and that ``text`` is similar to."""
        from rapidfuzz import fuzz

        threshold = self._config.near_duplicate
        look_up = "SELECT number, text FROM problem WHERE skeleton = ? AND same_as IS NULL ORDER BY number"
        for number, other in self._database.execute(look_up, (skeleton,)):
            if jaccard(_shingles(text), _shingles(other)) < least_jaccard(threshold):
                continue
            if similarity := fuzz.ratio(text, other, score_cutoff=threshold):
                return number, similarity
        return None, None

    def _decide(self, group: Iterable["_Candidate"]) -> Iterator[tuple[int, str, str]]:
        """(position, reason, detail) of the losers among the traces of one problem, given in order of preference."""
        limit = self._config.traces_per_problem
        if self._config.keep == "diverse":
            group = _diverse_first(group, limit)
        kept: dict[str, _Candidate] = {}
        for candidate in group:
            twin = kept.get(candidate.target)
            if twin is None and len(kept) < limit:
                kept[candidate.target] = candidate
                continue
            first = next(iter(kept.values()))
            if candidate.problem != first.problem:
                yield candidate.position, "near_duplicate", f"{self._similarity(candidate, first)} {first.id}"
            else:
                detail = f"the same text as {twin.id}" if twin else f"kept {first.id}"
                yield candidate.position, "surplus", detail

    def _similarity(self, candidate: "_Candidate", first: "_Candidate") -> str:
        for number in (candidate.problem, first.problem):
            if number != candidate.owner:
                look_up = "SELECT similarity FROM problem WHERE number = ?"
                (similarity,) = self._database.execute(look_up, (number,)).fetchone()
                if candidate.owner in (candidate.problem, first.problem):
                    return f"{similarity:.1f}% similar to the problem of"
        return "both similar to one problem with the problem of"


@dataclass(frozen=True, slots=True)
class _Candidate:
    """What deciding between the traces of a problem needs to know of one."""

    owner: int
    position: int
    id: str
    problem: int
    target: str
    sketch: bytes | None


def _diverse_first(group: Iterable[_Candidate], wanted: int) -> Iterator[_Candidate]:
    """The traces of a problem, the first ``wanted`` being the first one and then, each time, the one whose likest
    among the chosen is the least like it (of equals the earlier)."""
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
    while pool and len(chosen) < wanted:
        likeness = [max(jaccard(_values(c.sketch), _values(other.sketch)) for other in chosen) for c in pool]
        chosen.append(pool.pop(likeness.index(min(likeness))))
    yield from chosen
    yield from sorted([*pool, *rest], key=lambda candidate: candidate.position)
    yield from stream


def least_jaccard(threshold: float) -> float:
    """The Jaccard similarity of shingles below which no pair of texts can reach ``threshold`` percent, less a margin.

    A changed character changes `SHINGLE` shingles of each text; texts that reach it share all but that many.
    """
    changed = SHINGLE * (1 - threshold / 100)
    return max(0.0, (1 - changed) / (1 + changed) - MARGIN)


def jaccard(first: "np.ndarray", second: "np.ndarray") -> float:
    """The Jaccard similarity of two sets, estimated from their MinHash values."""
    return float((first == second).mean())


@lru_cache(maxsize=8192)
def _shingles(text: str) -> "np.ndarray":
    """MinHash of a problem's text."""
    return _values(_minhash([text[i : i + SHINGLE] for i in range(max(1, len(text) - SHINGLE + 1))]))


def _minhash(shingles: list[str]) -> bytes:
    import numpy as np
    from rensa import RMinHash  # pyright: ignore[reportAttributeAccessIssue]  # a compiled module without stubs

    minhash = RMinHash(num_perm=PERMUTATIONS, seed=0)
    minhash.update(shingles)
    return np.array(minhash.digest(), "<u4").tobytes()


def _values(minhash: bytes | None) -> "np.ndarray":
    import numpy as np

    return np.frombuffer(minhash or b"", "<u4")
