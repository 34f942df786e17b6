"""Find the data files of a path, folder or glob in any filesystem of fsspec: local, ``s3://``, ``gs://``, …

A folder may be a clone of a hub dataset, or what ``Dataset.save_to_disk`` writes: then its metadata are no data, and
only the files of the split that the settings name are read. Which these are, the names of the files say; where the card
of the dataset gives files to subsets and splits, `datasets` reads it, as it does on the hub.
"""

import logging
import os
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from core.errors import InputError, first_line
from core.text.patterns import compile_quick_pattern

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
TABLE_SUFFIXES = {".csv": ",", ".tsv": "\t"}  # with their delimiters
COMPRESSIONS = ("", ".gz", ".bz2", ".zst")
DATA_SUFFIXES = (".parquet", ".arrow", *(suffix + more for suffix in JSON_SUFFIXES for more in COMPRESSIONS))
SUFFIXES = (*DATA_SUFFIXES, *(suffix + more for suffix in TABLE_SUFFIXES for more in COMPRESSIONS))
CARD = "README.md"
LARGEST_CARD = 1 << 20  # bytes that are read of it
NAMED_FILES = 10  # in a message, and as many splits
# Words that name a split in the names of files and folders, as the hub reads them: between separators.
SPLITS = {"train": "train", "training": "train", "validation": "validation", "valid": "validation", "val": "validation"}
SPLITS |= {"dev": "validation", "test": "test", "testing": "test", "eval": "test", "evaluation": "test"}
SHARD = compile_quick_pattern(r"(\d{5,6})-of-(\d{5,6})")  # train-00000-of-00002.parquet
METADATA_FILES = frozenset({"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"})
LONGEST_PROBLEM = 200  # characters of what `datasets` says of a card
SEPARATORS = str.maketrans(dict.fromkeys("-._0123456789", " "))


@dataclass(frozen=True)
class DataFile:
    """One file of a source; ``name``, which is the same on every machine, names its rows."""

    filesystem: Any  # fsspec.AbstractFileSystem
    path: str
    name: str

    @property
    def suffix(self) -> str:
        """The last part of its name that says what it holds, in small letters, without a compression's ending."""
        path = PurePosixPath(self.path.lower())
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
    from fsspec.implementations.local import LocalFileSystem

    if "\0" in spec:
        raise InputError(f"source {spec!r}: the path holds a NUL character")
    where = f"source {spec}"
    try:
        filesystem, path = _storage(spec)
        is_local = isinstance(filesystem, LocalFileSystem)
        if filesystem.isfile(path):
            return [DataFile(filesystem, path, _printable(PurePosixPath(path).name))]
        is_folder = filesystem.isdir(path)
        if is_folder:
            entries, root = filesystem.find(path), path
        elif any(character in spec for character in "*?["):
            entries = [entry for entry in filesystem.glob(path) if not filesystem.isdir(entry)]
            fixed = path[: min(path.find(c) for c in "*?[" if c in path)]
            root = fixed.rpartition("/")[0]
        elif is_local:
            raise InputError(f"{where}: {_why_no_file(path)}")
        else:
            raise InputError(f"{where}: no such file or folder, or the storage does not answer")
        if is_local:
            _check_rights(root or "/", ["**"] if is_folder else path[len(root) :].lstrip("/").split("/"))
        card = _read_card(filesystem, f"{path}/{CARD}", where) if is_folder and f"{path}/{CARD}" in entries else None
    except InputError:
        raise
    except Exception as error:
        if "://" not in spec and not isinstance(error, OSError | ValueError):
            raise
        if isinstance(error, PermissionError) and error.filename:
            raise InputError(f"{where}: no right to read {error.filename}; make it readable") from error
        # The driver of a storage raises errors of its own library.
        raise InputError(f"{where}: cannot be reached: {first_line(error)}") from error
    paths = {entry[len(root) :].lstrip("/"): entry for entry in sorted(entries)}
    visible = [name for name in paths if not _is_metadata(name)]
    names = [name for name in visible if name.lower().endswith(SUFFIXES)]
    if not names:
        raise InputError(f"{where}: no data file there; expected names ending in {', '.join(SUFFIXES)}")
    data = _rows_before_tables(names) if is_folder else names
    chosen = _of_split(names, split, subset, card, where) if is_folder and split is not None else data
    if split is not None:  # the files are to be read, and not only listed
        _warn_of_unread(sorted({*visible} - {*data, *chosen}), where)
    files = [DataFile(filesystem, paths[name], _printable(name)) for name in chosen]
    for file in files if is_local else []:
        if not os.path.isfile(file.path):
            raise InputError(f"source {file.address}: {_why_no_file(file.path)}")
    return files


