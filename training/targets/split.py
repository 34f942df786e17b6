"""The training file and the held-out one, drawn from prepared targets by problem."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.errors import InputError
from evaluation.records import TARGET
from training.targets.dedupe import problem_digest
from training.targets.output import RowDigest, Stream, publish, staging
from training.targets.prepare import Prepared

TRAIN, HELDOUT = "train.parquet", "heldout.parquet"
ROWS_A_READ = 256


@dataclass(frozen=True)
class Split:
    """What `select_train` wrote. ``digest``: sha256 over the rows of the training file, its data version."""

    train: Path
    heldout: Path
    rows: int
    heldout_rows: int
    digest: str


def select_train(
    prepared: Prepared, out_dir: Path, *, heldout_share: float = 0.0, max_rows: int | None = None, seed: int = 0
) -> Split:
    """Write train.parquet and heldout.parquet (both TARGET) into ``out_dir``.

    A problem is held out when its hash under ``seed`` falls into ``heldout_share``: adding rows moves no problem. Of
    the rest, ``max_rows`` (all) with the smallest hashes are kept, in the order of ``prepared``. The prepared file's
    metadata goes with both. Raises InputError if nothing is left to train on.
    """
    if not 0 <= heldout_share < 1:
        raise InputError(f"heldout_share {heldout_share}: expected a share from 0 to below 1")
    if max_rows is not None and max_rows < 1:
        raise InputError(f"max_rows {max_rows}: expected 1 or more, or none")
    metadata = {**_metadata(prepared.prepared), "heldout_share": str(heldout_share), "split_seed": str(seed)}
    ranks = [_rank(row, seed) for row in _rows(prepared.prepared, ["prompt", "extra_info"])]
    held = {position for position, (share, _) in enumerate(ranks) if share < heldout_share}
    candidates = [position for position in range(len(ranks)) if position not in held]
    if not candidates:
        raise InputError(f"{prepared.prepared}: all {len(ranks)} rows would be held out; lower heldout_share")
    train = set(sorted(candidates, key=lambda position: ranks[position][1])[:max_rows])
    digest = RowDigest()
    out_dir = Path(out_dir)
    with (
        staging(out_dir) as room,
        Stream(room / TRAIN, TARGET, metadata) as kept,
        Stream(room / HELDOUT, TARGET, metadata) as away,
    ):
        for position, row in enumerate(_rows(prepared.prepared, TARGET.names)):
            if position in train:
                digest.add(row)
                kept.add(_placed(row, "train", kept.rows))
            elif position in held:
                away.add(_placed(row, "heldout", away.rows))
        kept.close({"rows_digest": digest.hexdigest()})
        away.close()
        rows, heldout_rows = kept.rows, away.rows
        publish(room, out_dir, (HELDOUT, TRAIN))
    return Split(out_dir / TRAIN, out_dir / HELDOUT, rows, heldout_rows, digest.hexdigest())


def _rank(row: Mapping[str, Any], seed: int) -> tuple[float, bytes]:
    """(where the problem lies between 0 and 1, where the row lies among all)."""
    problem = problem_digest(row["prompt"][-1]["content"])
    place = hashlib.sha256(f"{seed}/heldout/{problem}".encode()).digest()
    order = hashlib.sha256(f"{seed}/rows/{problem}/{row['extra_info']['id']}".encode()).digest()
    return int.from_bytes(place[:8], "big") / 2**64, order


def _placed(row: dict[str, Any], split: str, index: int) -> dict[str, Any]:
    return {**row, "extra_info": {**row["extra_info"], "split": split, "index": index}}


def _rows(path: Path, columns: list[str]) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path).iter_batches(ROWS_A_READ, columns=columns):
        yield from batch.to_pylist()


def _metadata(path: Path) -> dict[str, str]:
    import pyarrow.parquet as pq

    found = pq.read_metadata(path).metadata or {}
    kept = {k.decode(): v.decode() for k, v in found.items() if k not in (b"ARROW:schema", b"rows_digest")}
    return {**kept, "prepared_digest": found[b"rows_digest"].decode()}
