"""The user's own function, ``file.py:function`` or ``package.module:function``, with the signature that verl calls.

It runs in worker processes with limits on time and memory. Whatever it does there ends with the call, and is at worst
an error of one sample.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, JsonValue, ValidationInfo, field_validator

from core.errors import InputError
from core.plugins.user_code import ARGUMENTS, function_file, function_name, function_path, source_digests
from grading.answers.extraction import RESPONSE
from grading.pool import NotStarted, WorkerPool
from grading.row_fields import DATA_SOURCE
from grading.verdict import Grade, Verdict
from grading.verifiers.verifier import Resources, ScoredOptions, Verifier

PROGRAM = "grading.isolation.function_worker"


class FunctionOptions(ScoredOptions):
    """How a function is called: the seconds and the MiB of memory that a call may take."""

    limit_s: float = Field(10.0, gt=0)
    memory_mb: int = Field(1024, ge=64)


class PythonOptions(FunctionOptions):
    """``path`` names the function, ``kwargs`` are its further arguments."""

    path: str
    kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    answer: str = RESPONSE

    @field_validator("path")
    @classmethod
    def _exists(cls, path: str, info: ValidationInfo) -> str:
        return function_path(path, (info.context or {}).get("folder") or Path.cwd())

    @field_validator("kwargs")
    @classmethod
    def _are_its_own(cls, kwargs: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if taken := sorted(kwargs.keys() & set(ARGUMENTS)):
            raise ValueError(f"{', '.join(taken)} comes from the row")
        return kwargs


class FunctionVerifier(Verifier):
    """Calls one function of `grading.isolation.function_worker`."""

    Options = FunctionOptions

    def __init__(self, options: Any, resources: Resources, path: str, kwargs: Mapping[str, Any]) -> None:
        super().__init__(options, resources)
        target = json.dumps({"path": path, "kwargs": kwargs})
        memory = str(options.memory_mb << 20)
        self._pool = WorkerPool(resources.workers, options.limit_s, (PROGRAM, target, memory))
        try:
            self._pool.start()
        except NotStarted:
            self._pool.close()
            raise InputError(
                f"verifier {path}: the process that imports it ended, or its import takes minutes"
            ) from None
        except InputError:
            self._pool.close()
            raise

    def grade_answer(self, answer: str, gold: str, fields: Mapping[str, Any]) -> Grade:
        arguments = dict(zip(ARGUMENTS, (fields.get(DATA_SOURCE, ""), answer, gold, dict(fields)), strict=True))
        stated = None if self.options.answer == RESPONSE else answer
        try:
            arguments = json.loads(json.dumps(arguments, default=_plain))
        except (TypeError, ValueError) as error:
            return Grade(Verdict.ERROR, stated, f"the fields of the row cannot be passed on: {error}")
        verdict, reason, *rest = self._pool.ask(arguments)
        if not rest or verdict != "scored":
            return Grade(Verdict.ERROR, stated, reason)
        score, pred = rest
        return Grade.of_score(score, stated if pred is None else pred, reason, threshold=self.options.threshold)

    def close(self) -> None:
        self._pool.close()


class PythonVerifier(FunctionVerifier):
    """By default the function gets the whole response, with its thoughts, as verl gives it."""

    Options = PythonOptions

    def __init__(self, options: PythonOptions, resources: Resources) -> None:
        super().__init__(options, resources, options.path, options.kwargs)

    @classmethod
    def identity(cls, options: Mapping[str, Any]) -> Any:
        """Replace the path of the function by the contents of its file and of the neighbours that it imports."""
        path = options["path"]
        try:
            files = source_digests(function_file(path))
        except InputError as error:
            raise InputError(f"verifier {error}") from None
        return {**options, "path": function_name(path), "files": files}


def _plain(value: Any) -> Any:
    """Convert numpy's arrays and scalars, which rows of a data frame hold, to JSON values."""
    if callable(getattr(value, "tolist", None)):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__}")
