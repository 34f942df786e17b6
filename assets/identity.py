"""Digests that decide versions and reuse: of code, of settings, of inputs."""

import json
from pathlib import Path
from typing import Any

from evaluation.files import digest_bytes, digest_file

PROJECT = Path(__file__).resolve().parents[1]
SHOWN = 16  # characters of a digest in folder names and in front of people


def code_version(*patterns: str) -> str:
    """Digest of the project's files that match ``patterns`` (globs below the project)."""
    files = sorted({file for pattern in patterns for file in PROJECT.glob(pattern)})
    assert files, f"no file matches {patterns}"
    lines = [f"{file.relative_to(PROJECT).as_posix()}\0{digest_file(file)}" for file in files]
    return identity(lines)[:SHOWN]


def identity(*parts: Any) -> str:
    """sha256 over ``parts`` (JSON values): equal parts, equal identity."""
    return digest_bytes(json.dumps(parts, sort_keys=True, default=_plain).encode())


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no place in an identity")
