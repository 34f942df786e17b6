"""Compare two versions of a training set by their profiles."""

import json
from pathlib import Path
from typing import Any

from targets.target_tables import read_metadata, readable

QUANTILES = {"median": 0.5, "95th percentile": 0.95, "longest": 1.0}
REMEDY = "give the folder of a preparation"


def compare_versions(before: Path, after: Path) -> list[tuple[str, str, str]]:
    """Compare two profile files as (what, value before, value after): rows, lengths, sources, rejections.

    Raises InputError for a file that is no profile.
    """
    old, new = _summary(before), _summary(after)
    common = len(old["ids"] & new["ids"])
    lines = [
        ("traces read", old["read"], new["read"]),
        ("targets", len(old["ids"]), len(new["ids"])),
        ("targets that the other version does not have", len(old["ids"]) - common, len(new["ids"]) - common),
        ("problems", old["problems"], new["problems"]),
    ]
    lines += [(f"target tokens, {name}", old["tokens"][name], new["tokens"][name]) for name in new["tokens"]]
    for key in ("from", "rejected"):
        pairs = [(name, old[key].get(name, 0), new[key].get(name, 0)) for name in sorted({**old[key], **new[key]})]
        lines += [(f"{key} {name}", *pair) for name, *pair in sorted(pairs, key=lambda p: -max(p[1:]))]
    return [(what, f"{first:,}", f"{second:,}") for what, first, second in lines]


def _summary(profile: Path) -> dict[str, Any]:
    import numpy as np
    import pyarrow.parquet as pq

    with readable(profile, REMEDY):
        table = pq.read_table(profile, columns=["id", "source", "problem_digest", "target_tokens"])
        counts = json.loads(read_metadata(profile, REMEDY)["counts"])
    tokens = table["target_tokens"].to_numpy() if table.num_rows else np.zeros(1)
    lengths = {"mean": round(float(tokens.mean()))}
    lengths |= {name: int(np.quantile(tokens, q)) for name, q in QUANTILES.items()}
    return {
        "ids": set(table["id"].to_pylist()),
        "read": counts["read"],
        "problems": len(table["problem_digest"].unique()),
        "tokens": lengths,
        "from": {entry["values"]: entry["counts"] for entry in table["source"].value_counts().to_pylist()},
        "rejected": {name: count for name, count in counts.items() if name not in ("read", "kept")},
    }
