"""Draw the training file and the held-out file from prepared targets, by problem.

``left_out.parquet`` (REJECTED) has the prepared targets that ``max_rows`` leaves out, so that each trace of the source
is in exactly one of train, heldout, left_out and rejected: `reconcile` proves it from the files.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from core.errors import InputError
from core.parquet import count_rows, shard_path, shards
from core.schemas import REJECTED
from targets.engine import Engine
from targets.files import (
    HELDOUT,
    LEFT_OUT,
    REMEDY,
    TOOLS,
    TRAIN,
    IdDigest,
    RowDigest,
    TableWriter,
    combined_digest,
    digest_ids,
    iter_batches,
    read_columns,
    read_metadata,
    staging,
)
from targets.prepared_files import Prepared
from targets.select.dedupe import problem_digest
from targets.select.selection import rank
from targets.trace import Rejection, rejected_target_row

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS = "max_rows"  # in the metadata
Masks = tuple[np.ndarray, np.ndarray]  # whether each row is trained on, and whether it is held out


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
    the rest, ``max_rows`` (all) with the smallest hashes stay, in the order of ``prepared``. The prepared file's
    metadata goes with all of them. Where ``out_dir`` already holds them, nothing is done. Raises InputError if nothing
    is left to train on.
    """
    if not 0 <= heldout_share < 1:
        raise InputError(f"heldout_share {heldout_share}: expected a share from 0 to below 1")
    if max_rows is not None and max_rows < 1:
        raise InputError(f"max_rows {max_rows}: expected 1 or more, or none")
    settings = {"heldout_share": str(heldout_share), "split_seed": str(seed), MAX_ROWS: str(max_rows)}
    prepared_metadata = read_metadata(prepared.prepared, REMEDY)
    prepared_digest = prepared_metadata.pop("rows_digest")
    metadata = {**prepared_metadata, "prepared_digest": prepared_digest, **settings}
    out_dir = Path(out_dir)
    if earlier := _find_split(out_dir, metadata):
        return earlier
    files = shards(prepared.prepared)
    with Engine(workers=prepared.config.workers) as engine:
        masks = _draw(files, prepared, heldout_share, max_rows, seed, engine)
        if heldout_share and all(held.all() for _, held in masks):
            count = prepared.counts["kept"]
            raise InputError(f"{prepared.prepared}: all {count} rows would be held out; lower heldout_share")
        with staging(out_dir, (LEFT_OUT, HELDOUT, TRAIN)) as staging_dir:
            _write(files, masks, staging_dir, metadata, engine)
    return read_split(out_dir)


def _draw(
    files: Sequence[Path], prepared: Prepared, heldout_share: float, max_rows: int | None, seed: int, engine: Engine
) -> list[Masks]:
    sizes = list(map(count_rows, files))
    if heldout_share or max_rows:
        suffixes = {str(source.name): source.suffix for source in prepared.config.sources}
        ranks = list(engine.run(partial(rank_rows, suffixes=suffixes, seed=seed), files, sum(sizes)))
        held = np.concatenate([shares for shares, _ in ranks]) < heldout_share
        train = _smallest(np.concatenate([rows for _, rows in ranks]), ~held, max_rows)
    else:
        train, held = np.ones(sum(sizes), bool), np.zeros(sum(sizes), bool)
    ends = np.cumsum(sizes)[:-1]
    return list(zip(np.split(train, ends), np.split(held, ends), strict=True))