def _storage(spec: str) -> tuple[Any, str]:
    """The filesystem of a source and its path there; ``::`` may be part of a file's name, or chain filesystems."""
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    if "::" in spec and os.path.exists(spec):
        return LocalFileSystem(), os.path.abspath(spec)
    return fsspec.core.url_to_fs(spec)


def _why_no_file(path: str) -> str:
    try:
        os.stat(path)
    except PermissionError:
        return f"no right to read {path}; make it readable"
    except OSError:
        broken = "a link to a file that is not there; get the file or remove the link"
        return broken if os.path.islink(path) else "no such file or folder"
    return "neither a regular file nor a folder; write what it gives to a file"


def _check_rights(root: str, pattern: Sequence[str]) -> None:
    """Raise PermissionError for a folder below ``root`` that a glob leads into but may not be read.

    A search leaves such a folder out. One that has gone meanwhile has no files.
    """

    def on_error(error: OSError) -> None:
        if isinstance(error, PermissionError):
            raise error

    for folder, folders, _ in os.walk(root, onerror=on_error):
        depth = 0 if folder == root else folder[len(root) :].strip("/").count("/") + 1
        if "**" not in pattern[: depth + 1]:
            leads_on = depth + 1 < len(pattern)
            folders[:] = [name for name in folders if leads_on and fnmatch(name, pattern[depth])]


def _is_metadata(name: str) -> bool:
    """Whether a file is hidden, or says something of a dataset instead of holding it."""
    if any(part.startswith(".") for part in name.split("/")):
        return True
    file = PurePosixPath(name).name
    # `datasets` caches what it computes of a saved dataset next to it.
    return file in METADATA_FILES or file == CARD or (file.startswith("cache-") and file.endswith(".arrow"))


def _rows_before_tables(names: Sequence[str]) -> list[str]:
    """Those of the data files that hold rows; tables as text only where nothing else is there."""
    return [name for name in names if name.lower().endswith(DATA_SUFFIXES)] or list(names)


def _warn_of_unread(names: Sequence[str], where: str) -> None:
    if names:
        listed = ", ".join(names[:NAMED_FILES]) + (f" and {len(names) - NAMED_FILES} more" * (len(names) > NAMED_FILES))
        logging.getLogger(__name__).warning("%s: not read: %s; to read such a file, name it as a source", where, listed)


def _of_split(names: Sequence[str], split: str, subset: str | None, card: str | None, where: str) -> list[str]:
    """The files of a split: by the card of the dataset, or by their names; all of them if nothing names splits."""
    complete = [*names, *_missing_shards(names)]
    if card is not None:
        by_split = _splits_of_card(complete, subset, card, where)
    elif subset:
        raise InputError(
            f"{where}: no subset {subset!r}: no {CARD} there names subsets under configs; give the folder of the "
            "subset, or set subset only for the sources that have it"
        )
    else:
        by_split = _splits_of_names(_rows_before_tables(complete), where)
    chosen = by_split.get(split) or by_split.get(SPLITS.get(split, split)) or by_split.get(None)
    if not chosen:
        listed = ", ".join(sorted(name for name in by_split if name)[:NAMED_FILES])
        raise InputError(f"{where}: no file of the split {split!r}: it has {listed}; set split to one of them")
    if missing := sorted({*chosen} - {*names}):
        raise InputError(
            f"{where}: {missing[0]} is missing, and others of these files are there; get it, or give a glob of the "
            "files to read"
        )
    return sorted(chosen)


def _missing_shards(names: Sequence[str]) -> list[str]:
    """The files ``X-00000-of-00003`` that are not among ``names``, which have others of them."""
    present = defaultdict[tuple[str, ...], set[int]](set)
    for name in names:
        if shard := SHARD.search(name, name.rfind("/") + 1):
            present[name[: shard.start()], shard[2], name[shard.end() :]].add(int(shard[1]))
    return [
        f"{prefix}{number:0{len(of)}}-of-{of}{ending}"
        for (prefix, of, ending), numbers in present.items()
        for first in [0 if 0 in numbers or int(of) not in numbers else 1]
        for number in range(first, first + int(of))
        if number not in numbers
    ]


