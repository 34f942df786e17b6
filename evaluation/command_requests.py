"""The requests of ``python -m evaluation``: one class per command, read from a JSON file or the command line."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from core.backends import Placement
from core.errors import InputError
from core.files import read_object
from core.request import Request, from_yaml
from evaluation.generation.endpoint import CONCURRENCY, Endpoint, EndpointOptions
from evaluation.generation.generate import CACHE
from evaluation.generation.requests import Counts, Sampling
from evaluation.generation.templates import TRAINING, template_names
from grading.row_fields import Columns
from grading.spec_values import read_spec, require_fields, spec_text
from grading.verifiers.spec import VerifierSpec

PROBLEMS, SAMPLING, ENGINES, GRADING, BUDGET = (
    "Problems",
    "Sampling",
    "Engines",
    "Grading",
    "Endpoints and their budget",
)
COUNTS = TypeAdapter(dict[str, dict[str, PositiveInt]])
MODEL_HELP = "A Hugging Face folder, a hub id[@revision], or MODEL@URL of an OpenAI-compatible endpoint"


def _template(name: str) -> str:
    if name not in template_names():
        raise ValueError(f"got {name!r}, expected one of {', '.join(template_names())}")
    return name


def _absolute(verifier: str) -> str:
    """The spec with absolute paths: the command may run elsewhere."""
    return spec_text(read_spec(verifier, "--verifier"))


class _Problems(Request):
    suite: str = Field(
        default="embedded",
        description="The name of a suite in evaluation/benchmarks/suites, a YAML file, or (compare) a file that "
        "`suite` wrote.",
        json_schema_extra={"metavar": "NAME|FILE", "panel": PROBLEMS},
    )
    roots: tuple[Path, ...] = Field(
        default=(),
        description="Folder of benchmark files. Repeatable.",
        json_schema_extra={"metavar": "DIR", "panel": PROBLEMS},
    )
    benchmarks: tuple[str, ...] | None = Field(
        default=None,
        description="Take only this benchmark of the suite. Repeatable.",
        json_schema_extra={"metavar": "NAME", "panel": PROBLEMS},
    )
    limit: int | None = Field(
        default=None,
        ge=1,
        description="Take at most this many problems per benchmark, a sample drawn by the seed.",
        json_schema_extra={"panel": PROBLEMS},
    )


class _Seeded(Request):
    seed: int = Field(
        default=0,
        ge=0,
        lt=2**63,
        description="Random seed for sampling problems and responses.",
    )


class _SuiteFile(Request):
    suite: Path = Field(description="File that `suite` wrote.", json_schema_extra={"metavar": "FILE.parquet"})


class _Sampled(_Seeded):
    samples: int | None = Field(
        default=None,
        ge=1,
        description="Samples per problem. Without it, the k of each benchmark's avg@k; one trace for `traces`.",
        json_schema_extra={"panel": SAMPLING},
    )
    temperature: float = Field(
        default=0.6, ge=0, description="Sampling temperature. 0 is greedy.", json_schema_extra={"panel": SAMPLING}
    )
    top_p: float = Field(
        default=0.95, gt=0, le=1, description="Nucleus sampling.", json_schema_extra={"panel": SAMPLING}
    )
    max_tokens: int = Field(
        default=8192, ge=1, description="Token limit of a response.", json_schema_extra={"panel": SAMPLING}
    )
    template: Annotated[str, AfterValidator(_template)] = Field(
        default=TRAINING,
        description="Prompt template. `training` is the checkpoint's own, or else the chat template.",
        json_schema_extra={"metavar": "NAME", "panel": SAMPLING},
    )
    chat_template_kwargs: Annotated[dict[str, Any], from_yaml("--chat-template-kwargs")] = Field(
        default={},
        description="Arguments of the chat template, beside those of the checkpoint's training, such as "
        "{enable_thinking: false}.",
        json_schema_extra={
            "metavar": "YAML",
            "panel": SAMPLING,
            "expected": "a mapping, as {enable_thinking: false}",
        },
    )
    cache: Path = Field(
        default=CACHE,
        description="Folder that keeps samples for the next time.",
        json_schema_extra={"metavar": "DIR", "panel": SAMPLING},
    )
    replicas: int | None = Field(
        default=None,
        ge=1,
        description="Engines with GPUs of their own. Without it, as many as fit.",
        json_schema_extra={"panel": ENGINES},
    )
    tensor_parallel: Literal["auto"] | PositiveInt = Field(
        default="auto",
        description="GPUs per engine. `auto` is as few as the weights need.",
        json_schema_extra={"metavar": "GPUS", "panel": ENGINES, "expected": "auto, or a number of GPUs"},
    )
    endpoint: Annotated[Any, from_yaml("--endpoint")] = Field(
        default={},
        description="How requests to MODEL@URL differ, such as {max_tokens_key: max_completion_tokens, "
        "leave_out: [seed, temperature, top_p], extra_body: {…}}.",
        json_schema_extra={"metavar": "YAML", "panel": ENGINES},
    )
    trust_remote_code: bool = Field(
        default=False, description="Run code that the model folder contains.", json_schema_extra={"panel": ENGINES}
    )

    def sampling(self) -> Sampling:
        """How samples are drawn."""
        return Sampling(self.samples, self.temperature, self.top_p, self.max_tokens, self.seed)

    def engines(self, *models: str) -> dict[str, Any]:
        """The arguments of `evaluation.generation.model_source.open_model` for ``models``.

        Raises:
            InputError: there are options of an endpoint, and none of the models is one.
        """
        if self.endpoint and not any(map(Endpoint.parse, models)):
            raise InputError(f"--endpoint: {', '.join(models)}: no MODEL@URL; leave it out for a model on this machine")
        return {
            "template": self.template,
            "replicas": self.replicas,
            "tensor_parallel": None if self.tensor_parallel == "auto" else self.tensor_parallel,
            "trust_remote_code": self.trust_remote_code,
            "chat_template_kwargs": self.chat_template_kwargs,
            "endpoint": EndpointOptions.parse(self.endpoint, "--endpoint"),
        }


class _Graded(Request):
    workers: int = Field(
        default=2, ge=1, description="Processes that compare answers.", json_schema_extra={"panel": GRADING}
    )
    limit_s: float = Field(
        default=5.0, gt=0, description="Seconds allowed for one comparison.", json_schema_extra={"panel": GRADING}
    )


class _GradingRules(_Graded):
    thinking: bool | None = Field(
        default=None,
        description="Count an answer only after </think>. Without it, as the prompt template says.",
        json_schema_extra={"panel": GRADING},
    )
    truncated: Literal["zero", "by_text"] = Field(
        default="zero",
        description="Score of a sample that was cut at the token limit: zero, or as its text says.",
        json_schema_extra={"panel": GRADING},
    )


class SuiteRequest(_Problems, _Seeded):
    """Request of the command `suite`."""

    system_prompt: str | None = Field(
        default=None, description="System message before every problem.", json_schema_extra={"panel": PROBLEMS}
    )
    out: Path = Field(description="The suite file to write.", json_schema_extra={"metavar": "FILE.parquet"})


class GenerateRequest(Placement, _Sampled, _SuiteFile):
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


class _Verified(_Graded):
    verifier: Annotated[str, AfterValidator(_absolute)] = Field(
        default="math",
        description="The verifier of the answers: a type, or a mapping with its type and options.",
        json_schema_extra={"metavar": "SPEC", "panel": GRADING},
    )

    data_source: str = Field(
        default="generated",
        description="What the verifier is told as data_source.",
        json_schema_extra={"metavar": "NAME", "panel": GRADING},
    )

    def spec(self) -> VerifierSpec:
        """Parse the verifier; InputError if there is no such one."""
        return read_spec(self.verifier, "--verifier")


class TracesRequest(Placement, _Sampled, _Verified):
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

    def check_fields(self) -> None:
        """Raise InputError if the verifier reads a field that the problems do not have."""
        try:
            require_fields(self.spec(), self.fields, f"the file {self.problems}")
        except ValueError as error:
            raise InputError(f"--fields: {error}") from None


class DifficultyRequest(_Verified):
    """Request of the command `difficulty`."""

    samples: Path = Field(description="File that `traces` wrote.", json_schema_extra={"metavar": "FILE.parquet"})
    out: Path = Field(description="The pass rate of each problem.", json_schema_extra={"metavar": "FILE.parquet"})
    thinking: bool = Field(
        default=True, description="Count an answer only after </think>.", json_schema_extra={"panel": GRADING}
    )


class GradeRequest(_GradingRules, _SuiteFile):
    """Request of the command `grade`."""

    samples: Path = Field(description="Folder that `generate` wrote.", json_schema_extra={"metavar": "DIR"})
    out: Path = Field(description="Folder for <benchmark>.parquet with verdicts.", json_schema_extra={"metavar": "DIR"})


class CompareRequest(_GradingRules, _Sampled, _Problems):
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


class ReportRequest(_SuiteFile):
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
