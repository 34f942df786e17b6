"""What an operator can set, by stage. The values of a profile become the defaults that the Launchpad shows.

Each class is plain pydantic; `launchpad` turns an instance into the `dg.Config` class of an op, `chosen` turns what
the operator launched back. So a limit is written down once, and holds for profile, environment and Launchpad.
"""

import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, field_validator

from core.errors import InputError
from targets.config import PrepareConfig

Function = TypeVar("Function", bound=Callable[..., Any])
Options = TypeVar("Options", bound=BaseModel)
TargetOptions = PrepareConfig  # targets/prepared
# Keys of the training configuration that name folders of a run.
PLACES = ("paths.", "hydra.", "hydra/", "trainer.default_local_dir", "trainer.rollout_data_dir")
PLACES += ("trainer.validation_data_dir",)


def inside(overrides: tuple[str, ...]) -> tuple[str, ...]:
    """``overrides`` themselves; ValueError if one says where a run writes: that is the storage's business."""
    for override in overrides:
        if override.lstrip("+~").startswith(PLACES):
            raise ValueError(f"{override.partition('=')[0]} says where a run writes, which storage.root decides")
    return overrides


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SplitOptions(_Section):
    """targets/train."""

    heldout_share: float = Field(default=0.0, ge=0, lt=1, description="share of problems that are never trained on")
    max_rows: int | None = Field(default=None, ge=1, description="of what is left; none: all")


class ModelOptions(_Section):
    """models/base."""

    source: str = Field(default="embedded", description="'embedded', a model folder, a .gguf file, or a hub id")
    revision: str | None = Field(default=None, description="branch, tag or commit of a hub id")


class BenchmarkOptions(_Section):
    """benchmarks/suite."""

    roots: tuple[str, ...] = Field(default=(), description="folders with the suite's files")
    limit: int | None = Field(default=None, ge=1, description="problems a benchmark (a seeded sample); none: all")
    seed: int = Field(default=0, description="seed of the sample and of generated problems")
    system_prompt: str | None = Field(default=None, description="system message before every problem")


class TrainingOptions(_Section):
    """training/policy."""

    recipe: str = Field(default="luffy", description="a file of training/config/recipe")
    hardware: str = Field(default="cpu", description="a file of training/config/hardware")
    overrides: tuple[str, ...] = Field(default=(), description="KEY=VALUE of the training configuration")
    seed: int = 0
    force: bool = Field(default=False, description="train even if a checkpoint of the same identity is there")

    @field_validator("overrides")
    @classmethod
    def _stay_inside(cls, overrides: tuple[str, ...]) -> tuple[str, ...]:
        return inside(overrides)


class ExperimentOptions(_Section):
    """experiments/*: what is compared beside the one line of training and evaluation."""

    recipes: tuple[str, ...] = Field(default=(), description="that make experiments trains; none: all")
    seeds: int = Field(default=1, ge=1, description="runs of a recipe; their seeds count up from training.seed")
    baseline: str = Field(default="on_policy", description="the recipe that the others are compared with")
    overrides: dict[str, tuple[str, ...]] = Field(default={}, description="recipe: KEY=VALUE over training.overrides")

    @field_validator("overrides")
    @classmethod
    def _stay_inside(cls, overrides: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return {recipe: inside(values) for recipe, values in overrides.items()}


class EvaluationOptions(_Section):
    """evals/* and ood/*."""

    samples: int | None = Field(default=None, ge=1, description="a problem; none: the k of each benchmark's avg@k")
    temperature: float = Field(default=0.6, ge=0, description="0 is greedy")
    top_p: float = Field(default=0.95, gt=0, le=1)
    max_tokens: int = Field(default=8192, ge=1, description="a response")
    seed: int = 0
    template: str = Field(default="training", description="of prompts: training, own, qwen, simplerl, prime, none, "
                          "tokenizer; training is the checkpoint's own")  # fmt: skip
    replicas: int | None = Field(default=None, ge=1, description="engines, each on a GPU of its own; none: all GPUs")
    thinking: bool | None = Field(
        default=None, description="answers count only after </think>; none: as the template says"
    )
    trust_remote_code: bool = Field(default=False, description="run code that a model folder brings")
    grade_workers: int = Field(default=2, ge=1, description="processes that compare answers")
    grade_limit_s: float = Field(default=5.0, gt=0, description="seconds for comparing one answer")


class PromotionOptions(_Section):
    """registry/champion."""

    max_ood_drop: float = Field(default=0.05, ge=0, le=1, description="an out-of-domain benchmark may lose this share")
    max_truncated: float = Field(default=0.25, ge=0, le=1, description="share of samples cut at the token limit")


class RetentionOptions(_Section):
    """operations/retention."""

    dry_run: bool = Field(default=True, description="list what would go, and keep it")
    keep_days: float = Field(default=30.0, ge=1, description="younger outputs stay")
    keep_champions: int = Field(default=3, ge=1, description="champions that stay whole, for rollbacks")
    drop_checkpoints: bool = Field(
        default=True, description="of complete old runs that stay, drop the trainer's own checkpoints and rollouts"
    )


def launchpad(options: BaseModel) -> type[dg.Config]:
    """The `dg.Config` class of an op whose defaults are the values of ``options``."""
    fields: dict[str, Any] = {}
    for name, info in type(options).model_fields.items():
        kind, note = _launchpad_type(info.annotation)
        value = getattr(options, name)
        if isinstance(value, BaseModel):
            value = value.model_dump_json(exclude_none=True)
        description = " ".join(filter(None, [info.description, note]))
        default = list(value) if isinstance(value, tuple) else value
        fields[name] = (kind, Field(default=default, description=description or None))
    return create_model(type(options).__name__, __base__=dg.Config, __module__=__name__, **fields)


def configured(options: BaseModel) -> Callable[[Function], Function]:
    """Give the op that the decorated function becomes the configuration `launchpad` makes of ``options``.

    The class depends on the profile, so it cannot be the annotation that is written at the parameter ``config``.
    """

    def decorate(function: Function) -> Function:
        function.__annotations__["config"] = launchpad(options)
        return function

    return decorate


def chosen(config: dg.Config, options: Options, *, stage: str) -> Options:
    """``options`` with what the operator launched; InputError names the value that does not fit."""
    values = {name: getattr(config, name) for name in type(config).model_fields}
    for name, value in values.items():
        if isinstance(value, str) and value.lstrip().startswith("{"):
            import yaml

            values[name] = yaml.safe_load(value)
    try:
        return type(options).model_validate({**options.model_dump(), **values})
    except ValidationError as error:
        raise InputError(f"{stage}: {explain(error)}; set it in the Launchpad or in the profile") from error


def explain(error: ValidationError) -> str:
    """The first complaint of pydantic as one line: key, what is wrong, what was given."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"] if part not in ("ColumnMapping", "str"))
    return f"{key}: {first['msg']} (got {first['input']!r:.80})"


def _launchpad_type(annotation: Any) -> tuple[Any, str]:
    """The Dagster config type for a pydantic annotation, and a note on what a plain type cannot say."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _launchpad_type(arguments[0])
    if origin is tuple:
        return list[arguments[0]], ""
    if origin is Literal:
        return str, "One of: " + ", ".join(map(str, arguments)) + "."
    if origin in (Union, types.UnionType):
        if any(isinstance(part, type) and issubclass(part, BaseModel) for part in arguments):
            return str, "Columns as YAML: {name: column, …}."
        inner, note = _launchpad_type(next(part for part in arguments if part is not type(None)))
        return inner | None, note
    return annotation, ""
