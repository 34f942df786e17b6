"""Find the data files of a path, folder or glob in any filesystem of fsspec: local, ``s3://``, ``gs://``, …

A folder may be a clone of a hub dataset, or what ``Dataset.save_to_disk`` writes: then its metadata are no data, and
only the files of the split that the settings name are read.
"""

import os
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from core.errors import InputError, first_line
from core.text.parse import parse_yaml
from core.text.patterns import compile_full_match

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
TABLE_SUFFIXES = {".csv": ",", ".tsv": "\t"}  # with their delimiters
COMPRESSIONS = ("", ".gz", ".zst")
DATA_SUFFIXES = (".parquet", ".arrow", *(suffix + more for suffix in JSON_SUFFIXES for more in COMPRESSIONS))
SUFFIXES = (*DATA_SUFFIXES, *(suffix + more for suffix in TABLE_SUFFIXES for more in COMPRESSIONS))
METADATA_FILES = frozenset({"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"})
CARD = "README.md"
LARGEST_CARD = 1 << 20  # bytes that are read of it
# Words that name a split in the names of files and folders, as the hub reads them.
SPLITS = {"train": "train", "training": "train", "validation": "validation", "valid": "validation", "val": "validation"}
SPLITS |= {"dev": "validation", "test": "test", "testing": "test", "eval": "test", "evaluation": "test"}
SHARD = compile_full_match(r"([^/]{1,200}?)[-_.]?(?:\d{1,6}(?:-of-\d{1,6})?)?")  # train-00000-of-00002 -> train
NAMED_SPLITS = 10  # in a message


@dataclass(frozen=True)
class DataFile:
    """One file of a source; ``name``, which is the same on every machine, names its rows."""

    filesystem: Any  # fsspec.AbstractFileSystem
    path: str
    name: str

    @property
    def suffix(self) -> str:
        """The last part of its name that says what it holds: not that of a compression."""
        path = PurePosixPath(self.path)
        return PurePosixPath(path.stem).suffix if path.suffix in COMPRESSIONS else path.suffix

    @property
    def address(self) -> str:
        """The file as a user writes it: with the protocol of a remote storage."""
        protocol = self.filesystem.protocol
        local = "file" in ([protocol] if isinstance(protocol, str) else protocol)
        return self.path if local else self.filesystem.unstrip_protocol(self.path)

    @property
    def is_parquet(self) -> bool:
        return self.suffix == ".parquet"


def find_files(spec: str, split: str | None = None, subset: str | None = None) -> list[DataFile]:
    """The data files of a path, folder or glob, sorted by name; InputError if there are none.

    ``split`` (None: all) and ``subset`` choose among the files of a folder, where these are named after splits.
    """
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    if "\0" in spec:
        raise InputError(f"source {spec!r}: the path holds a NUL character")
    try:
        filesystem, path = fsspec.core.url_to_fs(spec)
        if filesystem.isfile(path):
            return [DataFile(filesystem, path, _printable(PurePosixPath(path).name))]
        is_folder = filesystem.isdir(path)
        if is_folder:
            entries, root = filesystem.find(path), path
        elif any(character in spec for character in "*?["):
            entries = [entry for entry in filesystem.glob(path) if filesystem.isfile(entry)]
            fixed = path[: min(path.find(c) for c in "*?[" if c in path)]
            root = fixed.rpartition("/")[0]
        else:
            remote = ", or the storage does not answer" if "://" in spec else ""
            raise InputError(f"source {spec}: no such file or folder{remote}")
        if isinstance(filesystem, LocalFileSystem):  # which leaves out what may not be read
            deque(islice(os.walk(root, onerror=_raise_if_forbidden), None if is_folder else 1), 0)
        card = _read_card(filesystem, f"{path}/{CARD}", spec) if is_folder and f"{path}/{CARD}" in entries else None
    except InputError:
        raise
    except Exception as error:
        if "://" not in spec and not isinstance(error, OSError | ValueError):
            raise
        if isinstance(error, PermissionError) and error.filename:
            raise InputError(f"source {spec}: no right to read {error.filename}; make it readable") from error
        # The driver of a storage raises errors of its own library.
        raise InputError(f"source {spec}: cannot be reached: {first_line(error)}") from error
    names = {entry[len(root) :].lstrip("/"): entry for entry in sorted(entries)}
    chosen = _data_names(list(names))
    if not chosen:
        raise InputError(f"source {spec}: no data file there; expected names ending in {', '.join(SUFFIXES)}")
    if is_folder and split is not None:
        chosen = _of_split(chosen, split, subset, card, f"source {spec}")
    return [DataFile(filesystem, names[name], _printable(name)) for name in chosen]


def _raise_if_forbidden(error: OSError) -> None:
    """Let a search fail at a folder that may not be read; one that has gone meanwhile has no files."""
    if isinstance(error, PermissionError):
        raise error


