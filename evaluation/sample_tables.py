"""Read the tables that the stages of an evaluation pass on: suites, samples, graded results."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.code_digest import identity
from core.errors import InputError
from core.files import digest_table
from core.model.endpoints import endpoint_of
from core.model.prompts import METADATA_KEY
from core.parquet import read_table
from evaluation.benchmarks.suite import suite_entries
from grading.graded_table import digest_problems, problems_of
from grading.verdict import Verdict

if TYPE_CHECKING:
    import pyarrow as pa

GRADE = "luffy evaluate grade"
VERDICTS = tuple(map(str, Verdict))
SCORING = (Verdict.CORRECT, Verdict.PARTIAL)  # verdicts whose scores are above 0
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
    return {name: read_graded(Path(file)) for name, file in files.items()}


def read_graded(path: Path) -> "pa.Table":
    """Return a GRADED table of one benchmark; InputError if it is damaged or its scores cannot be counted."""
    from core.schemas import GRADED

    table = _read(path, GRADED, GRADE)
    _check_scores(table, path)
    return table


def read_folder(folder: Path, kind: str) -> "dict[str, pa.Table]":
    """Read {benchmark: table} from the parquet files of ``folder``; ``kind`` is "samples" or "graded"."""
    from core.schemas import SAMPLE

    maker = {"samples": "luffy evaluate generate", "graded": GRADE}[kind]
    folder = Path(folder)
    if folder.is_file():
        raise InputError(f"{folder} is a file; expected the folder that {maker} wrote")
    if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
        raise InputError(f"{folder}: no right to read the folder; make it readable")
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise InputError(f"{folder}: no <benchmark>.parquet there; make them with {maker}")
    tables = {file.stem: read_graded(file) if kind == "graded" else _read(file, SAMPLE, maker) for file in files}
    if empty := [name for name, table in tables.items() if not table.num_rows]:
        raise InputError(f"{folder}: {', '.join(empty)}: no rows; make them again with {maker}")
    for name, table in tables.items():
        if (names := table["benchmark"].unique().to_pylist()) != [name]:
            raise InputError(
                f"{folder / name}.parquet: rows of {', '.join(names):.200}; expected {name} alone: rename the "
                f"file to its benchmark's name, or make it again with {maker}"
            )
    return tables


def require_suite(results: "Mapping[str, pa.Table]", suite: "pa.Table", what: str) -> None:
    """Raise InputError, which begins with ``what``, if GRADED tables have other problems or answers than ``suite``."""
    for name, table in results.items():
        try:
            problems = problems_of(table, suite)
        except InputError as error:
            raise InputError(f"{what}: {error}") from None
        if grading_record(table).get("problems", digest := digest_problems(problems)) != digest:
            raise InputError(
                f"{what}: {name}: graded with other problems or gold answers than the suite has: give the suite "
                "that graded them, or grade the samples again"
            )


def recorded(table: "pa.Table", key: str) -> str:
    """Return what the metadata of a table says of ``key``, such as "checkpoint" or "sampling"; "" if nothing."""
    return (table.schema.metadata or {}).get(key.encode(), b"").decode()


def model_name(model: str) -> str:
    """Return the end of the path of a model, or the name of an endpoint's model.

    >>> model_name("/data/models/mine/policy"), model_name("Qwen/Qwen3-8B@http://localhost:8000/v1")
    ('models/mine/policy', 'Qwen/Qwen3-8B')
    """
    endpoint = endpoint_of(model)
    return endpoint[0] if endpoint else "/".join(Path(model).parts[-3:])


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
    from core.schemas import TURNS

    optional = (*OPTIONAL, TURNS.name)
    table = read_table(path, schema.append(TURNS), f"expected a file of {maker}", optional=optional)
    if table[TURNS.name].null_count == table.num_rows:
        table = table.drop_columns(TURNS.name)
    _check_metadata(table, path, maker)
    return table


def _check_scores(table: "pa.Table", path: Path) -> None:
    """Raise InputError if a GRADED table has a score outside of [0, 1], an unknown verdict, or a sample twice."""
    seen: set[tuple[str, int]] = set()
    columns = (table[name].to_pylist() for name in ("id", "sample", "verdict", "score"))
    for number, (key, sample, verdict, score) in enumerate(zip(*columns, strict=True)):
        wrong = ""
        if not 0 <= score <= 1:  # as for NaN
            wrong = f"the score is {score}, expected a number from 0 to 1"
        elif verdict not in VERDICTS:
            wrong = f"the verdict is {verdict!r:.80}, expected one of {', '.join(VERDICTS)}"
        elif (score > 0) != (verdict in SCORING):
            wrong = f"the verdict is {verdict}, and the score {score:g} contradicts it"
        elif (key, sample) in seen:
            wrong = f"sample {sample} of problem {key:.80} is there twice"
        if wrong:
            raise InputError(f"{path}: row {number}: {wrong}; grade the samples again with {GRADE}")
        seen.add((key, sample))


def _check_metadata(table: "pa.Table", path: Path, maker: str) -> None:
    """Raise InputError if an entry that reports read of the metadata of ``path`` is not a JSON object."""
    for key in ("sampling", "grading", METADATA_KEY.decode()):
        try:
            fits = isinstance(json.loads(recorded(table, key) or "{}"), dict)
        except ValueError:
            fits = False
        if not fits:
            raise InputError(f"{path}: its metadata {key!r} is not a JSON object; expected a file of {maker}")
