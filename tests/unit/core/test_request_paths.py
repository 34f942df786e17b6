"""A command learns before its work whether it can write its output, and whether its folders are there."""

from pathlib import Path

import pytest
from processes import without_rights

from core.errors import InputError
from core.machine.request_paths import existing_folder, writable_file, writable_folder


def test_what_can_be_written_is_accepted_and_nothing_is_created(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("")
    for check in (writable_file, writable_folder):
        assert check(tmp_path / "a" / "b") == tmp_path / "a" / "b"
        assert check(Path("b")) == Path("b")
    assert writable_file(tmp_path / "there") and writable_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_file_in_the_place_of_a_folder_and_a_folder_in_that_of_a_file(tmp_path: Path) -> None:
    file, nowhere = tmp_path / "file", tmp_path / "nowhere"
    file.write_text("")
    nowhere.symlink_to(tmp_path / "gone")
    for check, path, message in (
        (writable_file, tmp_path, "is a folder; expected the name of a file"),
        (writable_file, file / "x", f"{file} is a file; expected a folder"),
        (writable_folder, file, "is a file; expected a folder: give another path"),
        (writable_folder, file / "x" / "y", f"{file} is a file; expected a folder"),
        (writable_folder, nowhere, "expected a folder"),
    ):
        with pytest.raises(InputError, match=f"^{path}.*{message}"):
            check(path)


def test_a_folder_without_rights() -> None:
    with without_rights(0o500) as folder:
        for path, check in (
            (folder / "x", writable_file),
            (folder, writable_folder),
            (folder / "x/y", writable_folder),
        ):
            with pytest.raises(InputError, match=f"{path}: no right to write into the folder {folder}"):
                check(path)
    with (
        without_rights(0o000) as folder,
        pytest.raises(InputError, match=f"no right to write into the folder {folder}"),
    ):
        writable_file(folder / "a" / "b")


def test_a_folder_is_there_or_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert existing_folder(Path("~/data")) == existing_folder(tmp_path / "data") == tmp_path / "data"
    with pytest.raises(InputError, match=r"file is a file; expected a folder: give the folder that it is in$"):
        existing_folder(tmp_path / "file")
    with pytest.raises(InputError, match=r"nothing: no such folder; give an existing folder$"):
        existing_folder(tmp_path / "nothing")
