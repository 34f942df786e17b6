"""The requests of ``python -m evaluation``: one class per command, read from a JSON file or the command line.

The classes of arguments, which come first, are what several commands share.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, PositiveInt, TypeAdapter, ValidationError, model_validator

from core.backends import Placement
from core.errors import InputError
from core.files import read_object
from core.machine.request_paths import InputFolder, OutputFile, OutputFolder
from core.request_model import AsJson, Request, from_yaml, option
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
    """Return the spec with absolute paths: the command may run elsewhere."""
    return spec_text(read_spec(verifier, "--verifier"))


class ProblemArguments(Request):
    """Which problems of which benchmarks."""

    suite: str = option(
        "embedded",
        "The name of a suite in evaluation/benchmarks/suites, a YAML file, or (compare) a file that `suite` wrote.",
        PROBLEMS,
        metavar="NAME|FILE",
    )
    roots: tuple[InputFolder, ...] = option((), "Folder of benchmark files. Repeatable.", PROBLEMS, metavar="DIR")
    benchmarks: tuple[str, ...] | None = option(
        None, "Use only this benchmark of the suite. Repeatable.", PROBLEMS, metavar="NAME"
    )
    limit: int | None = option(None, "Use at most this many problems per benchmark, drawn by the seed.", PROBLEMS, ge=1)


class SeedArgument(Request):
    """The random seed."""

    seed: int = option(0, "Random seed for sampling problems and responses.", ge=0, lt=2**63)


class SuiteFileArgument(Request):
    """A file of problems."""

    suite: Path = option(..., "File that `suite` wrote.", metavar="FILE.parquet")


class SamplingArguments(SeedArgument):
    """How samples are drawn, and by how many engines."""

    samples: int | None = option(
        None,
        "Samples per problem. Default: the k of each benchmark's avg@k, and one trace for `traces`.",
        SAMPLING,
        ge=1,
    )
    temperature: float = option(0.6, "Sampling temperature. 0 is greedy.", SAMPLING, ge=0)
    top_p: float = option(0.95, "Nucleus sampling.", SAMPLING, gt=0, le=1)
    max_tokens: int = option(8192, "Token limit of a response.", SAMPLING, ge=1)
    template: Annotated[str, AfterValidator(_template)] = option(
        TRAINING,
        "Prompt template. `training` is that of the checkpoint's training, or else its chat template.",
        SAMPLING,
        metavar="NAME",
    )
    chat_template_kwargs: Annotated[dict[str, Any], from_yaml("--chat-template-kwargs")] = option(
        {},
        "Arguments of the chat template, in addition to those of the training, such as {enable_thinking: false}.",
        SAMPLING,
        metavar="YAML",
        expected="a mapping, as {enable_thinking: false}",
    )
    cache: Path = option(CACHE, "Folder that keeps samples for later commands.", SAMPLING, metavar="DIR")
    replicas: int | None = option(
        None, "Number of engines, each with its own GPUs. Default: as many as fit.", ENGINES, ge=1
    )
    tensor_parallel: Literal["auto"] | PositiveInt = option(
        "auto",
        "GPUs per engine. `auto` is as few as the weights need.",
        ENGINES,
        metavar="GPUS",
        expected="auto, or a number of GPUs",
    )
    endpoint: Annotated[Any, from_yaml("--endpoint")] = option(
        {},
        "Changes of the requests to MODEL@URL, such as {max_tokens_key: max_completion_tokens, "
        "leave_out: [seed, temperature, top_p], extra_body: {…}}.",
        ENGINES,
        metavar="YAML",
    )
    trust_remote_code: bool = option(False, "Run code that the model folder contains.", ENGINES)

    def sampling(self) -> Sampling:
        """Return how samples are drawn."""
        return Sampling(self.samples, self.temperature, self.top_p, self.max_tokens, self.seed)

    def engines(self, *models: str) -> dict[str, Any]:
        """Return the arguments of `evaluation.generation.model_source.open_model` for ``models``.

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


