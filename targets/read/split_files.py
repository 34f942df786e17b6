"""Choose the files of a split: what the card of a hub dataset says of subsets, splits and files."""

import posixpath
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from core.errors import InputError, first_line
from core.text.parse import parse_yaml
from core.text.patterns import compile_quick_pattern, compile_user_pattern

CARD = "README.md"
LARGEST_CARD = 1 << 20  # bytes that are read of it
# Words that name a split in the names of files and folders, as the hub reads them: between separators.
SPLITS = {"train": "train", "training": "train", "validation": "validation", "valid": "validation", "val": "validation"}
SPLITS |= {"dev": "validation", "test": "test", "testing": "test", "eval": "test", "evaluation": "test"}
SHARD = compile_quick_pattern(r"(\d{5,6})-of-(\d{5,6})")  # train-00000-of-00002.parquet
NAMED_FILES = 10  # in a message, and as many splits


def config_of_card(card: Any, subset: str | None, where: str) -> dict[str, Any]:
    """What the card says of a subset; empty if it names no subsets."""
    configs = card.get("configs") if isinstance(card, dict) else None
    if not configs:
        if subset:
            raise InputError(
                f"{where}: no subset {subset!r}: no {CARD} there names subsets under configs; give the folder of the "
                "subset, or set subset only for the sources that have it"
            )
        return {}
    if not isinstance(configs, list) or not all(isinstance(config, dict) for config in configs):
        raise InputError(f"{where}: {CARD}: configs: expected a list of subsets with config_name and data_files")
    by_name = {str(config.get("config_name", "default")): config for config in configs}
    default = next((name for name, config in by_name.items() if config.get("default")), "default")
    chosen = by_name.get(subset or default) or (configs[0] if len(by_name) == 1 and not subset else None)
    if chosen is None:
        problem = f"no subset {subset!r}" if subset else "several subsets"
        raise InputError(f"{where}: {problem}: its {CARD} has {', '.join(by_name)}; set subset to one of them")
    if len(by_name) > 1 and not (chosen.get("data_files") or chosen.get("data_dir")):
        raise InputError(
            f"{where}: its {CARD} does not say which files are of the subset {chosen.get('config_name')!r}; add its "
            "data_files, or give a glob of the files to read"
        )
    return chosen


def _patterns_of_card(config: dict[str, Any], folder: str, where: str) -> dict[str, list[str]]:
    """{split: patterns of its files} of a subset."""
    patterns = defaultdict[str, list[str]](list)
    for entry in _listed(config["data_files"]):
        named = entry if isinstance(entry, dict) else {"split": "train", "path": entry}
        for path in _listed(named.get("path")):
            if not isinstance(path, str):
                raise InputError(
                    f"{where}: {CARD}: data_files: got {entry!s:.80}; expected a path, or split and path of each"
                )
            patterns[str(named.get("split", "train"))].append(posixpath.normpath(posixpath.join(folder, path)))
    return patterns


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def files_by_card(names: Sequence[str], split: str, config: dict[str, Any], folder: str, where: str) -> list[str]:
    """Those of ``names`` that the ``data_files`` of a subset, below ``folder``, give a split."""
    patterns = _patterns_of_card(config, folder, where)
    of_split = patterns.get(split) or patterns.get(SPLITS.get(split, split))
    if not of_split:
        raise no_split(split, list(patterns), where)
    matches = [_glob_matcher(pattern, where) for pattern in of_split]
    for pattern, match in zip(of_split, matches, strict=True):
        if not any(map(match, names)):
            raise InputError(
                f"{where}: its {CARD} gives the split {split!r} the files {pattern!r}, and no data file is called so; "
                "get them, or give a glob of the files to read"
            )

    def belongs(name: str) -> bool:
        return any(match(name) for match in matches)

    chosen = [name for name in names if belongs(name)]
    check_shards(chosen, belongs, where)
    return chosen


def _glob_matcher(pattern: str, where: str) -> Callable[[str], Any]:
    from fsspec.utils import glob_translate

    try:
        return compile_user_pattern(glob_translate(pattern).removesuffix(r"\Z")).fullmatch
    except ValueError as error:
        raise InputError(f"{where}: {CARD}: data_files: {pattern!r}: {first_line(error)}") from None


def read_card(filesystem: Any, path: str, where: str) -> Any:
    """The metadata at the beginning of a dataset's card; None if there are none."""
    with filesystem.open(path, "rb") as stream:
        text = stream.read(LARGEST_CARD).decode("utf-8-sig", "replace")
    first, *rest = [line.rstrip() for line in text.lstrip().split("\n")]
    if first != "---":
        return None
    if "---" not in rest:
        raise InputError(f"{where}: {CARD}: no line '---' ends the metadata that its first line begins; add it")
    return parse_yaml("\n".join(rest[: rest.index("---")]), f"{where}: {CARD}")


def no_split(split: str, present: Sequence[str], where: str) -> InputError:
    listed = ", ".join(sorted(present)[:NAMED_FILES])
    return InputError(f"{where}: no file of the split {split!r}: it has {listed}; set split to one of them")


def check_shards(names: Sequence[str], belongs: Callable[[str], bool], where: str) -> None:
    """Raise InputError if one of the files ``X-00000-of-00003`` is missing that ``belongs`` to the files to read."""
    present = defaultdict[tuple[str, str], dict[int, str]](dict)
    for name in names:
        if shard := SHARD.search(name, name.rfind("/") + 1):
            present[name[: shard.start()], shard[2]][int(shard[1])] = name
    for (prefix, of), shards in present.items():
        first = 0 if 0 in shards or int(of) not in shards else 1
        example = next(iter(shards.values()))
        shard = SHARD.search(example, len(prefix))
        assert shard
        for number in range(first, first + int(of)):
            missing = f"{prefix}{number:0{len(shard[1])}}-of-{of}{example[shard.end() :]}"
            if number not in shards and belongs(missing):
                raise InputError(
                    f"{where}: {missing} is missing: {len(shards)} of {int(of)} such files are there; get the others, "
                    "or give a glob of the files to read"
                )
