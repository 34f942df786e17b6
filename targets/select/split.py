"""Draw the training file and the held-out file from prepared targets, by problem.

``left_out.parquet`` (REJECTED) has the prepared targets that ``max_rows`` leaves out, so that each trace of the source
is in exactly one of train, heldout, left_out and rejected: `reconcile` proves it from the files.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.schemas import REJECTED
from targets.prepared import Prepared
from targets.select.dedupe import problem_digest
from targets.select.source_caps import rank
from targets.staging import staging
from targets.target_tables import RowDigest, TableWriter, digest_ids, iter_batches, read_metadata
from targets.trace import Rejection, rejected_target_row

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

TRAIN, HELDOUT, LEFT_OUT = "train.parquet", "heldout.parquet", "left_out.parquet"
REMEDY = "run python -m targets"


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
class Reconciliation:
    """The places of the traces of a source."""

    read: int
    rows: dict[str, int]  # of each file
    problems: tuple[str, ...]  # what is missing or there twice; empty if all is well


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
    settings = {"heldout_share": str(heldout_share), "split_seed": str(seed), "max_rows": str(max_rows)}
    prepared_metadata = read_metadata(prepared.prepared, REMEDY)
    prepared_digest = prepared_metadata.pop("rows_digest")
    metadata = {**prepared_metadata, "prepared_digest": prepared_digest, **settings}
    out_dir = Path(out_dir)
    if earlier := _find_split(out_dir, metadata):
        return earlier
    suffixes = {str(source.name): source.suffix for source in prepared.config.sources}
    shares, order = _ranks(prepared.prepared, suffixes, seed)
    held = shares < heldout_share
    if held.all():
        raise InputError(f"{prepared.prepared}: all {len(held)} rows would be held out; lower heldout_share")
    train = _smallest(order, ~held, max_rows)
    left_out = Rejection("over_max_rows", f"not among the {max_rows} rows drawn")
    digest, schema = RowDigest(metadata["verifiers"]), _schema(prepared.prepared)
    with (
        staging(out_dir, (LEFT_OUT, HELDOUT, TRAIN)) as staging_dir,
        TableWriter(staging_dir / TRAIN, schema, metadata) as train_writer,
        TableWriter(staging_dir / HELDOUT, schema, metadata) as heldout_writer,
        TableWriter(staging_dir / LEFT_OUT, REJECTED, metadata) as left_out_writer,
    ):
        for position, row in enumerate(chain.from_iterable(iter_batches(prepared.prepared, schema.names))):
            if train[position]:
                digest.add(row)
                _add_target(row, "train", train_writer)
            elif held[position]:
                _add_target(row, "heldout", heldout_writer)
            else:
                left_out_writer.add(rejected_target_row(row, left_out))
        for writer in (train_writer, heldout_writer, left_out_writer):
            writer.close({"rows_digest": digest.hexdigest()})
    return read_split(out_dir)


def _schema(prepared: Path) -> "pa.Schema":
    import pyarrow.parquet as pq

    return pq.read_schema(prepared).remove_metadata()


def read_split(folder: Path) -> Split:
    """What an earlier `select_train` wrote into ``folder``; InputError if there is none."""
    split = _find_split(Path(folder), {})
    if split is None:
        raise InputError(f"{folder}: no training file there; run python -m targets")
    return split


def reconcile(prepared: Prepared, split: Split) -> Reconciliation:
    """Whether each trace that was read is in exactly one file; reads the ids back from the files."""
    import pyarrow.parquet as pq

    read, ids_read = json.loads(read_metadata(prepared.prepared, REMEDY)["ids_read"])
    files = {"train": split.train, "heldout": split.heldout, "left_out": split.left_out, "rejected": prepared.rejected}
    written = digest_ids(list(files.values()))
    problems = []
    if written.count != read:
        problems.append(f"{read:,} traces read, {written.count:,} accounted for")
    elif written.hexdigest() != ids_read:
        problems.append(f"{read:,} traces read and as many accounted for, but not the same ones")
    if not _all_have_reasons([split.left_out, prepared.rejected]):
        problems.append("a rejected trace has no reason")
    rows = {name: pq.read_metadata(path).num_rows for name, path in files.items()}
    return Reconciliation(read, rows, tuple(problems))


def _all_have_reasons(paths: Sequence[Path]) -> bool:
    batches = (batch for path in paths for batch in iter_batches(path, ["reason", "reasons"]))
    return all(row["reason"] and row["reasons"] for batch in batches for row in batch)


def _ranks(path: Path, suffixes: Mapping[str, str], seed: int) -> "tuple[np.ndarray, np.ndarray]":
    """For each row, where its problem lies between 0 and 1, and where the row lies among all; 16 bytes per row.

    ``suffixes``: what follows the problems of each source in their prompts.
    """
    import numpy as np

    shares, order = [], []
    for row in chain.from_iterable(iter_batches(path, ["data_source", "prompt", "extra_info"])):
        problem = problem_digest(row["prompt"][-1]["content"].removesuffix(suffixes[row["data_source"]]))
        shares.append(rank(f"{seed}/heldout/{problem}"))
        order.append(rank(f"{seed}/rows/{problem}/{row['extra_info']['id']}"))
    return np.array(shares, np.uint64) / 2**64, np.array(order, np.uint64)


def _smallest(order: "np.ndarray", allowed: "np.ndarray", limit: int | None) -> "np.ndarray":
    """The ``limit`` allowed rows of smallest order, as a mask."""
    import numpy as np

    chosen = np.zeros(len(order), bool)
    candidates = np.flatnonzero(allowed)
    chosen[candidates[np.argsort(order[candidates], kind="stable")][:limit]] = True
    return chosen


def _add_target(row: dict[str, Any], split: str, writer: TableWriter) -> None:
    writer.add({**row, "extra_info": {**row["extra_info"], "split": split, "index": writer.rows}})


def _find_split(out_dir: Path, metadata: Mapping[str, str]) -> Split | None:
    """What is in ``out_dir``, if it was drawn from the same rows in the same way."""
    import pyarrow.parquet as pq

    paths = [out_dir / name for name in (TRAIN, HELDOUT, LEFT_OUT)]
    try:
        recorded = [read_metadata(path, REMEDY) for path in paths]
    except InputError:
        return None  # not there: it is drawn
    if any("rows_digest" not in file or not metadata.items() <= file.items() for file in recorded):
        return None
    train, heldout = (pq.read_metadata(path).num_rows for path in paths[:2])
    return Split(paths[0], paths[1], paths[2], train, heldout, recorded[0]["rows_digest"])
