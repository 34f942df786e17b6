"""The settings of each stage: one `dg.Config` class for the profile, the environment and the Launchpad.

`Settings` reads an instance of each class from the profile. `with_defaults` makes its values the defaults of the
Launchpad, and the op receives an instance of the same class.
"""

from collections.abc import Sequence
from copy import copy
from typing import Annotated, Any, Literal, Self, TypeVar, cast

import dagster as dg
from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PositiveInt,
    TypeAdapter,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)

from assets.shared.failures import as_failure
from core.errors import InputError, did_you_mean, explain_validation
from core.model.context_extension import ContextExtension
from core.plugins.config_files import HARDWARE, RECIPES, below_project, config_file
from evaluation.generation.templates import template_names
from evaluation.promotion.promotion_limits import PromotionLimits
from targets.config import PrepareConfig, build_config
from targets.source_settings import Mapping

Chosen = TypeVar("Chosen", bound="Options")
# Keys of the training configuration that name folders of a run.
RUN_FOLDERS = (
    "paths.",
    "trainer.default_local_dir",
    "trainer.rollout_data_dir",
    "trainer.validation_data_dir",
)


def without_nulls(value: Any) -> Any:
    """Return the value of a setting; ValueError for a mapping with a null, which Dagster cannot hold."""
    if isinstance(value, dict) and (keys := [key for key, part in value.items() if part is None]):
        raise ValueError(f"{keys[0]!r} is null; give it a value, or leave it out")
    return value


class Options(dg.Config):
    """Base of all option classes. Unknown keys are errors, and defaults are validated like any other value."""

    model_config = ConfigDict(extra="forbid", validate_default=True, allow_inf_nan=False, defer_build=True)

    _without_nulls = field_validator("*")(without_nulls)


class _Launched(Options):
    """Report an invalid value from the Launchpad as one message."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise as_failure(
                InputError(f"{explain_validation(error, type(self))}; change it in the Launchpad or in the profile")
            ) from None


def with_defaults(options: Chosen) -> type[Chosen]:
    """Make a class of ``options`` whose defaults are the values of ``options``, for the Launchpad.

    Subclass it for the ``config`` parameter of an op: ``class Config(with_defaults(options)): ...``.
    """
    kind = type(options)
    fields: dict[str, Any] = {}
    for name, value in options.model_dump(mode="json").items():
        field = copy(kind.model_fields[name])
        field.default = value
        fields[name] = (field.annotation, field)
    return cast("type[Chosen]", create_model(kind.__name__, __base__=(_Launched, kind), **fields))


def settable(overrides: list[str]) -> list[str]:
    """Check ``overrides`` and return them.

    Raises:
        ValueError: One of them moves a run's folder, which the storage chooses, or sets a key that no run reads.
    """
    from training.config.keys import check_key, key_of

    for override in overrides:
        if override.startswith(RUN_FOLDERS):
            raise ValueError(f"{override.partition('=')[0]} says where a run writes, which storage.root decides")
        check_key(key_of(override), override)
    return overrides


def known(name: str, names: Sequence[str]) -> str:
    """Return ``name``; ValueError unless it is one of ``names``."""
    if name not in names:
        raise ValueError(f"there is no {name!r}{did_you_mean(name, names) or ','} expected one of {', '.join(names)}")
    return name


def file_of(folder: str) -> AfterValidator:
    """Accept only what `config_file` finds for ``folder``; a path becomes an absolute one below the project."""

    def find(name: str) -> str:
        given = below_project(name)
        try:
            config_file(folder, given)
        except InputError as error:
            raise ValueError(str(error)) from None
        return given

    return AfterValidator(find)


def known_template(name: str) -> str:
    """Return ``name``; ValueError unless it is a prompt template."""
    return known(name, template_names())


def sources(value: Any) -> Any:
    """Parse ``value`` as sources of traces; ValueError if one of them does not fit."""
    return build_config({"source": value}, where="in it").source


Recipe = Annotated[str, file_of(RECIPES)]
Overrides = Annotated[list[str], AfterValidator(settable)]


class TargetOptions(PrepareConfig, Options):
    """Options of targets/prepared."""

    # Dagster has no type for a name or a mapping; "any" lets the Launchpad take both, and pydantic checks them.
    source: Annotated[Any, AfterValidator(sources)] = Field(
        default=["embedded"], description=PrepareConfig.model_fields["source"].description
    )
    mapping: Annotated[Any, AfterValidator(TypeAdapter(Mapping).validate_python)] = Field(
        default="auto", description=PrepareConfig.model_fields["mapping"].description
    )


class SplitOptions(Options):
    """Options of targets/train."""

    heldout_share: float = Field(default=0.0, ge=0, lt=1, description="Share of the problems that are held out.")
    max_rows: int | None = Field(default=None, ge=1, description="Maximum number of training rows. None: all.")


class ModelOptions(Options):
    """Options of models/base."""

    source: str = Field(default="embedded", description="'embedded', a model folder, a .gguf file, or a hub id.")
    revision: str | None = Field(default=None, description="Branch, tag or commit of a hub id.")
    rope_theta: float | None = Field(
        default=None,
        gt=0,
        description="Base of the rotary position embedding. None: the value in the model's config.json.",
    )
    rope_scaling: dict[str, Any] = Field(
        default={},
        description="Scaling of positions beyond the context of the pretraining, such as "
        "{rope_type: yarn, factor: 4.0}. {}: the scaling in the model's config.json.",
    )
    max_position_embeddings: int | None = Field(
        default=None, ge=1, description="Context in tokens. None: the value in the model's config.json."
    )

    @property
    def context(self) -> ContextExtension:
        """Return the values that replace settings of the model's config.json."""
        return ContextExtension(self.rope_theta, self.rope_scaling, self.max_position_embeddings)


