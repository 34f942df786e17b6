"""Read the tables that the stages of an evaluation pass on: suites, samples, graded results."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.code_digest import identity
from core.errors import InputError
from core.files import digest_table
from core.model.prompts import METADATA_KEY
from core.parquet import read_table
from evaluation.benchmarks.suite import suite_entries

if TYPE_CHECKING:
    import pyarrow as pa

OPTIONAL = ("alternatives", "subject", "fields", "extracted", "reason")  # columns that may be missing or empty
ALWAYS_DIGESTED = ("benchmark", "id", "problem", "prompt", "gold", "grader", "subject")
NAME_IN_DIGEST = {"verifier": "grader"}  # the name of a column in the digests of recorded runs


def read_suite_file(path: Path) -> "pa.Table":
    """Return a BENCHMARK table with its metadata."""
    from core.schemas import BENCHMARK

    return _read(path, BENCHMARK, "luffy evaluate suite")


def problem_digests(suite: "pa.Table") -> dict[str, str]:
    """Digest the problems and the number of samples of each benchmark of a BENCHMARK table.

    Runs are comparable if these are equal, so a column that says nothing about any problem does not count.
    """
    import pyarrow.compute as pc

    digests = {}
    for benchmark in suite_entries(suite):
        problems = suite.filter(pc.field("benchmark") == benchmark.name)
        problems = problems.rename_columns([NAME_IN_DIGEST.get(name, name) for name in problems.column_names])
        said = [name for name in problems.column_names if problems[name].null_count < problems.num_rows]
        columns = [*ALWAYS_DIGESTED, *(name for name in said if name not in ALWAYS_DIGESTED)]
        digests[benchmark.name] = identity(digest_table(problems.select(columns)), benchmark.samples)
    return digests


def read_scores(files: Mapping[str, str]) -> "dict[str, pa.Table]":
    """Return the GRADED tables in ``files``, by benchmark."""
    from core.schemas import GRADED

    return {name: _read(Path(file), GRADED, "luffy evaluate grade") for name, file in files.items()}


def read_folder(folder: Path, kind: str) -> "dict[str, pa.Table]":
    """Read {benchmark: table} from the parquet files of ``folder``; ``kind`` is "samples" or "graded"."""
    from core.schemas import GRADED, SAMPLE

    schema, maker = {"samples": (SAMPLE, "generate"), "graded": (GRADED, "grade")}[kind]
    folder = Path(folder)
    if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
        raise InputError(f"{folder}: no right to read the folder; make it readable")
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise InputError(f"{folder}: no <benchmark>.parquet there; make them with luffy evaluate {maker}")
    tables = {file.stem: _read(file, schema, f"luffy evaluate {maker}") for file in files}
    if empty := [name for name, table in tables.items() if not table.num_rows]:
        raise InputError(f"{folder}: {', '.join(empty)}: no rows; make them again with luffy evaluate {maker}")
    return tables


def recorded(table: "pa.Table", key: str) -> str:
    """Return what the metadata of a table says of ``key``, such as "checkpoint" or "sampling"; "" if nothing."""
    return (table.schema.metadata or {}).get(key.encode(), b"").decode()


def checkpoint_of(tables: "Mapping[str, pa.Table]", what: str) -> str:
    """Return the digest of the one checkpoint that tables are of, "" where they name none; ``what`` begins an error."""
    checkpoints = {recorded(table, "checkpoint") for table in tables.values()}
    if len(checkpoints) > 1:
        names = ", ".join(sorted(digest[:16] or "not named" for digest in checkpoints))
        raise InputError(f"{what} are of different checkpoints ({names}); evaluate one of them")
    return checkpoints.pop()


def grading_record(table: "pa.Table") -> dict[str, Any]:
    """Return how `grading.graded_table.grade_table` graded a table: its metadata ``grading``; {} if it has none."""
    return json.loads(recorded(table, "grading") or "{}")


def _read(path: Path, schema: "pa.Schema", maker: str) -> "pa.Table":
    table = read_table(path, schema, f"expected a file of {maker}", optional=OPTIONAL)
    check_metadata(table, path, maker)
    return table


def check_metadata(table: "pa.Table", path: Path, maker: str) -> None:
    """Raise InputError if an entry that reports read of the metadata of ``path`` is not a JSON object."""
    for key in ("sampling", "grading", METADATA_KEY.decode()):
        try:
            fits = isinstance(json.loads(recorded(table, key) or "{}"), dict)
        except ValueError:
            fits = False
        if not fits:
            raise InputError(f"{path}: its metadata {key!r} is not a JSON object; expected a file of {maker}")
