"""The requests of ``python -m evaluation``: one class per command, read from a JSON file or the command line."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, PositiveInt, TypeAdapter, ValidationError, model_validator

from core.backends import Placement
from core.errors import InputError
from core.files import read_object
from core.request import from_yaml
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

    system_prompt: str | None = Field(
        default=None, description="System message before every problem.", json_schema_extra={"panel": PROBLEMS}
    )
    out: Path = Field(description="The suite file to write.", json_schema_extra={"metavar": "FILE.parquet"})


class GenerateRequest(Placement, SamplingArguments, SuiteFileArgument):
    """Request of the command `generate`."""

    model: str = Field(description=f"{MODEL_HELP}.", json_schema_extra={"metavar": "MODEL"})
    out: Path = Field(description="Folder for <benchmark>.parquet.", json_schema_extra={"metavar": "DIR"})
    benchmarks: tuple[str, ...] | None = Field(
        default=None,
        description="Take only this benchmark of the suite. Repeatable.",
        json_schema_extra={"metavar": "NAME"},
    )
    checkpoint: str | None = Field(
        default=None,
        description="Digest that names the model. Without it, that of its lineage.json or of its files.",
        json_schema_extra={"metavar": "DIGEST"},
    )
    counts: Path | None = Field(
        default=None,
        description="JSON file {benchmark: {problem id: samples}}: draw these, instead of as many of every problem.",
        json_schema_extra={"metavar": "FILE.json"},
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

    teacher: str = Field(
        description=f"{MODEL_HELP}, whose key is in OPENAI_API_KEY.", json_schema_extra={"metavar": "MODEL"}
    )
    problems: Path = Field(description="Parquet, JSON or JSON lines file.", json_schema_extra={"metavar": "FILE"})
    out: Path = Field(description="The traces, a source of targets.", json_schema_extra={"metavar": "FILE.parquet"})
    problem_column: str = Field(
        default="problem", description="Column of the problems.", json_schema_extra={"metavar": "NAME"}
    )
    answer_column: str = Field(
        default="answer", description="Column of the gold answers.", json_schema_extra={"metavar": "NAME"}
    )
    fields: Annotated[Columns, from_yaml("--fields")] = Field(
        default={},
        description="Columns that the verifier reads beside the gold answer: [options], or {entry: column.path}.",
        json_schema_extra={"metavar": "YAML", "expected": "a list of columns, or a mapping of names to columns"},
    )
    system_prompt: str | None = Field(default=None, description="System message before every problem.")
    log_probs: bool = Field(
        default=True,
        description="Keep the log-probabilities of a teacher that is a model.",
        json_schema_extra={"panel": SAMPLING},
    )
    concurrency: int = Field(
        default=CONCURRENCY,
        ge=1,
        description="Requests to an endpoint at the same time.",
        json_schema_extra={"panel": BUDGET},
    )
    budget_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Stop after N tokens, prompts and answers together.",
        json_schema_extra={"panel": BUDGET},
    )
    budget_money: float | None = Field(
        default=None, gt=0, description="Stop when the cost reaches X.", json_schema_extra={"panel": BUDGET}
    )
    input_price: float = Field(
        default=0.0, ge=0, description="Price of a million prompt tokens.", json_schema_extra={"panel": BUDGET}
    )
    output_price: float = Field(
        default=0.0, ge=0, description="Price of a million answer tokens.", json_schema_extra={"panel": BUDGET}
    )
    budget_covers_cached: bool = Field(
        default=False,
        description="Count what an earlier command paid for, too.",
        json_schema_extra={"panel": BUDGET},
    )

    def check_fields(self) -> None:
        """Raise InputError if the verifier reads a field that the problems do not have."""
        try:
            require_fields(self.spec(), self.fields, f"the file {self.problems}")
        except ValueError as error:
            raise InputError(f"--fields: {error}") from None


class DifficultyRequest(VerifierArguments):
    """Request of the command `difficulty`."""

    samples: Path = Field(description="File that `traces` wrote.", json_schema_extra={"metavar": "FILE.parquet"})
    out: Path = Field(description="The pass rate of each problem.", json_schema_extra={"metavar": "FILE.parquet"})
    thinking: bool = Field(
        default=True, description="Count an answer only after </think>.", json_schema_extra={"panel": GRADING}
    )


class GradeRequest(GradingRuleArguments, SuiteFileArgument):
    """Request of the command `grade`."""

    samples: Path = Field(description="Folder that `generate` wrote.", json_schema_extra={"metavar": "DIR"})
    out: Path = Field(description="Folder for <benchmark>.parquet with verdicts.", json_schema_extra={"metavar": "DIR"})


class CompareRequest(GradingRuleArguments, SamplingArguments, ProblemArguments):
    """Request of the command `compare`."""

    models: tuple[str, ...] = Field(
        description=f"{MODEL_HELP}, or a folder that `grade` wrote. The others are compared with the first.",
        json_schema_extra={"cli": "", "metavar": "MODEL..."},
    )
    pass_at: int | None = Field(
        default=None,
        ge=1,
        description="Also report pass@K. Every problem needs K stored samples.",
        json_schema_extra={"metavar": "K"},
    )
    out: Path | None = Field(
        default=None,
        description="Keep the graded results of each model below this folder.",
        json_schema_extra={"metavar": "DIR"},
    )


class ReportRequest(SuiteFileArgument):
    """Request of the command `report`."""

    base: Path = Field(description="Results of the base, from `grade`.", json_schema_extra={"metavar": "DIR"})
    policy: Path = Field(description="Results of the policy, from `grade`.", json_schema_extra={"metavar": "DIR"})
    out: Path = Field(description="The page to write.", json_schema_extra={"metavar": "FILE.html"})
    champion: Path | None = Field(
        default=None, description="Results of the champion, to compare with.", json_schema_extra={"metavar": "DIR"}
    )
    targets: Path | None = Field(
        default=None,
        description="Training targets that are searched for problems of the suite. Without it, the file that --lineage "
        "names.",
        json_schema_extra={"metavar": "FILE.parquet"},
    )
    lineage: Path | None = Field(
        default=None, description="The policy's lineage.json.", json_schema_extra={"metavar": "JSON"}
    )
    metrics: Path | None = Field(
        default=None, description="The training run's metrics.jsonl.", json_schema_extra={"metavar": "JSONL"}
    )
    filter_counts: Path | None = Field(
        default=None,
        description="How many rows each step of the preparation left, as a list of [step, rows].",
        json_schema_extra={"metavar": "JSON"},
    )
    markdown: Path | None = Field(
        default=None, description="Also write a summary to this file.", json_schema_extra={"metavar": "FILE.md"}
    )