class GradingArguments(Request):
    """The processes that grade."""

    workers: int = option(2, "Processes that compare answers.", GRADING, ge=1)
    limit_s: float = option(5.0, "Seconds allowed for one comparison.", GRADING, gt=0)


class GradingRuleArguments(GradingArguments):
    """What counts as an answer."""

    thinking: bool | None = option(
        None, "Count an answer only after </think>. Default: the prompt template decides.", GRADING
    )
    truncated: Literal["zero", "by_text"] = option(
        "zero", "Score of a sample that was cut at the token limit. zero: 0. by_text: its text decides.", GRADING
    )


class VerifierArguments(GradingArguments):
    """The verifier of the answers."""

    verifier: Annotated[str, AsJson, AfterValidator(_absolute)] = option(
        "math", "The verifier of the answers: a type, or a mapping with its type and options.", GRADING, metavar="SPEC"
    )

    data_source: str = option("generated", "The data_source that the verifier gets.", GRADING, metavar="NAME")

    def spec(self) -> VerifierSpec:
        """Parse the verifier; InputError if there is no such one."""
        return read_spec(self.verifier, "--verifier")


class SuiteRequest(ProblemArguments, SeedArgument):
    """Request of the command `suite`."""

    system_prompt: str | None = option(None, "System message before every problem.", PROBLEMS)
    out: OutputFile = option(..., "The suite file to write.", metavar="FILE.parquet")


class GenerateRequest(Placement, SamplingArguments, SuiteFileArgument):
    """Request of the command `generate`."""

    model: str = option(..., f"{MODEL_HELP}.", metavar="MODEL")
    out: OutputFolder = option(..., "Folder for <benchmark>.parquet.", metavar="DIR")
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
            return COUNTS.validate_python(read_object(self.counts, unique=True))
        except ValidationError as error:
            raise InputError(
                f"{self.counts}: {error.errors()[0]['msg']}; expected {{benchmark: {{problem id: samples}}}}"
            ) from error


class TracesRequest(Placement, SamplingArguments, VerifierArguments):
    """Request of the command `traces`."""

    teacher: str = option(..., f"{MODEL_HELP}, whose key is in OPENAI_API_KEY.", metavar="MODEL")
    problems: Path = option(..., "Problems and gold answers, as a Parquet, JSON or JSON lines file.", metavar="FILE")
    out: OutputFile = option(..., "File of the traces, which is a source of targets.", metavar="FILE.parquet")
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
    out: OutputFile = option(..., "The pass rate of each problem.", metavar="FILE.parquet")
    thinking: bool = option(True, "Count an answer only after </think>.", GRADING)


class GradeRequest(GradingRuleArguments, SuiteFileArgument):
    """Request of the command `grade`."""

    samples: Path = option(..., "Folder that `generate` wrote.", metavar="DIR")
    out: OutputFolder = option(..., "Folder for <benchmark>.parquet with verdicts.", metavar="DIR")


class CompareRequest(GradingRuleArguments, SamplingArguments, ProblemArguments):
    """Request of the command `compare`."""

    models: tuple[str, ...] = option(
        ...,
        f"{MODEL_HELP}, or a folder that `grade` wrote. The others are compared with the first.",
        cli="",
        metavar="MODEL...",
    )
    pass_at: int | None = option(None, "Also report pass@K. Every problem needs K stored samples.", metavar="K", ge=1)
    out: OutputFolder | None = option(None, "Keep the graded results of each model below this folder.", metavar="DIR")


class ReportRequest(SuiteFileArgument):
    """Request of the command `report`."""

    base: Path = option(..., "Results of the base, from `grade`.", metavar="DIR")
    policy: Path = option(..., "Results of the policy, from `grade`.", metavar="DIR")
    out: OutputFile = option(..., "The page to write.", metavar="FILE.html")
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
    markdown: OutputFile | None = option(None, "Also write a summary to this file.", metavar="FILE.md")
