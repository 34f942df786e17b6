"""The sections that the assets read; `StageSettings` has all of them."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from core.model.context_extension import ContextExtension
from core.settings import Section, UserPath, without_nulls
from core.shared_settings import InterpreterSettings, StorageSettings
from evaluation.promotion.records import PromotionLimits
from evaluation.settings import (
    BenchmarkSettings,
    DifficultySettings,
    EvaluationSettings,
    GenerateSettings,
    ReportSettings,
    SuiteSettings,
)
from grading.tools.settings import ToolSettings
from targets.settings import CheckSettings, SplitSettings, TargetSettings
from training.settings import TrainingSettings


class ModelSettings(Section):
    """Options of models/base."""

    source: Annotated[str, UserPath()] = Field(
        default="embedded", description="'embedded', a model folder, a .gguf file, or a hub id."
    )
    revision: str | None = Field(default=None, description="Branch, tag or commit of a hub id.")
    rope_theta: float | None = Field(
        default=None,
        gt=0,
        description="Base of the rotary position embedding. None: the value in the model's config.json.",
    )
    rope_scaling: Annotated[dict[str, Any], AfterValidator(without_nulls)] = Field(
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


class RetentionSettings(Section):
    """Options of operations/retention: what stays besides everything that is referred to."""

    keep_days: float = Field(default=30.0, ge=1, description="Outputs younger than this many days stay.")
    keep_champions: int = Field(default=3, ge=1, description="Number of champions that stay complete, for rollbacks.")
    drop_checkpoints: bool = Field(
        default=True, description="Remove the trainer's checkpoints and rollouts from complete old runs that stay."
    )
    keep_run_days: float = Field(
        default=90.0,
        ge=1,
        description="Remove Dagster's records (events, logs, points of plots) of runs that ended more days ago.",
    )
    dry_run: bool = Field(default=True, description="Only list what would be removed.")


class StageSettings(Section):
    """All settings that an asset reads, by section."""

    storage: StorageSettings = StorageSettings()
    interpreter: InterpreterSettings = InterpreterSettings()
    generate: GenerateSettings | None = None
    tools: ToolSettings | None = None
    targets: TargetSettings = TargetSettings()
    difficulty: DifficultySettings | None = None
    split: SplitSettings = SplitSettings()
    model: ModelSettings = ModelSettings()
    suite: SuiteSettings = SuiteSettings()
    benchmarks: BenchmarkSettings = BenchmarkSettings()
    checks: CheckSettings = CheckSettings()
    training: TrainingSettings = TrainingSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    report: ReportSettings = ReportSettings()
    promotion: PromotionLimits = PromotionLimits()
    retention: RetentionSettings = RetentionSettings()
