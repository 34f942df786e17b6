"""Which code an identity covers, by package, and the digests that decide what is reused.

`POLICY_CODE`, `PREPARATION_CODE`, `GENERATION_CODE` and `GRADING_CODE` say it once each: a change to one of the files
they cover changes the identity, and a change anywhere else (a model card, an upload, a report) does not.
"""

import json
from pathlib import Path
from typing import Any

from core.files import digest_bytes, digest_file

PROJECT = Path(__file__).resolve().parents[1]
SHORT_DIGEST = 16  # characters of a digest in folder names and in front of people

GRADING_CODE = ("grading/grader.py", "grading/answers.py", "grading/equivalence.py", "grading/pool.py")
PREPARATION_CODE = (
    "targets",
    "core/arithmetic.py",
    "core/prompts.py",
    "core/schemas.py",
    "core/tokens.py",
    "grading/contamination.py",
    *GRADING_CODE,
)
GENERATION_CODE = ("evaluation/generation", "evaluation/benchmarks", "core/prompts.py", "core/prompts.yaml")
POLICY_CODE = (
    "training/algorithms",
    "training/mixed",
    "training/platforms",
    "training/config",
    "training/run",
    "core/prompts.py",
    *GRADING_CODE,
)


def code_digest(*paths: str) -> str:
    """sha256 over the files at ``paths``, modules and packages relative to the project."""
    files = sorted(file for path in paths for file in _files(PROJECT / path))
    return identity([f"{file.relative_to(PROJECT).as_posix()}\0{digest_file(file)}" for file in files])


def code_version(*paths: str) -> str:
    """`code_digest`, short enough for people."""
    return code_digest(*paths)[:SHORT_DIGEST]


def identity(*parts: Any) -> str:
    """sha256 over ``parts`` (JSON values): equal parts, equal identity."""
    return digest_bytes(json.dumps(parts, sort_keys=True, default=_plain).encode())


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = [file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    assert files, f"{path}: no code there"
    return files


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no place in an identity")