def _data_names(names: Sequence[str]) -> list[str]:
    """Those of ``names`` that are data; tables as text only where nothing else is there."""
    visible = [name for name in names if not any(part.startswith(".") for part in name.split("/"))]
    visible = [name for name in visible if not _is_metadata(PurePosixPath(name).name)]
    data = [name for name in visible if name.endswith(DATA_SUFFIXES)]
    return data or [name for name in visible if name.endswith(SUFFIXES)]


def _is_metadata(name: str) -> bool:
    # `datasets` caches what it computes of a saved dataset beside it.
    return name in METADATA_FILES or (name.startswith("cache-") and name.endswith(".arrow"))


def _of_split(names: Sequence[str], split: str, subset: str | None, card: Any, where: str) -> list[str]:
    """The files of a split: by the card of the dataset, or by their names; all of them if nothing names splits."""
    splits = _splits_of_card(names, subset, card, where) or {name: _split_of_name(name) for name in names}
    present = sorted({name for name in splits.values() if name})
    if not present:
        return list(splits)
    wanted = SPLITS.get(split, split)
    chosen = [name for name, named in splits.items() if (named or "train") in (wanted, split)]
    if not chosen:
        listed = ", ".join(present[:NAMED_SPLITS])
        raise InputError(f"{where}: no file of the split {split!r}: it has {listed}; set split to one of them")
    return chosen


def _split_of_name(name: str) -> str | None:
    """The split that a file's name, or else the nearest of its folders, is called after; None if none is.

    Of the files ``data/X-00000-of-00002.parquet`` X is the split whatever it is called.
    """
    *folders, file = name.split("/")
    stem = file[: -len(next(suffix for suffix in SUFFIXES if file.endswith(suffix)))]
    match = SHARD(stem)
    prefix = match.group(1) if match else stem
    if folders[-1:] == ["data"] and "-of-" in stem and prefix != "data":
        return SPLITS.get(prefix, prefix)
    return next((SPLITS[part] for part in (prefix, *reversed(folders)) if part in SPLITS), None)


def _splits_of_card(names: Sequence[str], subset: str | None, card: Any, where: str) -> dict[str, str | None]:
    """{file: split} as the card says; empty if it says nothing."""
    configs = card.get("configs") if isinstance(card, dict) else None
    configs = [config for config in configs or [] if isinstance(config, dict) and config.get("data_files")]
    if not configs:
        return {}
    by_name = {str(config.get("config_name", "default")): config for config in configs}
    default = next((name for name, config in by_name.items() if config.get("default")), "default")
    chosen = by_name.get(subset or default) or (next(iter(by_name.values())) if len(by_name) == 1 else None)
    if chosen is None or (subset and subset not in by_name):
        problem = f"no subset {subset!r}" if subset else "several subsets"
        raise InputError(f"{where}: {problem}: its {CARD} has {', '.join(by_name)}; set subset to one of them")
    entries = chosen["data_files"] if isinstance(chosen["data_files"], list) else [chosen["data_files"]]
    splits: dict[str, str | None] = {}
    for entry in entries:
        named = entry if isinstance(entry, dict) else {"split": "train", "path": entry}
        patterns = named.get("path")
        for pattern in patterns if isinstance(patterns, list) else [patterns]:
            splits |= {name: str(named.get("split", "train")) for name in names if fnmatch(name, str(pattern))}
    return splits


def _read_card(filesystem: Any, path: str, spec: str) -> Any:
    """The metadata at the beginning of a dataset's card; None if there are none."""
    with filesystem.open(path, "rb") as stream:
        text = stream.read(LARGEST_CARD).decode("utf-8", "replace")
    _, start, rest = text.partition("---\n")
    metadata, end, _ = rest.partition("\n---")
    return parse_yaml(metadata, f"source {spec}: {CARD}") if start and end and text.startswith("---") else None


def with_unique_names(files: Sequence[DataFile]) -> list[DataFile]:
    """``files``, where those of the same name are called by as many folders of their path as tell them apart."""
    unique = list(files)
    while any(file.name != longer.name for file, longer in zip(unique, _longer_names(unique), strict=True)):
        unique = _longer_names(unique)
    if twice := sorted({file.path for file in unique if [f.path for f in unique].count(file.path) > 1}):
        raise InputError(f"sources name {twice[0]} more than once, so its rows would count twice")
    return unique


def _longer_names(files: Sequence[DataFile]) -> list[DataFile]:
    """``files``, where those of the same name take one more folder of their path into it, if there is one."""
    names = Counter(file.name for file in files)

    def longer(file: DataFile) -> DataFile:
        parts = PurePosixPath(file.path).parts[-(len(PurePosixPath(file.name).parts) + 1) :]
        return replace(file, name=_printable("/".join(parts))) if names[file.name] > 1 else file

    return [longer(file) for file in files]


def _printable(name: str) -> str:
    """A file's name in ids, which are written as UTF-8."""
    return name.encode("utf-8", "replace").decode()
