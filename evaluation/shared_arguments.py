"""Arguments that several commands of ``python -m evaluation`` share."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PositiveInt

from core.errors import InputError
from core.request import Request, from_yaml
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


class SeedArgument(Request):
    """The random seed."""

    seed: int = Field(
        default=0,
        ge=0,
        lt=2**63,
        description="Random seed for sampling problems and responses.",
    )


class SuiteFileArgument(Request):
    """A file of problems."""

    suite: Path = Field(description="File that `suite` wrote.", json_schema_extra={"metavar": "FILE.parquet"})


class SamplingArguments(SeedArgument):
    """How samples are drawn, and by how many engines."""

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

    workers: int = Field(
        default=2, ge=1, description="Processes that compare answers.", json_schema_extra={"panel": GRADING}
    )
    limit_s: float = Field(
        default=5.0, gt=0, description="Seconds allowed for one comparison.", json_schema_extra={"panel": GRADING}
    )


class GradingRuleArguments(GradingArguments):
    """What counts as an answer."""

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


class VerifierArguments(GradingArguments):
    """The verifier of the answers."""

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
