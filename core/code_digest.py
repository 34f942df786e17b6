"""Digests of settings, which identify results, and of code, which says what made them."""

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from core import PROJECT
from core.files import digest_bytes, digest_file

SHORT_DIGEST = 16  # characters of a digest in folder names and in front of people


def code_digest(*paths: str) -> str:
    """sha256 over the files at ``paths``, which are modules and packages of the project."""
    files = sorted({file for path in paths for file in _files(f"{PROJECT}/", path)})
    return identity([f"{file}\0{_digest(f'{PROJECT}/{file}', modified_ns)}" for file, modified_ns in files])


def code_version(*paths: str) -> str:
    """`code_digest`, short enough for people."""
    return code_digest(*paths)[:SHORT_DIGEST]


def identity(*parts: Any) -> str:
    """sha256 over ``parts`` (JSON values): equal parts, equal identity."""
    return digest_bytes(json.dumps(parts, sort_keys=True, default=_plain).encode())


def _files(root: str, path: str) -> Iterator[tuple[str, int]]:
    """Yield the files at ``path`` below ``root`` and when they were modified; a load of the definitions asks for 2,000.

    Raises:
        FileNotFoundError: there is nothing at ``path``.
    """
    if not os.path.isdir(root + path):
        yield path, os.stat(root + path).st_mtime_ns
        return
    with os.scandir(root + path) as entries:
        for entry in entries:
            if entry.is_file():
                yield f"{path}/{entry.name}", entry.stat().st_mtime_ns
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(root, f"{path}/{entry.name}")


@cache
def _digest(file: str, modified_ns: int) -> str:
    """The digest of ``file`` as of ``modified_ns``; several packages contain the same file."""
    return digest_file(Path(file))


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a {type(value).__name__} cannot be part of an identity")
