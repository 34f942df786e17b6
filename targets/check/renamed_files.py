"""Names under which the files of two versions are compared, where a file or a source block has another name."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Named:
    """The name under which each file and each source block of a version is compared."""

    files: Mapping[str, str]
    blocks: Mapping[str, str]


def common_names(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[Named, Named]:
    """The names of the files and blocks of two versions; what has one name is compared.

    A file of both versions is compared by itself. The files of a source block that only one version has are one, under
    the name of the block, if the other version has such files too. A block that is gone is compared with the new one
    at its place among the blocks that only one version has, or all of these together if their numbers differ.

    >>> old, new = common_names({"a.csv": "a", "b.csv": "b"}, {"a.csv": "a", "b-2.csv": "b-2"})
    >>> old.files, new.blocks
    ({'a.csv': 'a.csv', 'b.csv': 'b-2 (b before)'}, {'a': 'a', 'b-2': 'b-2 (b before)'})

    Args:
        before: the source block of each file, in the order of the settings.
        now: the same of the version that is compared with it.
    """
    blocks = _common_blocks([*dict.fromkeys(before.values())], [*dict.fromkeys(now.values())])
    alone = [
        {file: names[block] for file, block in files.items() if file not in others}
        for files, others, names in zip((before, now), (now, before), blocks, strict=True)
    ]
    renamed = {*alone[0].values()} & {*alone[1].values()}
    old, new = (
        Named({file: name if (name := single.get(file)) in renamed else file for file in files}, names)
        for files, single, names in zip((before, now), alone, blocks, strict=True)
    )
    return old, new


def _common_blocks(before: list[str], now: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    gone = [name for name in before if name not in now]
    new = [name for name in now if name not in before]
    if gone and new and len(gone) != len(new):
        joined = f"{', '.join(new)} ({', '.join(gone)} before)"
        names = dict.fromkeys(gone, joined), dict.fromkeys(new, joined)
    else:
        pairs = [(old, now_, f"{now_} ({old} before)") for old, now_ in zip(gone, new, strict=False)]
        names = {old: name for old, _, name in pairs}, {now_: name for _, now_, name in pairs}
    return {name: names[0].get(name, name) for name in before}, {name: names[1].get(name, name) for name in now}
