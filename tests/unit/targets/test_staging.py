"""Outputs in several files take the place of earlier ones in full, or are seen to be incomplete."""

from pathlib import Path

import pytest

from core.errors import InputError
from core.parquet import is_there, shard_path, shards
from targets import files as module
from targets.files import staging

NAMES = ("rejected.parquet", "prepared.parquet")


def write(folder: Path, text: str, files: int) -> None:
    with staging(folder, NAMES) as temporary:
        for name in NAMES:
            for number in range(files):
                shard_path(temporary / name, number, files).write_text(text)


def complete(table: Path) -> bool:
    try:
        return is_there(table)
    except InputError:
        return False


@pytest.mark.parametrize(("earlier", "files"), [(3, 3), (3, 1), (1, 3), (3, 2)])
def test_a_kill_on_the_way_leaves_no_mix(tmp_path: Path, monkeypatch, earlier: int, files: int) -> None:
    for kill in range(2 * files):
        folder, moved = tmp_path / str(kill), []
        write(folder, "earlier", earlier)

        def publish(*paths: Path, kill=kill, moved=moved, real=module.publish) -> None:
            if len(moved) == kill:
                raise KeyboardInterrupt
            moved.append(real(*paths))

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(module, "publish", publish)
            write(folder, "later", files)
        assert not complete(folder / NAMES[-1])
        write(folder, "later", files)
        for name in NAMES:
            assert [file.read_text() for file in shards(folder / name)] == ["later"] * files