def _splits_of_names(names: Sequence[str], where: str) -> dict[str | None, list[str]]:
    """{split: its files}; files without a split are of ``train``, or of the split None if no file has one."""
    splits = {name: _split_of_name(name, where) for name in names}
    otherwise = "train" if any(splits.values()) else None
    by_split = defaultdict[str | None, list[str]](list)
    for name, split in splits.items():
        by_split[split or otherwise].append(name)
    return by_split


def _read_card(filesystem: Any, path: str, where: str) -> str | None:
    """The text of a dataset's card; None if it does not say which files are of which subset and split."""
    with filesystem.open(path, "rb") as stream:
        text = stream.read(LARGEST_CARD).decode("utf-8-sig", "replace")
    first, *rest = [line.rstrip() for line in text.lstrip().split("\n")]
    if first != "---":
        return None
    if "---" not in rest:
        raise InputError(f"{where}: {CARD}: no line '---' ends the metadata that its first line begins; add it")
    return text if any(line.startswith("configs:") for line in rest[: rest.index("---")]) else None


def _splits_of_card(names: Sequence[str], subset: str | None, card: str, where: str) -> dict[str | None, list[str]]:
    """{split: its files} of a subset, as `datasets` resolves ``card`` in a folder with empty files of these names."""
    import datasets
    import yaml

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch()
        (root / CARD).write_text(card, encoding="utf-8")
        try:
            builder = datasets.load_dataset_builder(str(root), subset, cache_dir=str(root / ".cache"))
            splits = (builder.config.data_files or {}).items()
            by_split = {str(split): [str(Path(file).relative_to(root)) for file in files] for split, files in splits}
        except (ValueError, TypeError, AttributeError, OSError, yaml.YAMLError) as error:
            what = " ".join(str(error).replace(f"{root}/", "").replace(folder, "the folder").split())[:LONGEST_PROBLEM]
            raise InputError(
                f"{where}: {CARD}: {what}; set subset to one that it has, correct it, or give a glob of the files"
            ) from error
    return {split: [file for file in files if file in names] for split, files in by_split.items()}


def _split_of_name(name: str, where: str) -> str | None:
    """The split that a file's name, or else the nearest of its folders, is called after; None if none is.

    Of the files ``data/X-00000-of-00002.parquet`` X is the split whatever it is called.

    >>> [_split_of_name(name, "") for name in ("my_test1.csv", "2024-dev/a.csv", "a.csv", "data/x-00000-of-00002.csv")]
    ['test', 'validation', None, 'x']
    """
    *folders, file = name.split("/")
    shard = SHARD.search(file)
    prefix = file[: shard.start()].rstrip("-_.") if shard and folders[-1:] == ["data"] else ""
    if prefix and prefix != "data":
        return SPLITS.get(prefix, prefix)
    for part in (file, *reversed(folders)):
        splits = sorted({SPLITS[word] for word in part.lower().translate(SEPARATORS).split() if word in SPLITS})
        if len(splits) > 1:
            raise InputError(
                f"{where}: {part!r} names the splits {' and '.join(splits)}; rename it, or give a glob of what to read"
            )
        if splits:
            return splits[0]
    return None


def with_unique_names(files: Sequence[DataFile]) -> list[DataFile]:
    """``files``, where files of the same name are called by as many folders of their path as tell them apart."""
    unique = list(files)
    while (longer := _longer_names(unique)) != unique:
        unique = longer
    paths = Counter(file.path for file in unique)
    if twice := sorted(path for path, count in paths.items() if count > 1):
        raise InputError(f"sources name {twice[0]} more than once, so its rows would count twice")
    names = Counter(file.name for file in unique)
    if same := [file.path for file in unique if names[file.name] > 1]:
        raise InputError(
            f"sources {_printable(same[0])} and {same[1]!r} are called the same in ids; rename one of them"
        )
    return unique


def _longer_names(files: Sequence[DataFile]) -> list[DataFile]:
    """``files``, where files of the same name take one more folder of their path into it, if there is one."""
    names = Counter(file.name for file in files)

    def longer(file: DataFile) -> DataFile:
        parts = PurePosixPath(file.path).parts[-(len(PurePosixPath(file.name).parts) + 1) :]
        return replace(file, name=_printable("/".join(parts))) if names[file.name] > 1 else file

    return [longer(file) for file in files]


def _printable(name: str) -> str:
    """A file's name in ids, which are written as UTF-8; other bytes are told apart by their escapes."""
    return name.encode("utf-8", "backslashreplace").decode()
