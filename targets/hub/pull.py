"""``python -m targets pull``: a training set from the hub, if its rows are those that it was pushed with."""

from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import InputError
from core.files import atomic_folder
from core.machine.request_paths import writable_folder
from core.model.hub import hub_errors
from core.parquet import is_there
from core.schemas import TARGET, target_schema
from targets.files import HELDOUT, TRAIN, read_metadata
from targets.hub.push import DATA, HELDOUT_DIGEST, MESSAGES, copy_table

if TYPE_CHECKING:
    import pyarrow as pa

ADVICE = "give a dataset that luffy targets push has written"


def pull(repository: str, folder: Path, revision: str | None) -> str:
    """Download a training set into a new folder; returns the digest of its rows.

    Raises:
        InputError: the folder exists, the hub refuses, or the rows are not those that were pushed.
    """
    if folder.exists():
        raise InputError(f"{folder}: exists already: give the name of a new folder")
    writable_folder(folder)
    downloaded = _download(repository, revision)
    with atomic_folder(folder) as temporary:
        digest = read_dataset(downloaded, temporary, {"hub": f"{repository}@{downloaded.name}"})
    return digest


def _download(repository: str, revision: str | None) -> Path:
    """The folder of the hub's cache with the files; its name is the commit."""
    from huggingface_hub import snapshot_download

    with hub_errors(f"pull {repository}", "log in, or give a dataset and a revision that you may read"):
        files = f"{DATA}/*.parquet"
        return Path(snapshot_download(repository, repo_type="dataset", revision=revision, allow_patterns=files))


def read_dataset(downloaded: Path, out: Path, more: dict[str, str]) -> str:
    """Write the training set of a downloaded repository into ``out``; returns the digest of its rows.

    Raises:
        InputError: it is no training set, it is damaged, or its rows are not those that it was pushed with.
    """
    train = downloaded / DATA / TRAIN
    if not is_there(train):
        raise InputError(f"{downloaded}: no {DATA}/{TRAIN} in it; {ADVICE}")
    metadata = {**read_metadata(train, ADVICE), **more}
    expected = {TRAIN: metadata.get("rows_digest")}
    if is_there(downloaded / DATA / HELDOUT):
        expected[HELDOUT] = metadata.get(HELDOUT_DIGEST)
    for name, digest in expected.items():
        if digest is None:
            raise InputError(f"{downloaded / DATA / name}: no digest in its metadata; {ADVICE}")
        if copy_table(downloaded / DATA / name, out / name, metadata, _without_messages, ADVICE)[1] != digest:
            raise InputError(
                f"{downloaded / DATA / name}: its rows do not have the digest {digest[:16]} that it was pushed "
                "with: pull another revision"
            )
    return metadata["rows_digest"]


def _without_messages(table: "pa.Table", file: Path) -> "pa.Table":
    """The rows as they were pushed; InputError if they are no targets."""
    for field in TARGET:
        types = (field.type, target_schema(fields=True).field(field.name).type)
        if field.name not in table.schema.names or table.schema.field(field.name).type not in types:
            raise InputError(f"{file}: column {field.name}: expected {field.type}; {ADVICE}")
    return table.drop_columns(MESSAGES) if MESSAGES in table.schema.names else table
