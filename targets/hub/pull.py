"""``python -m targets pull``: a training set from the hub, if its rows are those that it was pushed with."""

from pathlib import Path

from core.errors import InputError, first_line
from core.files import atomic_folder
from core.machine.request_paths import writable_folder
from core.model.hub import hub_errors
from core.parquet import is_there, shards
from core.schemas import TARGET, target_schema
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
from targets.hub.push import DATA, HELDOUT_DIGEST, MESSAGES

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
        if _copy(downloaded / DATA / name, out / name, metadata) != digest:
            raise InputError(
                f"{downloaded / DATA / name}: its rows are not those of the digest {digest[:16]} that it was pushed "
                "with: pull another revision"
            )
    return metadata["rows_digest"]


def _copy(source: Path, out: Path, metadata: dict[str, str]) -> str:
    """Copy a table without the `MESSAGES` of its rows; returns their digest."""
    return combined_digest([_copy_file(file, out.with_name(file.name), metadata) for file in shards(source)])


def _copy_file(source: Path, out: Path, metadata: dict[str, str]) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with readable(source, ADVICE):
        given = pq.read_schema(source)
    for field in TARGET:
        types = (field.type, target_schema(fields=True).field(field.name).type)
        if field.name not in given.names or given.field(field.name).type not in types:
            raise InputError(f"{source}: column {field.name}: expected {field.type}; {ADVICE}")
    schema = pa.schema([field for field in given if field.name != MESSAGES])
    digest = RowDigest(metadata.get("verifiers", "{}"))
    with TableWriter(out, schema, metadata) as writer, readable(source, ADVICE):
        for table in read_columns(source, schema.names):
            try:
                digest.add(table)
            except (TypeError, AttributeError, UnicodeDecodeError) as error:
                raise InputError(
                    f"{source}: a value after row {writer.rows:,} is missing or no text: {first_line(error)}; {ADVICE}"
                ) from error
            writer.add_table(table)
        writer.close()
    return digest.hexdigest()
