"""Finding and reading the files of benchmarks: parquet, JSON lines, JSON."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError

if TYPE_CHECKING:
    from evaluation.benchmarks.registry import Benchmark, Source


def find(benchmark: "Benchmark", roots: Sequence[Path]) -> "tuple[Source, Path]":
    """The first source of ``benchmark`` whose file lies in one of ``roots`` or in a direct subfolder of one.

    Where there is none, the first source of the hub is downloaded (or taken from the local cache) at its revision.
    """
    folders = [Path(root).expanduser() for root in roots]
    for source in benchmark.sources:
        named = Path(source.file).expanduser()
        candidates = [named] if named.is_absolute() else []
        for root in [] if named.is_absolute() else folders:
            candidates += [root / named, *(folder / named for folder in sorted(root.glob("*/")))]
        for candidate in candidates:
            if candidate.is_file():
                return source, candidate
    failed = ""
    for source in (source for source in benchmark.sources if source.hub):
        try:
            return source, download(source)
        except InputError as error:
            failed = f" {error}."
    files = " or ".join(source.file for source in benchmark.sources)
    missing = [str(folder) for folder in folders if not folder.is_dir()]
    searched = ", ".join(str(folder) for folder in folders) or "nothing: no root folder is set"
    note = f" ({', '.join(missing)}: no such folder)" if missing else ""
    raise InputError(
        f"benchmark {benchmark.name}: no file {files}; searched {searched}{note}.{failed} Put the file there, add its "
        "folder to the benchmark roots setting, or leave this benchmark out of the suite"
    )


def download(source: "Source") -> Path:
    """The file of a hub source in the local cache; InputError says why it cannot be had."""
    from huggingface_hub import errors, hf_hub_download

    assert source.hub
    try:
        return Path(hf_hub_download(source.hub, source.file, repo_type="dataset", revision=source.revision))
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        raise InputError(
            f"The hub's {source.hub} at {source.revision} cannot be reached{offline}, and its {source.file} is not in "
            f"the local cache ({type(error).__name__})"
        ) from error


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(row number from 1, row) of a .parquet, .jsonl or .json file."""
    if path.suffix == ".parquet":
        yield from enumerate(_parquet(path), start=1)
    elif path.suffix == ".jsonl":
        yield from _json_lines(path)
    elif path.suffix == ".json":
        yield from enumerate(_json(path), start=1)
    else:
        raise InputError(f"{path}: benchmark files are .parquet, .jsonl or .json")


def _parquet(path: Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        table.validate(full=True)  # among others, that its texts are UTF-8
        return table.to_pylist()
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable parquet file ({error}); copy or convert it again") from error


def _json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        # Split at \n only: the texts hold U+2028, which str.splitlines would cut at.
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}; convert the file to UTF-8") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, _object(line, f"{path}, line {number}")


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not JSON ({error}); expected one object a line") from error
    if not isinstance(row, dict):
        raise InputError(f"{where}: expected a JSON object, found {type(row).__name__}")
    return row


def _json(path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path}: not UTF-8 JSON ({error})") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: expected a JSON list of objects")
    return rows
