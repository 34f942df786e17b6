"""Find equal problems, and choose which of their traces stay.

Exact duplicates agree once runs of blanks and math delimiters are left out. Texts that differ in case or in blanks
within (``x`` and ``X``, ``11/2`` and ``1 1/2``) are duplicates only with the same gold answer. Near duplicates have a
similarity of at least ``near_duplicate`` percent (`near_duplicates`), AND have the same numbers and operators in the
same order AND the same gold answer. By similarity alone, problems that differ in one number would be one: of the 294
pairs of MATH-train problems that reach 95 percent, 280 have different answers.

Processes that filter compute a few keys of each accepted trace (`describe`), so that the decision is a pass over
numbers, about a hundred bytes per trace. Texts are read only of problems that may be near duplicates.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from core.files import digest_bytes
from core.text.patterns import compile_quick_pattern
from grading.answers.spelling import normalize
from targets.settings import TargetSettings
from targets.trace import Trace

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = compile_quick_pattern(r"\\[()\[\]]|\$")
NUMBERS_AND_OPERATORS = compile_quick_pattern(
    r"\d+(?:\.\d+)?|[-+*/^=<>|!%]|\\(?:le|ge|leq|geq|times|div|cdot|pm)(?![a-z])"
)
PERMUTATIONS = 128  # of the MinHash of a target
SHINGLE_WORDS = 5
DIVERSE_AMONG = 64  # verified traces of a problem among which the least alike are chosen
KEYS = ("spelling_key", "text_key", "gold_key", "near_key", "target_key")


def problem_text(problem: str) -> str:
    """``problem`` without what does not matter for its identity: case, blanks, math delimiters."""
    return " ".join(DELIMITERS.sub(" ", problem.casefold()).split())


def problem_digest(problem: str) -> str:
    """Identify a problem whatever its case and blanks, for pass rates and splits. 32 hex digits."""
    return _text_digest(problem_text(problem))


def _text_digest(text: str) -> str:
    return digest_bytes(text.replace(" ", "").encode())[:32]


def spelling_digest(problem: str) -> str:
    """Identify a problem by its spelling; only math delimiters and runs of blanks are ignored. 32 hex digits."""
    return digest_bytes(" ".join(DELIMITERS.sub("", problem).split()).encode())[:32]


def minhash(target: str) -> bytes:
    """MinHash of a target's runs of five words: 128 values of 32 bits."""
    words = target.split()
    shingles = [" ".join(words[i : i + SHINGLE_WORDS]) for i in range(max(1, len(words) - SHINGLE_WORDS + 1))]
    return np.array(minhash_of(shingles, PERMUTATIONS), "<u4").tobytes()


def key_of(digest: str) -> int:
    """The first 64 bits of a hex digest, as a signed number."""
    return int(digest[:16], 16) - (1 << 63)


def describe(trace: Trace, *, likeness: bool = False) -> None:
    """Fill in the keys by which duplicates of an accepted trace are found; ``likeness``: with the `minhash`.

    What near duplicates share exactly are the gold answer, and the numbers and operators in order.
    """
    problem, text = problem_text(trace.problem or ""), trace.target.encode()
    gold = normalize(trace.gold or "")
    digest = _text_digest(problem)
    trace.problem_digest = spelling_digest(trace.problem or "")
    trace.spelling_key, trace.text_key = key_of(trace.problem_digest), key_of(digest)
    trace.gold_key = key_of(digest_bytes(f"{digest} {gold}".encode()))
    trace.near_key = key_of(digest_bytes("\0".join([gold, *NUMBERS_AND_OPERATORS.findall(problem)]).encode()))
    trace.target_key, trace.target_bytes = key_of(digest_bytes(text)), len(text)
    trace.has_log_probs = trace.target_log_probs is not None
    if likeness:
        trace.minhash = minhash(trace.target)


Pair = tuple[int, int, float]  # positions of a repeated problem and of the one that it repeats, similarity in percent
SearchPairs = Callable[[Sequence[np.ndarray]], Iterable[Pair]]  # of groups of first positions of problems


