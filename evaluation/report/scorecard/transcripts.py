"""Choose a few samples for the reader: gains and losses of training, and right, wrong and truncated responses."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from core.schemas import TURNS
from core.text.markdown import shorten
from grading.verdict import Verdict

LONGEST = 6_000  # characters of a response on the page

SHOWN = 3  # gains of a scorecard, over its benchmarks
KINDS = {
    "gained": "wrong before training, right after",
    "lost": "right before training, wrong after",
    "right": "right",
    "partial": "partly right",
    "wrong": "wrong",
    "truncated": "stopped at the token limit",
}


@dataclass(frozen=True)
class Transcript:
    """One problem with the policy's response, and the base's where the two differ in verdict."""

    benchmark: str
    id: str
    kind: str  # a key of KINDS
    prompt: str
    gold: str
    response: str
    extracted: str | None
    verdict: str
    tokens: int
    before: str | None = None
    before_extracted: str | None = None
    turns: Sequence[Mapping[str, str]] = ()  # of one that called tools, and of the base's
    before_turns: Sequence[Mapping[str, str]] = ()


def choose_transcripts(tables: Mapping[str, tuple[pa.Table, pa.Table]]) -> list[Transcript]:
    """Choose transcripts of each kind per benchmark from {benchmark: (base, policy)}, by the rows alone.

    That is one of each kind, or `SHOWN` gains where there is one benchmark.
    """
    gains = max(1, SHOWN // max(1, len(tables)))
    return [transcript for name, pair in tables.items() for transcript in _choose(name, gains, *pair)]


def _choose(name: str, gains: int, base: pa.Table, policy: pa.Table) -> list[Transcript]:
    before = {(row["id"], row["sample"]): row for row in base.to_pylist()}
    chosen: dict[str, list[Transcript]] = {kind: [] for kind in KINDS}
    taken: set[str] = set()
    for row in sorted(policy.to_pylist(), key=_shuffled):
        kind, old = _kind(row, before.get((row["id"], row["sample"])))
        if row["id"] in taken or len(chosen[kind]) >= (gains if kind == "gained" else 1):
            continue
        taken.add(row["id"])
        transcript = Transcript(
            benchmark=name,
            id=row["id"],
            kind=kind,
            prompt=shorten(row["prompt"], LONGEST),
            gold=row["gold"],
            response=shorten(row["response"], LONGEST),
            extracted=row["extracted"],
            verdict=row["verdict"],
            tokens=row["tokens"],
            before=shorten(old["response"], LONGEST) if old else None,
            before_extracted=old["extracted"] if old else None,
            turns=row.get(TURNS.name) or (),
            before_turns=(old or {}).get(TURNS.name) or (),
        )
        chosen[kind].append(transcript)
    return [transcript for transcripts in chosen.values() for transcript in transcripts]


def _kind(row: Mapping[str, Any], old: Mapping[str, Any] | None) -> tuple[str, Mapping[str, Any] | None]:
    if row["verdict"] == Verdict.TRUNCATED:
        return "truncated", None
    right = row["verdict"] == Verdict.CORRECT
    if old is not None and (old["verdict"] == Verdict.CORRECT) != right:
        return ("gained" if right else "lost"), old
    if row["verdict"] == Verdict.PARTIAL:
        return "partial", None
    return ("right" if right else "wrong"), None


def _shuffled(row: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(f"{row['id']}/{row['sample']}".encode()).digest()
