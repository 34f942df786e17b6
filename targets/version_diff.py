"""Two versions of a set side by side, from their profiles."""

import json
from pathlib import Path
from typing import Any

from core.errors import InputError

QUANTILES = {"median": 0.5, "95th percentile": 0.95, "longest": 1.0}


def compare(before: Path, now: Path) -> list[tuple[str, str, str]]:
    """(what, value before, value now) of two profile files: rows, lengths, sources, what the filters refused.

    Raises InputError for a file that is no profile.
    """
    old, new = _facts(before), _facts(now)
    common = len(old["ids"] & new["ids"])
    lines = [
        ("traces read", old["read"], new["read"]),
        ("targets", len(old["ids"]), len(new["ids"])),
        ("targets of the other that are not here", len(new["ids"]) - common, len(old["ids"]) - common),
        ("problems", old["problems"], new["problems"]),
    ]
    lines += [(f"target tokens, {name}", old["tokens"][name], new["tokens"][name]) for name in new["tokens"]]
    for title, key in (("from", "sources"), ("refused", "refused")):
        names = sorted(
            old[key].keys() | new[key].keys(), key=lambda name: -max(old[key].get(name, 0), new[key].get(name, 0))
        )
        lines += [(f"{title} {name}", old[key].get(name, 0), new[key].get(name, 0)) for name in names]
    return [(what, f"{first:,}", f"{second:,}") for what, first, second in lines]


def _facts(profile: Path) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(profile, columns=["id", "source", "problem_digest", "target_tokens"])
        counts = json.loads((pq.read_metadata(profile).metadata or {})[b"counts"])
    except (OSError, KeyError, pa.ArrowException) as error:
        raise InputError(f"profile {profile}: cannot be read: {error}; give the folder of a preparation") from error
    tokens = table["target_tokens"].to_numpy() if table.num_rows else np.zeros(1)
    lengths = {"mean": round(float(tokens.mean()))}
    lengths |= {name: int(np.quantile(tokens, q)) for name, q in QUANTILES.items()}
    return {
        "ids": set(table["id"].to_pylist()),
        "read": counts["read"],
        "problems": len(table["problem_digest"].unique()),
        "tokens": lengths,
        "sources": {entry["values"]: entry["counts"] for entry in table["source"].value_counts().to_pylist()},
        "refused": {name: count for name, count in counts.items() if name not in ("read", "kept")},
    }