@dataclass(frozen=True)
class Repeated:
    """The traces that do not survive, by position; each array has a value for each of them."""

    positions: np.ndarray
    reasons: list[str]  # names of filters
    details: "pa.Array"
    kept: "pa.Array"  # the id of the trace that stays instead
    problems_of_golds: int  # problems with traces that have different gold answers


class Duplicates:
    """Collects the keys of accepted traces (`add`), then decides which of them survive (`decide`).

    Positions count the accepted traces in order, from 0. ``folder`` takes what does not fit into memory.
    ``columns``: what is needed of the traces (DECISION).
    """

    def __init__(self, config: TargetSettings, folder: Path) -> None:
        self._config = config
        keys = [*KEYS, "target_bytes"]
        self.columns = ["id", *keys, *["minhash"] * (config.keep == "diverse")]
        self._columns: dict[str, list[np.ndarray]] = {name: [] for name in keys}
        self._ids: list[pa.Array] = []
        self._likeness = folder / "minhash"

    def add(self, table: "pa.Table") -> None:
        """Collect accepted traces."""
        for name, arrays in self._columns.items():
            arrays.append(table[name].to_numpy())
        self._ids += table["id"].cast("large_string").chunks
        if self._config.keep == "diverse":
            with self._likeness.open("ab") as file:
                file.writelines(table["minhash"].to_pylist())

    def find_problems(self) -> list[np.ndarray]:
        """Assign traces to problems; the first positions of those problems that may be near duplicates, by group."""
        self._keys = {name: np.concatenate(arrays or [np.empty(0, np.int64)]) for name, arrays in self._columns.items()}
        self._columns.clear()
        self._problem = _first_of_problem(self._keys["spelling_key"], self._keys["gold_key"])
        problems = np.unique(self._problem)
        return list(_groups(problems, self._keys["near_key"][problems]))

    def decide(self, near: Iterable[Pair]) -> Repeated:
        """Choose among the traces of each problem, of which some are ``near`` duplicates."""
        import pyarrow as pa

        similar = {repeated: (owner, similarity) for repeated, owner, similarity in near}
        owners = np.arange(len(self._problem))
        owners[list(similar)] = [owner for owner, _ in similar.values()]
        owner = owners[owners][self._problem]
        order = self._by_preference(owner)
        kept, first, same = _choose(owner[order], self._keys["target_key"][order], self._config.traces_per_problem)
        goes = np.flatnonzero(~kept)
        goes = goes[np.argsort(order[goes])]
        positions, first, same = order[goes], order[first[goes]], np.where(same[goes] < 0, -1, order[same[goes]])
        others = self._problem[positions] != self._problem[first]
        repeats = (same >= 0) & ~others
        ids = pa.concat_arrays(self._ids) if self._ids else pa.array([], pa.large_string())
        kept_ids = ids.take(pa.array(np.where(repeats, same, first)))
        details = _joined(np.where(repeats, "the same text as ", "kept "), kept_ids)
        reasons = ["too_many_per_problem"] * len(details)
        for row in np.flatnonzero(others).tolist():
            problems = int(self._problem[positions[row]]), int(self._problem[first[row]])
            reasons[row] = "near_duplicate"
            details[row] = f"{_similarity(problems, int(owners[problems[0]]), similar)} {kept_ids[row]}"
        golds = _of_several(self._keys["spelling_key"], self._keys["gold_key"])
        return Repeated(positions, reasons, pa.array(details, pa.string()), kept_ids, golds)

    def _by_preference(self, owner: np.ndarray) -> np.ndarray:
        """All positions, problem by problem, the preferred ones first."""
        keys = [np.arange(len(owner)), owner]
        if self._config.keep == "shortest":
            keys.insert(1, self._keys["target_bytes"])
        order = np.lexsort(keys)
        if self._config.keep == "diverse" and len(order):
            likeness = np.memmap(self._likeness, "<u4", "r").reshape(len(order), -1)
            limit = self._config.traces_per_problem
            starts = np.flatnonzero(np.diff(owner[order], prepend=-1))
            for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
                if end - start > limit > 1:
                    group = order[start:end].tolist()
                    targets = self._keys["target_key"][order[start:end]].tolist()
                    order[start:end] = _diverse_first(group, targets, likeness, limit)
        return order


