"""The paths of a request: what cannot be written, or is not there, is refused before anything is computed."""

import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from core.errors import InputError


def writable_file(path: Path) -> Path:
    """Return ``path``; InputError if no file can be written there, whether or not there is one."""
    if os.path.isdir(path):  # unlike `Path.is_dir`, false where a folder may not be looked into
        raise InputError(f"{path} is a folder; expected the name of a file: give one inside it")
    _check_folder(path.parent, path)
    return path


def writable_folder(path: Path) -> Path:
    """Return ``path``; InputError if no files can be written into such a folder, whether or not there is one."""
    _check_folder(path, path)
    return path


def check_output(out: Path, *others: Path | None) -> None:
    """Raise InputError if ``out`` is another path of the command, or a parquet file in a folder that it reads."""
    for path in filter(None, others):
        if out.resolve() == path.resolve():
            raise InputError(
                f"{out}: the command would overwrite this file, which it also reads or writes; give another path"
            )
        if out.suffix == ".parquet" and path.is_dir() and path.resolve() in out.resolve().parents:
            raise InputError(
                f"{out}: is in the folder {path}, and the command reads its parquet files; give another path"
            )


def existing_folder(path: Path) -> Path:
    """Return ``path`` with its ``~`` expanded; InputError if there is no such folder."""
    if os.path.isfile(folder := path.expanduser()):
        raise InputError(f"{path} is a file; expected a folder: give the folder that it is in")
    if not os.path.isdir(folder):
        raise InputError(f"{path}: no such folder; give an existing folder")
    return folder


def _check_folder(folder: Path, path: Path) -> None:
    """Raise InputError, which begins with ``path``, if ``folder`` is none and cannot be created, or is read-only."""
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    if not os.path.isdir(folder):
        what = path if folder == path else f"{path}: {folder}"
        raise InputError(f"{what} is a file; expected a folder: give another path")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{path}: no right to write into the folder {folder}; give another path, or make it writable")


OutputFile = Annotated[Path, AfterValidator(writable_file)]
OutputFolder = Annotated[Path, AfterValidator(writable_folder)]
InputFolder = Annotated[Path, AfterValidator(existing_folder)]
