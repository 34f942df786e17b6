"""The sections suite, benchmarks, evaluation, difficulty, generate and report: problems, samples and grades."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PositiveInt, model_validator

from core import PROJECT
from core.errors import InputError, did_you_mean
from core.settings import Section, UserPath, output_path, yaml_path
from evaluation.benchmarks.suite import Benchmark, Benchmarks, load_suite
from evaluation.generation.endpoint import CONCURRENCY, Budget, Endpoint, EndpointOptions
from evaluation.generation.model_source import template_names
from evaluation.generation.requests import Sampling


def _template(name: str) -> str:
    """Return ``name``; ValueError unless it is a prompt template."""
    if name not in (names := template_names()):
        raise ValueError(f"there is no {name!r}{did_you_mean(name, names) or ','} expected one of {', '.join(names)}")
    return name


def _endpoint(values: Any) -> dict[str, Any]:
    """Return ``values`` as options of an endpoint; ValueError if they do not fit."""
    return EndpointOptions.parse(values, "in it").identity()


class SuiteSettings(Section):
    """The benchmarks. They decide which assets exist, so they cannot be changed in the Launchpad."""

    name: Annotated[str, UserPath(yaml_path)] = Field(
        default="embedded", description="A suite of evaluation/benchmarks/suites, or a YAML file."
    )
    benchmarks: Benchmarks = Field(
        default=[], description="Entries of benchmarks, as in the file of a suite. They replace the suite."
    )
    only: list[str] = Field(default=[], description="Use only these benchmarks of the suite. Empty: all of them.")

    def entries(self) -> list[Benchmark]:
        """Return the benchmarks; InputError for a suite or a name that does not exist."""
        local = PROJECT / self.name
        suite = self.benchmarks or load_suite(local if local.is_file() else self.name)
        if unknown := sorted(set(self.only) - {benchmark.name for benchmark in suite}):
            names = ", ".join(benchmark.name for benchmark in suite)
            where = "suite.benchmarks" if self.benchmarks else f"suite {self.name}"
            raise InputError(f"suite.only: {', '.join(unknown)}: not in {where}, which has {names}")
        return [benchmark for benchmark in suite if not self.only or benchmark.name in self.only]


class BenchmarkSettings(Section):
    """Options of benchmarks/suite."""

    roots: Annotated[list[str], UserPath(output_path)] = Field(
        default=[], description="Folders that hold the suite's files."
    )
    limit: int | None = Field(default=None, ge=1, description="Problems per benchmark, sampled by seed. None: all.")
    seed: int = Field(default=0, ge=0, description="Seed of that sample and of generated problems.")
    system_prompt: str | None = Field(default=None, description="System message before every problem.")

    @property
    def folders(self) -> list[Path]:
        """The folders of ``roots``; a relative one is below the project. InputError for one that is not there."""
        folders = [PROJECT / Path(root).expanduser() for root in self.roots]
        for folder in (folder for folder in folders if not folder.is_dir()):
            fault = "is a file; expected a folder" if folder.exists() else "no such folder; name the files' folder"
            raise InputError(f"benchmarks.roots: {folder}: {fault}")
        return folders


class SamplingSettings(Section):
    """How samples are drawn and graded."""

    temperature: float = Field(default=0.6, ge=0, description="Sampling temperature. 0: greedy decoding.")
    top_p: float = Field(
        default=0.95, gt=0, le=1, description="Sample from the likeliest tokens that together have this probability."
    )
    max_tokens: int = Field(default=8192, ge=1, description="Token limit of a response.")
    seed: int = Field(default=0, ge=0, description="Seed of the samples.")
    template: Annotated[str, AfterValidator(_template)] = Field(
        default="training",
        description="Prompt template: training (as in the training), own, qwen, simplerl, prime, none or tokenizer.",
    )
    chat_template_kwargs: dict[str, Any] = Field(
        default={},
        description="Arguments of the model's chat template, in addition to the training's, such as "
        "{enable_thinking: false}.",
    )
    replicas: int | None = Field(default=None, ge=1, description="Number of engines. None: as many as the GPUs allow.")
    tensor_parallel: Literal["auto"] | PositiveInt = Field(
        default="auto", description="GPUs per engine. auto: as few as the weights need."
    )
    endpoint: Annotated[Any, AfterValidator(_endpoint)] = Field(
        default={},
        description="Changes of the requests to MODEL@URL, such as {max_tokens_key: max_completion_tokens, "
        "leave_out: [seed, temperature, top_p], extra_body: {…}}.",
    )
    trust_remote_code: bool = Field(default=False, description="Run code that the model folder contains.")
    grade_workers: int = Field(default=2, ge=1, description="Processes that compare answers.")
    grade_limit_s: float = Field(default=5.0, gt=0, description="Seconds allowed for comparing one answer.")

    def sampling(self, samples: int | None) -> Sampling:
        """Return how ``samples`` of each problem are drawn; None: as many as its benchmark defines."""
        return Sampling(samples, self.temperature, self.top_p, self.max_tokens, self.seed)

    def engines(self, *models: str) -> dict[str, Any]:
        """Return the arguments of `evaluation.generation.model_source.open_model` for ``models``.

        Raises:
            InputError: There are changes of requests to an endpoint, and none of the models is one.
        """
        if self.endpoint and not any(map(Endpoint.parse, models)):
            raise InputError(f"endpoint: {', '.join(models)}: no MODEL@URL; leave it out for a model on this machine")
        names = ("template", "replicas", "trust_remote_code", "chat_template_kwargs")
        return {
            **{name: getattr(self, name) for name in names},
            "tensor_parallel": None if self.tensor_parallel == "auto" else self.tensor_parallel,
            "endpoint": EndpointOptions.parse(self.endpoint, "endpoint"),
        }


class EvaluationSettings(SamplingSettings):
    """Options of evals/* and ood/*."""

    @property
    def until_decided(self) -> bool:
        """Return whether samples are drawn until a decision is reached."""
        return self.samples == "until_decided"

    @model_validator(mode="after")
    def _samples_differ(self) -> Self:
        if self.until_decided and self.temperature == 0:
            raise ValueError("samples: until_decided draws more samples of a problem, which are equal at temperature 0")
        return self

    def of_base(self) -> Self:
        """Return the options for the base, which needs no decision: one sample instead of until_decided."""
        return self.model_copy(update={"samples": 1}) if self.until_decided else self

    @property
    def fixed_samples(self) -> int | None:
        """The samples of each problem without a decision; None: as many as its benchmark defines."""
        return None if self.samples == "until_decided" else self.samples

    samples: Literal["until_decided"] | PositiveInt | None = Field(
        default=None,
        description="Samples per problem. None: the number that each benchmark defines. until_decided: as many "
        "of the policy and its opponent as the promotion needs, and one of the base.",
    )
    thinking: bool | None = Field(
        default=None, description="Count answers only after </think>. None: the template decides."
    )
    truncated: Literal["zero", "by_text"] = Field(
        default="zero",
        description="Score of a sample that was cut at the token limit. zero: 0. by_text: its text decides.",
    )


class DifficultySettings(EvaluationSettings):
    """Options of targets/difficulty, which exists where the profile has this section."""

    samples: int = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default=8, ge=1, description="Samples of the base model per problem."
    )
    limit: int | None = Field(
        default=None, ge=1, description="Maximum number of problems to measure, drawn by targets.seed. None: all."
    )
    temperature: float = Field(default=1.0, ge=0, description="Sampling temperature (rollouts use 1).")
    top_p: float = Field(
        default=1.0, gt=0, le=1, description="Sample from the likeliest tokens that together have this probability."
    )


class GenerateSettings(SamplingSettings):
    """Options of targets/generated."""

    teacher: Annotated[str, UserPath()] = Field(
        min_length=1,
        description="Who writes the traces: a model folder, a hub id[@revision], or MODEL@URL of an OpenAI-compatible "
        "endpoint; the variable OPENAI_API_KEY has its key.",
    )
    problems: Annotated[str, UserPath()] = Field(
        min_length=1, description="Parquet, JSON or JSON lines file of problems and gold answers."
    )
    problem_column: str = Field(default="problem", description="Column of the problems.")
    answer_column: str = Field(default="answer", description="Column of the gold answers.")
    samples: int = Field(default=1, ge=1, description="Traces per problem.")
    system_prompt: str | None = Field(default=None, description="System message before every problem.")
    concurrency: int = Field(default=CONCURRENCY, ge=1, description="Number of simultaneous requests to an endpoint.")
    budget_tokens: int | None = Field(
        default=None, ge=1, description="Stop after this many tokens, prompts and answers together."
    )
    budget_covers_cached: bool = Field(default=False, description="The budget is for all materializations together.")
    budget_money: float | None = Field(default=None, gt=0, description="Stop when the tokens have cost this much.")
    input_price: float = Field(default=0.0, ge=0, description="Price of a million tokens of prompts.")
    output_price: float = Field(default=0.0, ge=0, description="Price of a million tokens of answers.")

    @model_validator(mode="after")
    def _fits_its_teacher(self) -> Self:
        endpoint = Endpoint.parse(self.teacher)
        Budget(*self.budget())
        if endpoint is None and (self.budget_tokens or self.budget_money):
            raise ValueError("a budget is for endpoints: a teacher on this machine is not paid by the token")
        if endpoint is None and self.endpoint:
            raise ValueError("endpoint is for MODEL@URL: a teacher on this machine gets no requests")
        if endpoint is not None and self.template != "training":
            raise ValueError("an endpoint renders prompts with its own chat template: leave out the template")
        return self

    def budget(self) -> tuple[int | None, float | None, float, float]:
        """Return the limits and prices, as `Budget` takes them."""
        return self.budget_tokens, self.budget_money, self.input_price, self.output_price


class ReportSettings(Section):
    """Options of report/scorecard."""

    inspect_logs: bool = Field(
        default=False, description="Also write the samples as logs of Inspect, which `inspect view` opens."
    )