class BenchmarkOptions(Options):
    """Options of benchmarks/suite."""

    roots: list[str] = Field(default=[], description="Folders that hold the suite's files.")
    limit: int | None = Field(default=None, ge=1, description="Problems per benchmark, sampled by seed. None: all.")
    seed: int = Field(default=0, ge=0, description="Seed of that sample and of generated problems.")
    system_prompt: str | None = Field(default=None, description="System message before every problem.")


class TrainingOptions(Options):
    """Options of training/policy."""

    recipe: Recipe = Field(
        default="luffy", description="Name of a file in training/config/recipe, or the path of your own recipe."
    )
    hardware: Annotated[str, file_of(HARDWARE)] = Field(
        default="cpu", description="Name of a file in training/config/hardware."
    )
    overrides: Overrides = Field(
        default=[],
        description="KEY=VALUE settings of the training configuration, for example attention=sdpa, "
        "rollouts=separate_async or data.order=easy_first. If a key is set twice, the later one wins.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of the training.")
    ignore_checks: bool = Field(
        default=False,
        description="Train on targets even if a blocking check failed or was never evaluated on them. The lineage "
        "names the check.",
    )


class SamplingOptions(Options):
    """How samples are drawn and graded."""

    temperature: float = Field(default=0.6, ge=0, description="Sampling temperature. 0: greedy decoding.")
    top_p: float = Field(
        default=0.95, gt=0, le=1, description="Sample from the likeliest tokens that together have this probability."
    )
    max_tokens: int = Field(default=8192, ge=1, description="Token limit of a response.")
    seed: int = Field(default=0, ge=0, description="Seed of the samples.")
    template: Annotated[str, AfterValidator(known_template)] = Field(
        default="training",
        description="Prompt template: training (the checkpoint's own), own, qwen, simplerl, prime, none or tokenizer.",
    )
    chat_template_kwargs: dict[str, Any] = Field(
        default={},
        description="Arguments of the model's chat template, in addition to those of the training, such as "
        "{enable_thinking: false}.",
    )
    replicas: int | None = Field(default=None, ge=1, description="Number of engines. None: as many as the GPUs allow.")
    tensor_parallel: Annotated[Any, AfterValidator(TypeAdapter(Literal["auto"] | PositiveInt).validate_python)] = Field(
        default="auto", description="GPUs per engine. auto: as few as the weights need."
    )
    trust_remote_code: bool = Field(default=False, description="Run code that the model folder contains.")
    grade_workers: int = Field(default=2, ge=1, description="Processes that compare answers.")
    grade_limit_s: float = Field(default=5.0, gt=0, description="Seconds allowed for comparing one answer.")


class EvaluationOptions(SamplingOptions):
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

    def fixed(self, base: bool = False) -> Self:
        """Return the options without a decision: the benchmarks' numbers of samples, or one sample for ``base``."""
        return self if not self.until_decided else self.model_copy(update={"samples": 1 if base else None})

    samples: Annotated[
        Any, AfterValidator(TypeAdapter(Literal["until_decided"] | PositiveInt | None).validate_python)
    ] = Field(
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


class DifficultyOptions(EvaluationOptions):
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


class ReportOptions(Options):
    """Options of report/scorecard."""

    inspect_logs: bool = Field(
        default=False, description="Also write the samples as logs of Inspect, which `inspect view` opens."
    )


class PromotionOptions(PromotionLimits, Options):
    """Options of registry/champion."""


class RetentionOptions(Options):
    """Options of operations/retention: what stays besides everything that is referred to."""

    keep_days: float = Field(default=30.0, ge=1, description="Outputs younger than this many days stay.")
    keep_champions: int = Field(
        default=3, ge=1, description="Number of champions that are kept completely, for rollbacks."
    )
    drop_checkpoints: bool = Field(
        default=True,
        description="Remove the trainer's own checkpoints and rollouts from complete old runs that stay.",
    )
    keep_run_days: float = Field(
        default=90.0,
        ge=1,
        description="Remove Dagster's records (events, logs, points of plots) of runs that ended more days ago.",
    )
    dry_run: bool = Field(default=True, description="Only list what would be removed.")
