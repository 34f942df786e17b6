"""The settings of targets/generated and of rounds/*: a teacher that writes traces."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from assets.shared.stage_options import Options, SamplingOptions
from evaluation.generation.endpoint import CONCURRENCY, Endpoint, EndpointOptions
from evaluation.generation.token_budget import Budget


def endpoint_options(values: Any) -> dict[str, Any]:
    """Parse ``values`` as options of an endpoint; ValueError if they do not fit."""
    return EndpointOptions.parse(values, "in it").identity()


class GenerationOptions(SamplingOptions):
    """Options of targets/generated."""

    teacher: str = Field(
        min_length=1,
        description="Who writes the traces: a model folder, a hub id[@revision], or MODEL@URL of an OpenAI-compatible "
        "endpoint, whose key is in the variable OPENAI_API_KEY.",
    )
    problems: str = Field(min_length=1, description="Parquet, JSON or JSON lines file of problems and gold answers.")
    problem_column: str = Field(default="problem", description="Column of the problems.")
    answer_column: str = Field(default="answer", description="Column of the gold answers.")
    samples: int = Field(default=1, ge=1, description="Traces per problem.")
    system_prompt: str | None = Field(default=None, description="System message before every problem.")
    concurrency: int = Field(default=CONCURRENCY, ge=1, description="Number of simultaneous requests to an endpoint.")
    endpoint: Annotated[Any, AfterValidator(endpoint_options)] = Field(
        default={}, description="Changes of the requests to an endpoint: max_tokens_key, leave_out, extra_body."
    )
    budget_tokens: int | None = Field(
        default=None, ge=1, description="Stop a materialization after this many tokens (prompts and answers together)."
    )
    budget_money: float | None = Field(
        default=None, gt=0, description="Stop a materialization when its tokens have cost this much."
    )
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

    def asked(self) -> dict[str, Any]:
        """Return the fields of `evaluation.command_requests.TracesRequest`, except for the paths."""
        here = {"teacher", "problems", "grade_workers", "grade_limit_s"}
        if Endpoint.parse(self.teacher) is None:
            here |= {"concurrency", "endpoint", "budget_tokens", "budget_money", "input_price", "output_price"}
        return {**self.model_dump(exclude=here), "workers": self.grade_workers, "limit_s": self.grade_limit_s}


class RoundOptions(Options):
    """Options of rounds/*, whose teacher is that of the section generate."""

    number: int = Field(default=3, ge=1, le=50, description="Maximum number of rounds.")
    budget_tokens: int = Field(
        ge=1, description="Maximum tokens of the teacher per round, prompts and answers together."
    )
    budget_tokens_in_all: int | None = Field(
        default=None,
        ge=1,
        description="Maximum tokens of the teacher in all rounds together. None: only the limit per round.",
    )
    unsolved_below: float = Field(
        default=0.25,
        gt=0,
        le=1,
        description="The teacher is asked about problems that the policy solves in less than this share of its own "
        "samples.",
    )
    target_share: float = Field(
        default=0.5,
        ge=0,
        lt=1,
        description="Minimum share of the rows of a training set that have a target. Targets are repeated to reach it.",
    )
