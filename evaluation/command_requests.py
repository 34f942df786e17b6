"""The requests of ``python -m evaluation``: one class per command, read from a JSON file or the command line."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import PositiveInt, TypeAdapter, ValidationError, model_validator

from core.backends import Placement
from core.errors import InputError
from core.files import read_object
from core.request_model import from_yaml, option
from evaluation.generation.endpoint import CONCURRENCY
from evaluation.generation.requests import Counts
from evaluation.shared_arguments import (
    BUDGET,
    GRADING,
    PROBLEMS,
    SAMPLING,
    GradingRuleArguments,
    ProblemArguments,
    SamplingArguments,
    SeedArgument,
    SuiteFileArgument,
    VerifierArguments,
)
from grading.row_fields import Columns
from grading.spec_values import require_fields

COUNTS = TypeAdapter(dict[str, dict[str, PositiveInt]])
MODEL_HELP = "A Hugging Face folder, a hub id[@revision], or MODEL@URL of an OpenAI-compatible endpoint"


class SuiteRequest(ProblemArguments, SeedArgument):
    """Request of the command `suite`."""

    system_prompt: str | None = option(None, "System message before every problem.", PROBLEMS)
    out: Path = option(..., "The suite file to write.", metavar="FILE.parquet")


class GenerateRequest(Placement, SamplingArguments, SuiteFileArgument):
    """Request of the command `generate`."""

    model: str = option(..., f"{MODEL_HELP}.", metavar="MODEL")
    out: Path = option(..., "Folder for <benchmark>.parquet.", metavar="DIR")
    benchmarks: tuple[str, ...] | None = option(
        None, "Use only this benchmark of the suite. Repeatable.", metavar="NAME"
    )
    checkpoint: str | None = option(
        None,
        "Digest that identifies the model. Default: the digest in its lineage.json, or of its files.",
        metavar="DIGEST",
    )
    counts: Path | None = option(
        None,
        "JSON file {benchmark: {problem id: samples}} with the number of samples of each problem.",
        metavar="FILE.json",
    )

    @model_validator(mode="after")
    def _counts_once(self) -> Self:
        if self.counts is not None and self.samples is not None:
            raise ValueError("samples and counts both say how many samples to draw: give one of them")
        return self

    def sample_counts(self) -> Counts | None:
        """The content of the file ``counts``; InputError if it is not one."""
        if self.counts is None:
            return None
        try:
            return COUNTS.validate_python(read_object(self.counts))
        except ValidationError as error:
            raise InputError(
                f"{self.counts}: {error.errors()[0]['msg']}; expected {{benchmark: {{problem id: samples}}}}"
            ) from error


class TracesRequest(Placement, SamplingArguments, VerifierArguments):
    """Request of the command `traces`."""

    teacher: str = option(..., f"{MODEL_HELP}, whose key is in OPENAI_API_KEY.", metavar="MODEL")
    problems: Path = option(..., "Problems and gold answers, as a Parquet, JSON or JSON lines file.", metavar="FILE")
    out: Path = option(..., "File of the traces, which is a source of targets.", metavar="FILE.parquet")
    problem_column: str = option("problem", "Column of the problems.", metavar="NAME")
    answer_column: str = option("answer", "Column of the gold answers.", metavar="NAME")
    fields: Annotated[Columns, from_yaml("--fields")] = option(
        {},
        "Columns that the verifier reads beside the gold answer: [options], or {entry: column.path}.",
        metavar="YAML",
        expected="a list of columns, or a mapping of names to columns",
    )
    system_prompt: str | None = option(None, "System message before every problem.")
    log_probs: bool = option(True, "Keep the teacher's log-probabilities, unless it is an endpoint.", SAMPLING)
    concurrency: int = option(CONCURRENCY, "Requests to an endpoint at the same time.", BUDGET, ge=1)
    budget_tokens: int | None = option(None, "Stop after N tokens, prompts and answers together.", BUDGET, ge=1)
    budget_money: float | None = option(None, "Stop when the cost reaches X.", BUDGET, gt=0)
    input_price: float = option(0.0, "Price of a million prompt tokens.", BUDGET, ge=0)
    output_price: float = option(0.0, "Price of a million answer tokens.", BUDGET, ge=0)
    budget_covers_cached: bool = option(False, "Also count the requests that an earlier command paid for.", BUDGET)

    def check_fields(self) -> None:
        """Raise InputError if the verifier reads a field that the problems do not have."""
        try:
            require_fields(self.spec(), self.fields, f"the file {self.problems}")
        except ValueError as error:
            raise InputError(f"--fields: {error}") from None


class DifficultyRequest(VerifierArguments):
    """Request of the command `difficulty`."""

    samples: Path = option(..., "File that `traces` wrote.", metavar="FILE.parquet")
    out: Path = option(..., "The pass rate of each problem.", metavar="FILE.parquet")
    thinking: bool = option(True, "Count an answer only after </think>.", GRADING)


class GradeRequest(GradingRuleArguments, SuiteFileArgument):
    """Request of the command `grade`."""

    samples: Path = option(..., "Folder that `generate` wrote.", metavar="DIR")
    out: Path = option(..., "Folder for <benchmark>.parquet with verdicts.", metavar="DIR")


class CompareRequest(GradingRuleArguments, SamplingArguments, ProblemArguments):
    """Request of the command `compare`."""

    models: tuple[str, ...] = option(
        ...,
        f"{MODEL_HELP}, or a folder that `grade` wrote. The others are compared with the first.",
        cli="",
        metavar="MODEL...",
    )
    pass_at: int | None = option(None, "Also report pass@K. Every problem needs K stored samples.", metavar="K", ge=1)
    out: Path | None = option(None, "Keep the graded results of each model below this folder.", metavar="DIR")


class ReportRequest(SuiteFileArgument):
    """Request of the command `report`."""

    base: Path = option(..., "Results of the base, from `grade`.", metavar="DIR")
    policy: Path = option(..., "Results of the policy, from `grade`.", metavar="DIR")
    out: Path = option(..., "The page to write.", metavar="FILE.html")
    champion: Path | None = option(None, "Results of the champion, to compare the policy with.", metavar="DIR")
    targets: Path | None = option(
        None,
        "Training targets to search for problems of the suite. Default: the file that --lineage names.",
        metavar="FILE.parquet",
    )
    lineage: Path | None = option(None, "The policy's lineage.json.", metavar="JSON")
    metrics: Path | None = option(None, "The training run's metrics.jsonl.", metavar="JSONL")
    filter_counts: Path | None = option(
        None, "How many rows each step of the preparation left, as a list of [step, rows].", metavar="JSON"
    )
    markdown: Path | None = option(None, "Also write a summary to this file.", metavar="FILE.md")
