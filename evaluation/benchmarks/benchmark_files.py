"""Find and read the files of benchmarks: parquet, JSON-lines and JSON files, and datasets of the hub."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.files import read_json, read_json_lines
from core.model.hub import load_split
from core.parquet import read_parquet
from evaluation.benchmarks.suite import Benchmark, Source

Rows = Iterator[tuple[int, dict[str, Any]]]
LARGEST_FILE = 32 << 20  # bytes, of texts or of JSON, which parsed takes up to 24 times as much


def find_rows(benchmark: Benchmark, roots: Sequence[Path]) -> tuple[Source, str, Rows]:
    """Return the source that ``benchmark`` is read from, its name in messages, and its rows.

    That is the first with a file next to the suite, which gave it an absolute path, or in one of ``roots`` or in a
    direct subfolder of one. If there is none, the first source of the hub is downloaded (or taken from the local cache)
    at its revision.
    """
    for source in benchmark.sources:
        if source.file and (file := _local_file(source.file, roots)):
            return source, str(file), read_rows(file)
    failed = ""
    for source in benchmark.sources:
        if not source.hub:
            continue
        try:
            return source, *_hub_rows(source)
        except InputError as error:
            failed = f" {error}."
    raise InputError(_not_found(benchmark, roots, failed))


def local_files(benchmarks: Iterable[Benchmark], roots: Sequence[Path]) -> list[Path]:
    """Return the files of ``benchmarks`` that are on this machine, where `find_rows` looks for them."""
    sources = (source for benchmark in benchmarks for source in benchmark.sources)
    return [file for source in sources if source.file and (file := _local_file(source.file, roots))]


def _local_file(name: str, folders: Sequence[Path]) -> Path | None:
    file = Path(name).expanduser()
    below = [folder for root in folders for folder in (root, *sorted(root.glob("*/")))]
    candidates = [file] if file.is_absolute() else [folder / file for folder in below]
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _hub_rows(source: Source) -> tuple[str, Rows]:
    if source.split:
        return f"{source.hub}, split {source.split}", read_split(source)
    file = download(source)
    return str(file), read_rows(file)


def _not_found(benchmark: Benchmark, folders: Sequence[Path], failed: str) -> str:
    files = " or ".join(source.file or f"of the hub's {source.hub}" for source in benchmark.sources)
    searched = ", ".join(str(folder) for folder in folders) or "a root folder (none is given)"
    where = f" ({benchmark.obtain})" if benchmark.obtain else ""
    return (
        f"benchmark {benchmark.name}: no file {files} next to the suite, nor in {searched}.{failed} Put the "
        f"file{where} there, name its folder (--roots, --benchmark-root, or benchmarks.roots in a profile), or leave "
        "this benchmark out of the suite"
    )


def download(source: Source) -> Path:
    """Return the file of a hub source in the local cache; InputError says why it cannot be downloaded."""
    from huggingface_hub import errors, hf_hub_download

    assert source.hub and source.file
    try:
        return Path(hf_hub_download(source.hub, source.file, repo_type="dataset", revision=source.revision))
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        raise InputError(
            f"The hub's {source.hub} at {source.revision} cannot be reached{offline}, and its {source.file} is not in "
            f"the local cache ({type(error).__name__})"
        ) from error


def read_split(source: Source) -> Rows:
    """Read the rows of a split of a dataset, like `read_rows`."""
    assert source.hub
    where = f"The hub's dataset {source.hub}"
    dataset = load_split(source.hub, source.subset, source.split, source.revision, where=where)
    if dataset.dataset_size > LARGEST_FILE:
        raise InputError(
            f"{where}: {dataset.dataset_size:,} bytes are too many for a benchmark (limit {LARGEST_FILE:,})"
        )
    return enumerate(dataset, start=1)


def read_rows(path: Path) -> Rows:
    """Yield (row number from 1, row) of a .parquet, .jsonl or .json file."""
    if path.is_file() and (size := path.stat().st_size) > LARGEST_FILE:
        raise InputError(f"{path}: {size:,} bytes are too many for a benchmark (limit {LARGEST_FILE:,})")
    if path.suffix == ".parquet":
        rows = read_parquet(path, "copy or convert it again", partitioning=None).to_pylist()
    elif path.suffix == ".jsonl":
        rows = read_json_lines(path)
    elif path.suffix == ".json":
        rows = read_json(path)
    else:
        raise InputError(f"{path}: benchmark files are .parquet, .jsonl or .json")
    if not isinstance(rows, list):
        raise InputError(f"{path}: expected a JSON list of objects")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise InputError(f"{path}, row {number}: expected a JSON object, not {type(row).__name__}")
        yield number, row


def read_path(row: Mapping[str, Any], path: str, where: str, setting: str) -> Any:
    """Return the value at a dotted path of a row; InputError, which starts with ``where``, if there is no such column.

    ``setting`` names what the user corrects then.
    """
    value: Any = row
    for part in path.split("."):
        if not isinstance(value, dict) or part not in value:
            raise InputError(f"{where}: no column {path!r}; the row has {', '.join(row)}. Correct {setting}")
        value = value[part]
    return value


def read_fields(row: Mapping[str, Any], fields: Mapping[str, str], where: str, setting: str) -> str | None:
    """Return what a verifier reads of a row, as a JSON object; None if it reads nothing."""
    values = {name: read_path(row, path, where, setting) for name, path in fields.items()}
    return json.dumps(values, default=str) if values else None
