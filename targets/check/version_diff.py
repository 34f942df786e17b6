"""Compare two versions of a training set: their counts by what the profiles record, and rows that came and went."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.parquet import read_shards, readable
from targets.files import PREPARED, PROFILE_FILE, REJECTED_FILE, iter_batches, read_metadata

QUANTILES = {"median": 0.5, "95th percentile": 0.95, "longest": 1.0}
REMEDY = "give the folder of a preparation"
EXAMPLES = 20  # rows that came, and rows that went
NOT_READ = "not read"


@dataclass(frozen=True)
class Example:
    """A target with a problem of one version only; ``elsewhere``: what became of its trace in the other one."""

    id: str
    problem: str
    gold: str
    target_tokens: int
    elsewhere: str


@dataclass(frozen=True)
class Difference:
    """Two versions side by side.

    ``lines`` are (what, before, now). ``went`` and ``came`` are at most `EXAMPLES` of the targets with problems that
    only the version before, or only this version has.
    """

    lines: Sequence[tuple[str, int, int]]
    went: Sequence[Example]
    came: Sequence[Example]


def compare_folders(before: Path, now: Path) -> Difference:
    """Compare the preparations in two folders; InputError if there is none in one of them."""
    profiles = [folder / PROFILE_FILE for folder in (before, now)]
    old, new = (_summary(profile) for profile in profiles)
    went, came = _only_in(old, new), _only_in(new, old)
    return Difference(_lines(old, new), _examples(before, old, went, now), _examples(now, new, came, before))


def compare_versions(before: Path, after: Path) -> list[tuple[str, str, str]]:
    """Compare two profile files as (what, value before, value after): rows, lengths, sources, rejections.

    Raises InputError for a file that is no profile.
    """
    return [(what, f"{first:,}", f"{second:,}") for what, first, second in _lines(_summary(before), _summary(after))]


def _lines(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    ids = [set(version["ids"]) for version in (old, new)]
    common = len(ids[0] & ids[1])
    lines = [
        ("traces read", old["read"], new["read"]),
        ("targets", len(ids[0]), len(ids[1])),
        ("targets that the other version does not have", len(ids[0]) - common, len(ids[1]) - common),
        ("problems", len(set(old["problems"])), len(set(new["problems"]))),
    ]
    lines += [(f"target tokens, {name}", old["tokens"][name], new["tokens"][name]) for name in new["tokens"]]
    for key in ("from", "mean target tokens from", "rejected", "source"):
        pairs = [(name, old[key].get(name, 0), new[key].get(name, 0)) for name in sorted({**old[key], **new[key]})]
        lines += [(f"{key} {name}", *pair) for name, *pair in sorted(pairs, key=lambda p: -max(p[1:]))]
    return lines


def _summary(profile: Path) -> dict[str, Any]:
    import numpy as np

    table = read_shards(profile, REMEDY, columns=["id", "source", "problem_digest", "target_tokens"])
    recorded = read_metadata(profile, REMEDY)
    with readable(profile, REMEDY):  # a parquet of another origin has no counts
        counts, blocks = (json.loads(recorded[name]) for name in ("counts", "by_source"))
    tokens = table["target_tokens"].to_numpy() if table.num_rows else np.zeros(1)
    lengths = {"mean": round(float(tokens.mean()))}
    lengths |= {name: int(np.quantile(tokens, q)) for name, q in QUANTILES.items()}
    means = table.group_by("source").aggregate([("target_tokens", "mean"), ("target_tokens", "count")]).to_pylist()
    return {
        "ids": table["id"].to_pylist(),
        "read": counts["read"],
        "problems": table["problem_digest"].to_pylist(),
        "lengths": table["target_tokens"].to_pylist(),
        "tokens": lengths,
        "from": {entry["source"]: entry["target_tokens_count"] for entry in means},
        "mean target tokens from": {entry["source"]: round(entry["target_tokens_mean"]) for entry in means},
        "rejected": {name: count for name, count in counts.items() if name not in ("read", "kept")},
        # By block of the settings, where there are several: what the filters did with its traces.
        "source": {f"{block}: {name}": n for block, of in blocks.items() for name, n in of.items() if len(blocks) > 1},
    }


def _only_in(version: Mapping[str, Any], other: Mapping[str, Any]) -> list[int]:
    """The places of at most `EXAMPLES` rows with problems of this version only, spread over all such rows."""
    problems = set(other["problems"])
    places = [place for place, problem in enumerate(version["problems"]) if problem not in problems]
    return places[:: max(1, len(places) // EXAMPLES)][:EXAMPLES]


def _examples(folder: Path, version: Mapping[str, Any], places: Sequence[int], other: Path) -> list[Example]:
    """The rows at ``places`` of the targets in ``folder``, with what the version in ``other`` did with their traces."""
    reasons = _reasons(other / REJECTED_FILE, {version["ids"][place] for place in places}) if places else {}
    return [
        Example(
            id=version["ids"][place],
            problem=row["prompt"][-1]["content"],
            gold=row["reward_model"]["ground_truth"],
            target_tokens=version["lengths"][place],
            elsewhere=reasons.get(version["ids"][place], NOT_READ),
        )
        for place, row in _rows(folder / PREPARED, places)
    ]


def _rows(path: Path, places: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows at ascending ``places`` of a file of targets in the order of the profile."""
    chosen = set(places)
    start = 0
    for batch in iter_batches(path, ["prompt", "reward_model"]) if chosen else ():
        yield from ((start + n, row) for n, row in enumerate(batch) if start + n in chosen)
        start += len(batch)


def _reasons(rejected: Path, ids: set[str]) -> dict[str, str]:
    table = read_shards(rejected, REMEDY, columns=["id", "reason"], filters=[("id", "in", sorted(ids))])
    return {row["id"]: row["reason"] for row in table.to_pylist()}