def rank_rows(file: Path, _: object, *, suffixes: Mapping[str, str], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """For each target, where its problem lies between 0 and 1, and where it lies among all targets; 16 bytes per row.

    ``suffixes``: what follows the problems of each source in their prompts.
    """
    shares, order = [], []
    for row in chain.from_iterable(iter_batches(file, ["data_source", "prompt", "extra_info"])):
        problem = problem_digest(row["prompt"][-1]["content"].removesuffix(suffixes[row["data_source"]]))
        shares.append(rank(f"{seed}/heldout/{problem}"))
        order.append(rank(f"{seed}/rows/{problem}/{row['extra_info']['id']}"))
    return np.array(shares, np.uint64) / 2**64, np.array(order, np.uint64)


@dataclass(frozen=True)
class _Part:
    """A file of targets, and the files that its rows go into: none for a name that no row of any part belongs to, but
    in the first part, which tells the metadata.
    """

    file: Path
    masks: Masks
    first: tuple[int, int]  # `extra_info.index` of the first row that is trained on, and of the first held out
    paths: Mapping[str, Path]
    metadata: Mapping[str, str]

    def __str__(self) -> str:
        return self.file.name


def _write(
    files: Sequence[Path], masks: Sequence[Masks], folder: Path, metadata: Mapping[str, str], engine: Engine
) -> None:
    parts, train_rows, heldout_rows = [], 0, 0
    left_out = any((~(trained | held)).any() for trained, held in masks)
    has_rows = {TRAIN: True, HELDOUT: any(held.any() for _, held in masks), LEFT_OUT: left_out}
    for number, (file, (trained, held)) in enumerate(zip(files, masks, strict=True)):
        numbers = {name: (number, len(files)) if rows else (0, 1) for name, rows in has_rows.items()}
        paths = {name: shard_path(folder / name, *of) for name, of in numbers.items() if number == 0 or has_rows[name]}
        parts.append(_Part(file, (trained, held), (train_rows, heldout_rows), paths, metadata))
        train_rows += int(trained.sum())
        heldout_rows += int(held.sum())
    others = list(engine.run(write_part, parts[1:], train_rows + heldout_rows))
    write_part(parts[0], None, lambda digest: combined_digest([digest, *others]))


def write_part(part: _Part, _: object, combine: Callable[[str], str] | None = None) -> str:
    """Write the files of a part; returns the digest of its rows to train on. ``combine``: the digest of all parts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    digest = RowDigest(part.metadata["verifiers"], part.metadata.get(TOOLS, ""))
    schema = pq.read_schema(part.file).remove_metadata()
    schemas = {TRAIN: schema, HELDOUT: schema, LEFT_OUT: REJECTED}
    why = Rejection("over_max_rows", f"not among the {part.metadata[MAX_ROWS]} rows drawn")
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(TableWriter(path, schemas[name], part.metadata))
            for name, path in part.paths.items()
        }
        train, heldout, others = writers[TRAIN], writers.get(HELDOUT), writers.get(LEFT_OUT)
        begin = 0
        for table in read_columns(part.file, schema.names):
            chosen, held = (mask[begin : begin + len(table)] for mask in part.masks)
            begin += len(table)
            trained = _numbered(table.filter(pa.array(chosen)), "train", part.first[0] + train.rows)
            train.add_table(trained)
            digest.add(trained)
            if heldout:
                heldout.add_table(_numbered(table.filter(pa.array(held)), "heldout", part.first[1] + heldout.rows))
            if others:
                for row in table.filter(pa.array(~(chosen | held))).to_pylist():
                    others.add(rejected_target_row(row, why))
        rows_digest = digest.hexdigest()
        for writer in writers.values():
            writer.close({"rows_digest": combine(rows_digest) if combine else rows_digest})
    return rows_digest


def _numbered(table: "pa.Table", split: str, first: int) -> "pa.Table":
    """``table`` with its split and the numbers of its rows in `extra_info`."""
    import pyarrow as pa

    place = table.schema.get_field_index("extra_info")
    info = table.column(place).combine_chunks()
    values = {field.name: info.field(field.name) for field in info.type}
    values |= {"split": pa.repeat(split, len(table)), "index": pa.array(np.arange(first, first + len(table)))}
    column = pa.StructArray.from_arrays(list(values.values()), fields=list(info.type))
    return table.set_column(place, table.schema.field(place), column)


def read_split(folder: Path) -> Split:
    """What an earlier `select_train` wrote into ``folder``; InputError if there is none."""
    split = _find_split(Path(folder), {})
    if split is None:
        raise InputError(f"{folder}: no training file there; run luffy targets")
    return split


def reconcile(prepared: Prepared, split: Split) -> Reconciliation:
    """Whether each trace that was read is in exactly one file; reads the ids back from the files."""
    read = IdDigest.of(json.loads(read_metadata(prepared.prepared, REMEDY)["ids_read"]))
    files = {"train": split.train, "heldout": split.heldout, "left_out": split.left_out, "rejected": prepared.rejected}
    written = digest_ids(list(files.values()))
    problems = []
    if written.count != read.count:
        problems.append(f"{read.count:,} traces read, {written.count:,} accounted for")
    elif written != read:
        problems.append(f"{read.count:,} traces read and as many accounted for, but not the same traces")
    if not _all_have_reasons([split.left_out, prepared.rejected]):
        problems.append("a rejected trace has no reason")
    rows = {name: count_rows(path) for name, path in files.items()}
    return Reconciliation(read.count, rows, tuple(problems))


def _all_have_reasons(paths: Sequence[Path]) -> bool:
    batches = (batch for path in paths for batch in iter_batches(path, ["reason", "reasons"]))
    return all(row["reason"] and row["reasons"] for batch in batches for row in batch)


def _smallest(order: np.ndarray, allowed: np.ndarray, limit: int | None) -> np.ndarray:
    chosen = np.zeros(len(order), bool)
    candidates = np.flatnonzero(allowed)
    chosen[candidates[np.argsort(order[candidates], kind="stable")][:limit]] = True
    return chosen


def _find_split(out_dir: Path, metadata: Mapping[str, str]) -> Split | None:
    """What is in ``out_dir``, if it was drawn from the same rows in the same way."""
    paths = [out_dir / name for name in (TRAIN, HELDOUT, LEFT_OUT)]
    try:
        recorded = [read_metadata(path, REMEDY) for path in paths]
    except InputError:
        return None  # not there: it is drawn
    if any("rows_digest" not in file or not metadata.items() <= file.items() for file in recorded):
        return None
    train, heldout = map(count_rows, paths[:2])
    return Split(paths[0], paths[1], paths[2], train, heldout, recorded[0]["rows_digest"])
