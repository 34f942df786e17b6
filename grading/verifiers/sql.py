"""A query: right if SQLite returns the rows of the gold query for it, in a worker process that can only read."""

from collections.abc import Mapping
from pathlib import Path
from string import Formatter
from typing import Any

from pydantic import ValidationInfo, field_validator

from core.files import digest_file
from grading.isolation.sql_scorer import GOLD
from grading.verdict import Grade, Verdict
from grading.verifiers.python import FunctionOptions, FunctionVerifier
from grading.verifiers.verifier import Resources

SCORER = "grading.isolation.sql_scorer:score"


class SqlOptions(FunctionOptions):
    """``database``: a SQLite file or a ``.sql`` script; ``dbs/{NAME}.sqlite`` has the field NAME of the row in it.

    ``ordered``: the order of the rows counts, too.
    """

    answer: str = "code_block"
    database: str
    ordered: bool = False

    @field_validator("database")
    @classmethod
    def _exists(cls, path: str, info: ValidationInfo) -> str:
        path = str((info.context or {}).get("folder", Path.cwd()) / path)
        if not files_of(path):
            raise ValueError(f"{path}: no such file; expected a SQLite file or a script that ends in .sql")
        return path


class SqlVerifier(FunctionVerifier):
    """Column names do not count; the number of columns and their order do."""

    Options = SqlOptions

    def __init__(self, options: SqlOptions, resources: Resources) -> None:
        super().__init__(options, resources, SCORER, {"database": options.database, "ordered": options.ordered})

    @classmethod
    def identity(cls, options: Mapping[str, Any]) -> Any:
        """Replace the path by the digests of the databases."""
        files = files_of(options["database"])
        return {**options, "database": {file.name: digest_file(file) for file in files}}

    @classmethod
    def requires_fields(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return field_names(options["database"])

    def grade_answer(self, answer: str, gold: str, fields: Mapping[str, Any]) -> Grade:
        grade = super().grade_answer(answer, gold, fields)
        if grade.verdict is not Verdict.ERROR or GOLD not in grade.reason:
            return grade
        return Grade(Verdict.GOLD_UNPARSED, answer, grade.reason.partition(GOLD)[2])

    def gold_problem(self, gold: str, fields: Mapping[str, Any] | None = None) -> str | None:
        grade = self.grade_answer(gold, gold, fields or {})
        return None if grade.solved else grade.reason


def field_names(path: str) -> tuple[str, ...]:
    """Return the fields of a row that a path names."""
    return tuple(name for _, name, _, _ in Formatter().parse(path) if name)


def files_of(path: str) -> list[Path]:
    """Return the databases that a path can stand for."""
    pattern = path.format_map(dict.fromkeys(field_names(path), "*"))
    return sorted(file for file in Path(pattern).parent.glob(Path(pattern).name) if file.is_file())
