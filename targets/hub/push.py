"""``python -m targets push``: a training set to a repository of the Hugging Face hub.

The rows are those of the training file with a column ``messages`` beside them, which other trainers read. The file's
metadata goes with them, without the folders of this machine.
"""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from core.errors import InputError
from core.model.hub import upload_folder
from core.parquet import count_rows, is_there, shards
from core.schemas import MESSAGE
from targets.files import (
    HELDOUT,
    TRAIN,
    RowDigest,
    TableWriter,
    combined_digest,
    read_columns,
    read_metadata,
    readable,
)
from targets.hub.dataset_card import dataset_card

DATA, MESSAGES, HELDOUT_DIGEST = "data", "messages", "heldout_digest"
REMEDY = "give the folder of train.parquet, which luffy targets writes"


def push(folder: Path, repository: str, *, license: str | None, public: bool) -> str:
    """Upload the training set in ``folder`` with a card; returns the digest of its rows.

    Args:
        folder: has train.parquet, and heldout.parquet if some are held out.
        repository: ``OWNER/NAME`` of the dataset, which is created if it does not exist.
        license: identifier of the hub. None: the licenses of the sources.
        public: let everybody read a repository that is created.
    """
    with tempfile.TemporaryDirectory() as scratch:
        digest = write_dataset(folder, Path(scratch), repository, license)
        where, advice = f"push {repository}", "log in, or give a repository that you may write to"
        upload_folder(
            Path(scratch),
            repository,
            "dataset",
            where=where,
            advice=advice,
            private=not public,
            replace=f"{DATA}/*.parquet",
        )
    return digest


def write_dataset(folder: Path, out: Path, repository: str, license: str | None) -> str:
    """Write what the hub gets of the training set in ``folder`` into ``out``; returns the digest of its rows.

    Raises:
        InputError: there is no training set, its rows are not those that its digest names, or one names a folder.
    """
    recorded = read_metadata(folder / TRAIN, REMEDY)
    if "rows_digest" not in recorded:
        raise InputError(f"{folder / TRAIN}: not written by luffy targets; {REMEDY}")
    metadata = portable(recorded)
    heldout = folder / HELDOUT
    rows = {}
    if is_there(heldout) and count_rows(heldout):
        rows["heldout"], metadata[HELDOUT_DIGEST] = _copy(heldout, out / DATA / HELDOUT, metadata)
    rows["train"], digest = _copy(folder / TRAIN, out / DATA / TRAIN, metadata)
    if digest != metadata["rows_digest"]:
        raise InputError(f"{folder / TRAIN}: its rows are not those that its digest names; prepare the targets again")
    (out / "README.md").write_text(dataset_card(repository, metadata, rows, out / DATA / TRAIN, license), "utf-8")
    return digest


def portable(metadata: Mapping[str, str]) -> dict[str, str]:
    """What a training file records, with names instead of the folders of this machine."""
    parts = json.loads(metadata["sources"])  # a dataset of the hub is a part of its own name, a folder is none

    def named(source: Any) -> Any:
        if isinstance(source, dict):
            return {**source, "path": named(source["path"]), **without_folder(source)}
        remote = "://" in source and not source.startswith(("file:", "local:"))
        return source if remote or source in parts else PurePath(source).name

    config = json.loads(metadata["config"])
    config["source"] = [named(source) for source in config["source"]]
    sources = [named(source) for source in json.loads(metadata["source"])]
    texts = {"config": json.dumps(config, sort_keys=True), "source": json.dumps(sources)}
    verifiers = json.loads(metadata.get("verifiers", "{}"))
    verifiers = {name: {**record, **without_folder(record)} for name, record in verifiers.items()}
    return {**metadata, **texts, "verifiers": json.dumps(verifiers, sort_keys=True)}


def without_folder(record: Mapping[str, Any]) -> dict[str, Any]:
    """The verifier of a source or of a record, with the name in the place of a file of this machine."""
    verifier = record.get("verifier")
    if isinstance(verifier, dict) and "path" in verifier:
        return {"verifier": {**verifier, "path": PurePath(verifier["path"]).name}}
    return {}


def _copy(source: Path, out: Path, metadata: Mapping[str, str]) -> tuple[int, str]:
    """Copy a table with the `MESSAGES` of its rows; returns how many there are, and their digest."""
    copied = [_copy_file(file, out.with_name(file.name), metadata) for file in shards(source)]
    return sum(rows for rows, _ in copied), combined_digest([digest for _, digest in copied])


def _copy_file(source: Path, out: Path, metadata: Mapping[str, str]) -> tuple[int, str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out.parent.mkdir(parents=True, exist_ok=True)
    digest = RowDigest(metadata.get("verifiers", "{}"))
    with readable(source, REMEDY):
        schema = pq.read_schema(source)
        with TableWriter(out, schema.append(pa.field(MESSAGES, pa.list_(MESSAGE))), metadata) as writer:
            for table in read_columns(source):
                digest.add(table)
                for row in table.to_pylist():
                    _check_names(row["extra_info"], source)
                    writer.add({**row, MESSAGES: [*row["prompt"], *row["target"]]})
            writer.close()
    return writer.rows, digest.hexdigest()


def _check_names(info: Mapping[str, str], file: Path) -> None:
    for name in ("id", "source"):
        if PurePath(info[name]).is_absolute():
            raise InputError(
                f"{file}: {name} {info[name]!r:.200} names a folder of this machine: give its source file a name of "
                "its own and prepare the targets again"
            )
