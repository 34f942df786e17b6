"""The training file and the held-out one, drawn from prepared targets by problem, and what became of every trace.

``left_out.parquet`` (REJECTED) has the prepared targets that ``max_rows`` leaves out, so that each trace of the source
is in exactly one of train, heldout, left_out and rejected: `account` proves it from the files.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.schemas import REJECTED, TARGET
from targets.output import RowDigest, Stream, publish, staging, tally_files
from targets.prepare import Prepared
from targets.select.dedupe import problem_digest

if TYPE_CHECKING:
    import numpy as np

TRAIN, HELDOUT, LEFT_OUT = "train.parquet", "heldout.parquet", "left_out.parquet"
ROWS_A_READ = 256


@dataclass(frozen=True)
class Split:
    """What `select_train` wrote. ``digest``: sha256 over the rows of the training file, its data version."""

    train: Path
    heldout: Path
    left_out: Path
    rows: int
    heldout_rows: int
    digest: str


@dataclass(frozen=True)
class Account:
    """What became of the traces of a source. ``faults``: what is missing or there twice; empty if all is well."""

    read: int
    places: dict[str, int]  # rows of each file
    faults: tuple[str, ...]


def select_train(
    prepared: Prepared, out_dir: Path, *, heldout_share: float = 0.0, max_rows: int | None = None, seed: int = 0
) -> Split:
    """Write train.parquet and heldout.parquet (both TARGET) and left_out.parquet into ``out_dir``.

    A problem is held out when its hash under ``seed`` falls into ``heldout_share``: adding rows moves no problem. Of
    the rest, ``max_rows`` (all) with the smallest hashes are kept, in the order of ``prepared``. The prepared file's
    metadata goes with all of them. Where ``out_dir`` already holds them, nothing is done. Raises InputError if nothing
    is left to train on.
    """
    if not 0 <= heldout_share < 1:
        raise InputError(f"heldout_share {heldout_share}: expected a share from 0 to below 1")
    if max_rows is not None and max_rows < 1:
        raise InputError(f"max_rows {max_rows}: expected 1 or more, or none")
    drawn = {"heldout_share": str(heldout_share), "split_seed": str(seed), "max_rows": str(max_rows)}
    metadata = {**_metadata(prepared.prepared), **drawn}
    out_dir = Path(out_dir)
    if earlier := _unchanged(out_dir, metadata):
        return earlier
    shares, order = _ranks(prepared.prepared, seed)
    held = shares < heldout_share
    if held.all():
        raise InputError(f"{prepared.prepared}: all {len(held)} rows would be held out; lower heldout_share")
    train = _smallest(order, ~held, max_rows)
    digest = RowDigest()
    with (
        staging(out_dir) as room,
        Stream(room / TRAIN, TARGET, metadata) as kept,
        Stream(room / HELDOUT, TARGET, metadata) as away,
        Stream(room / LEFT_OUT, REJECTED, metadata) as unused,
    ):
        for position, row in enumerate(_rows(prepared.prepared, TARGET.names)):
            if train[position]:
                digest.add(row)
                kept.add(_placed(row, "train", kept.rows))
            elif held[position]:
                away.add(_placed(row, "heldout", away.rows))
            else:
                unused.add(_left_out(row, max_rows))
        for stream in (kept, away, unused):
            stream.close({"rows_digest": digest.hexdigest()})
        publish(room, out_dir, (LEFT_OUT, HELDOUT, TRAIN))
    split = _unchanged(out_dir, metadata)
    assert split is not None
    return split


def read_split(folder: Path) -> Split:
    """What an earlier `select_train` wrote into ``folder``; InputError if there is none."""
    found = _unchanged(Path(folder), {})
    if found is None:
        raise InputError(f"{folder}: no training file there; run python -m targets")
    return found


def account(prepared: Prepared, split: Split) -> Account:
    """Whether each trace that was read is in exactly one place; reads the ids back from the files."""
    import pyarrow.parquet as pq

    recorded = json.loads((pq.read_metadata(prepared.prepared).metadata or {})[b"read_tally"])
    places = {"train": split.train, "heldout": split.heldout, "left_out": split.left_out, "rejected": prepared.rejected}
    written = tally_files(list(places.values()))
    faults = []
    if written.count != recorded[0]:
        faults.append(f"{recorded[0]:,} traces read, {written.count:,} accounted for")
    elif written.hexdigest() != recorded[1]:
        faults.append(f"{recorded[0]:,} traces read and as many accounted for, but not the same ones")
    if not _all_have_reasons([split.left_out, prepared.rejected]):
        faults.append("a refused trace has no reason")
    counts = {name: pq.read_metadata(path).num_rows for name, path in places.items()}
    return Account(recorded[0], counts, tuple(faults))


def _all_have_reasons(paths: Sequence[Path]) -> bool:
    import pyarrow.parquet as pq

    for path in paths:
        for batch in pq.ParquetFile(path, pre_buffer=False).iter_batches(columns=["reason", "reasons"]):
            if not all(row["reason"] and row["reasons"] for row in batch.to_pylist()):
                return False
    return True


def _ranks(path: Path, seed: int) -> "tuple[np.ndarray, np.ndarray]":
    """For each row, where its problem lies between 0 and 1, and where the row lies among all; 16 bytes a row."""
    import numpy as np

    shares, order = [], []
    for batch in _batches(path, ["prompt", "extra_info"]):
        for row in batch:
            problem = problem_digest(row["prompt"][-1]["content"])
            shares.append(_hash(f"{seed}/heldout/{problem}"))
            order.append(_hash(f"{seed}/rows/{problem}/{row['extra_info']['id']}"))
    return np.array(shares, np.uint64) / 2**64, np.array(order, np.uint64)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _smallest(order: "np.ndarray", allowed: "np.ndarray", wanted: int | None) -> "np.ndarray":
    """The ``wanted`` allowed rows of smallest order, as a mask."""
    import numpy as np

    chosen = np.zeros(len(order), bool)
    candidates = np.flatnonzero(allowed)
    chosen[candidates[np.argsort(order[candidates], kind="stable")][:wanted]] = True
    return chosen


def _placed(row: dict[str, Any], split: str, index: int) -> dict[str, Any]:
    return {**row, "extra_info": {**row["extra_info"], "split": split, "index": index}}


def _left_out(row: Mapping[str, Any], max_rows: int | None) -> dict[str, Any]:
    info = row["extra_info"]
    return {
        "id": info["id"],
        "source": info["source"],
        "reason": "over_max_rows",
        "reasons": ["over_max_rows"],
        "detail": f"not among the {max_rows} rows drawn",
        "problem": row["prompt"][-1]["content"],
        "gold": row["reward_model"]["ground_truth"],
    }


def _unchanged(out_dir: Path, metadata: Mapping[str, str]) -> Split | None:
    """What is in ``out_dir``, if it was drawn from the same rows in the same way."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = {name.encode(): value.encode() for name, value in metadata.items()}
    train, heldout, left_out = (out_dir / name for name in (TRAIN, HELDOUT, LEFT_OUT))
    found = []
    try:
        for path in (train, heldout, left_out):
            found.append(pq.read_metadata(path))
            has = found[-1].metadata or {}
            if b"rows_digest" not in has or any(has.get(name) != value for name, value in wanted.items()):
                return None
    except (OSError, pa.ArrowException):
        return None  # not there: it is made
    return Split(
        train, heldout, left_out, found[0].num_rows, found[1].num_rows, found[0].metadata[b"rows_digest"].decode()
    )


def _batches(path: Path, columns: list[str]) -> Iterator[list[dict[str, Any]]]:
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path, pre_buffer=False).iter_batches(ROWS_A_READ, columns=columns):
        yield batch.to_pylist()


def _rows(path: Path, columns: list[str]) -> Iterator[dict[str, Any]]:
    for batch in _batches(path, columns):
        yield from batch


def _metadata(path: Path) -> dict[str, str]:
    import pyarrow.parquet as pq

    found = pq.read_metadata(path).metadata or {}
    kept = {k.decode(): v.decode() for k, v in found.items() if k not in (b"ARROW:schema", b"rows_digest")}
    return {**kept, "prepared_digest": found[b"rows_digest"].decode()}
