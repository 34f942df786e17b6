"""Arguments that several commands of ``python -m evaluation`` share."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, PositiveInt

from core.errors import InputError
from core.request_model import Request, from_yaml, option
from evaluation.generation.endpoint import Endpoint, EndpointOptions
from evaluation.generation.generate import CACHE
from evaluation.generation.requests import Sampling
from evaluation.generation.templates import TRAINING, template_names
from grading.spec_values import read_spec, spec_text
from grading.verifiers.spec import VerifierSpec

PROBLEMS, SAMPLING, ENGINES, GRADING, BUDGET = (
    "Problems",
    "Sampling",
    "Engines",
    "Grading",
    "Endpoints and their budget",
)


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
    roots: tuple[Path, ...] = option((), "Folder of benchmark files. Repeatable.", PROBLEMS, metavar="DIR")
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

    verifier: Annotated[str, AfterValidator(_absolute)] = option(
        "math", "The verifier of the answers: a type, or a mapping with its type and options.", GRADING, metavar="SPEC"
    )

    data_source: str = option("generated", "The data_source that the verifier gets.", GRADING, metavar="NAME")

    def spec(self) -> VerifierSpec:
        """Parse the verifier; InputError if there is no such one."""
        return read_spec(self.verifier, "--verifier")