def _of_several(keys: np.ndarray, values: np.ndarray) -> int:
    """The number of keys that occur with several values."""
    order = np.lexsort((values, keys))
    same, changes = np.diff(keys[order]) == 0, np.diff(values[order]) != 0
    return len(np.unique(keys[order][1:][same & changes]))


def _first_of_problem(spellings: np.ndarray, golds: np.ndarray) -> np.ndarray:
    """The position of the first trace of each trace's problem.

    Traces of one spelling have one problem, and so have spellings if their first traces share a key of gold answers.
    """
    _, first, spelling = np.unique(spellings, return_index=True, return_inverse=True)
    _, problem = np.unique(golds[first], return_inverse=True)
    earliest = np.full(problem.max(initial=-1) + 1, len(spellings), np.int64)
    np.minimum.at(earliest, problem, first)
    return earliest[problem][spelling]


def _groups(positions: np.ndarray, keys: np.ndarray) -> Iterator[np.ndarray]:
    """The ``positions`` that share a key with others, ascending."""
    order = np.argsort(keys, kind="stable")
    _, starts, sizes = np.unique(keys[order], return_index=True, return_counts=True)
    for start, size in zip(starts[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        yield positions[order[start : start + size]]


def _choose(owner: np.ndarray, target: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The traces that stay, of traces in order of preference, problem by problem.

    Returns:
        Whether each stays; the first of its problem; the one with the same target that stays, or -1.
    """
    count = np.arange(len(owner))
    begins = np.diff(owner, prepend=-1) != 0
    first = np.maximum.accumulate(np.where(begins, count, 0))
    alike = np.lexsort((target, owner))
    changes = np.diff(owner[alike], prepend=-1) != 0
    changes[1:] |= np.diff(target[alike]) != 0
    earliest = np.empty(len(owner), np.int64)  # with the same target
    earliest[alike] = alike[np.maximum.accumulate(np.where(changes, count, 0))]
    distinct = np.cumsum(earliest == count)
    stays = (earliest == count) & (distinct - distinct[first] < limit)
    return stays, first, np.where(stays[earliest] & ~stays, earliest, -1)


def _joined(texts: np.ndarray, ids: "pa.Array") -> list[str]:
    return [text + identity for text, identity in zip(texts.tolist(), ids.to_pylist(), strict=True)]


def _similarity(problems: tuple[int, int], owner: int, similar: dict[int, tuple[int, float]]) -> str:
    if owner in problems:
        other = next(problem for problem in problems if problem != owner)
        return f"{similar[other][1]:.1f}% similar to the problem of"
    return "both similar to one problem with the problem of"


def _diverse_first(group: list[int], targets: list[int], likeness: np.ndarray, limit: int) -> list[int]:
    """The traces of a problem, reordered: the first, then ``limit`` - 1 times the one that is least like any chosen so
    far (of equals the earlier), then the others."""
    earliest: dict[int, int] = {}
    for target, position in zip(targets, group, strict=True):
        earliest.setdefault(target, position)
    pool = list(earliest.values())[:DIVERSE_AMONG]
    chosen = [pool.pop(0)]
    while pool and len(chosen) < limit:
        alike = [max(jaccard(likeness[c], likeness[other]) for other in chosen) for c in pool]
        chosen.append(pool.pop(alike.index(min(alike))))
    return [*chosen, *(position for position in group if position not in set(chosen))]


def jaccard(first: np.ndarray, second: np.ndarray) -> float:
    """The Jaccard similarity of two sets, estimated from their MinHash values."""
    return float((first == second).mean())


def minhash_of(shingles: list[str], values: int) -> list[int]:
    """The MinHash of a set of texts."""
    from rensa import RMinHash  # pyright: ignore[reportAttributeAccessIssue]  # a compiled module without stubs

    minhash = RMinHash(num_perm=values, seed=0)
    minhash.update(shingles)
    return minhash.digest()
