"""``python -m targets push``: a training set to a repository of the Hugging Face hub.

The rows are the training file's, with a column ``messages`` in addition, which other trainers read. The file's
metadata goes with them, without the folders of this machine.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from core.errors import InputError, first_line
from core.model.hub import upload_folder
from core.parquet import count_rows, is_there, readable, shards
from core.schemas import MESSAGE
from core.text.markdown import escape_markdown
from targets.files import (
    HELDOUT,
    TOOLS,
    TRAIN,
    RowDigest,
    TableWriter,
    combined_digest,
    read_columns,
    read_metadata,
)
from targets.read.sources import is_hub_id

if TYPE_CHECKING:
    import pyarrow as pa

DATA, MESSAGES, HELDOUT_DIGEST = "data", "messages", "heldout_digest"
REMEDY = "give the folder of train.parquet, which luffy targets writes"
DIGESTS = {
    "rows_digest": "rows of the training split",
    "heldout_digest": "rows of the held-out split",
    "prepared_digest": "targets before the split",
    "source_digest": "source files",
    "config_digest": "settings",
    "review_digest": "review",
    "benchmarks_digest": "benchmarks that were searched for",
    "tokenizer_digest": "tokenizer",
    "code_digest": "code of the preparation",
}


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
        copied = copy_table(heldout, out / DATA / HELDOUT, metadata, _with_messages, REMEDY)
        rows["heldout"], metadata[HELDOUT_DIGEST] = copied
    rows["train"], digest = copy_table(folder / TRAIN, out / DATA / TRAIN, metadata, _with_messages, REMEDY)
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


def copy_table(
    source: Path, out: Path, metadata: Mapping[str, str], change: "Callable[[pa.Table, Path], pa.Table]", advice: str
) -> tuple[int, str]:
    """Copy a table of targets with what ``change`` makes of its rows; returns how many there are, and their digest.

    Raises:
        InputError: it cannot be read, or a value is missing; the message ends in ``advice``.
    """
    import pyarrow.parquet as pq

    out.parent.mkdir(parents=True, exist_ok=True)
    rows, digests = 0, []
    for file in shards(source):
        digest = RowDigest(metadata.get("verifiers", "{}"), metadata.get(TOOLS, ""))
        with readable(file, advice):
            schema = change(pq.read_schema(file).remove_metadata().empty_table(), file).schema
            with TableWriter(out.with_name(file.name), schema, metadata) as writer:
                for table in read_columns(file):
                    try:
                        digest.add(table)
                    except (TypeError, AttributeError, UnicodeDecodeError) as error:
                        what = f"a value after row {writer.rows:,} is missing or no text: {first_line(error)}"
                        raise InputError(f"{file}: {what}; {advice}") from error
                    writer.add_table(change(table, file))
                writer.close()
        rows += writer.rows
        digests.append(digest.hexdigest())
    return rows, combined_digest(digests)


def _with_messages(table: "pa.Table", file: Path) -> "pa.Table":
    """The rows with the column `MESSAGES`; InputError if one names a folder of this machine."""
    import pyarrow as pa

    for info in table["extra_info"].to_pylist():
        for name in ("id", "source"):
            if PurePath(info[name]).is_absolute():
                raise InputError(
                    f"{file}: {name} {info[name]!r:.200} names a folder of this machine: rename its source file, so "
                    "that no other has its name, and prepare the targets again"
                )
    chats = zip(table["prompt"].to_pylist(), table["target"].to_pylist(), strict=True)
    return table.append_column(MESSAGES, pa.array([[*prompt, *target] for prompt, target in chats], pa.list_(MESSAGE)))


def dataset_card(
    repository: str, metadata: Mapping[str, str], rows: Mapping[str, int], train: Path, license: str | None
) -> str:
    """Markdown with the metadata that the hub reads.

    Args:
        metadata: what the training file records, without folders of this machine.
        rows: of each split.
        train: the file of the training split.
    """
    import pyarrow.parquet as pq
    from huggingface_hub import DatasetCardData

    config = json.loads(metadata["config"])
    sources = [entry if isinstance(entry, dict) else {"path": entry} for entry in config["source"]]
    parts = json.loads(metadata["sources"])
    datasets = [path for entry in sources if is_hub_id(path := entry["path"]) and path in parts]
    licenses = [license] if license else sorted({entry["license"] for entry in sources if entry.get("license")})
    parquets, schema = shards(train), pq.read_schema(shards(train)[0])
    ending = ".parquet" if len(parquets) == 1 else "-*.parquet"
    files = [{"split": name, "path": f"data/{name}{ending}"} for name in sorted(rows, reverse=True)]
    data = DatasetCardData(
        license=(licenses[0] if len(licenses) == 1 else licenses) or None,
        task_categories=["text-generation"],
        tags=["reasoning", "luffy"],
        source_datasets=datasets or None,
        configs=[{"config_name": "default", "data_files": files}],
    )
    counts, settings = json.loads(metadata["counts"]), {**config, "source": None}
    read = [("traces read", counts["read"], "")]
    read += [(step["title"], -step["removed"], step["left"]) for step in json.loads(metadata["filter_counts"])]
    lines = [
        f"---\n{data.to_yaml()}\n---\n\n# {escape_markdown(repository)}\n",
        "Verified reasoning traces in the schema of LUFFY's training set (arXiv 2504.14945), with a column `messages` "
        "for trainers that read conversations. The boxed answer of each agrees with its gold answer.\n",
        f"`luffy targets pull {escape_markdown(repository)} OUT` writes the training file with the same digest.\n",
        _table("Splits", ("split", "rows"), list(rows.items())),
        _table("Sources", ("source", "license", "teacher"), [_names(entry) for entry in sources]),
        _table("Rows of each source", ("part", "read", "kept"), [(n, c["read"], c["kept"]) for n, c in parts.items()]),
        _table("What the filters took", ("filter", "traces", "left"), [*read, ("kept", counts["kept"], "")]),
        _table("Lineage", ("sha256 of", "digest"), [(t, metadata[n]) for n, t in DIGESTS.items() if metadata.get(n)]),
        _table("Schema", ("column", "type"), [(field.name, str(field.type)) for field in schema]),
        _table("Settings", ("setting", "value"), [(n, v) for n, v in settings.items() if v is not None]),
    ]
    return "\n".join(lines)


def _names(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    return entry["path"], entry.get("license") or "not stated", entry.get("teacher") or "not stated"


def _table(title: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join([f"## {title}\n", *(f"| {' | '.join(_cell(value) for value in line)} |" for line in lines), ""])


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else escape_markdown(str(value))
