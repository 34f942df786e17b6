"""What an asset hands to the next one: where its data lies, the digest of that data, and facts that need no reading."""

from pydantic import BaseModel, ConfigDict

from core.code_digest import SHORT_DIGEST
from evaluation.promotion.champions import Checkpoint


class Reference(BaseModel):
    """The data of an asset."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    path: str
    digest: str

    @property
    def short(self) -> str:
        return self.digest[:SHORT_DIGEST]


class GeneratedReference(Reference):
    """targets/generated."""

    request: str  # identity of what was asked for; "" where the teacher's content is not known beforehand
    rows: int
    requested: int  # traces; more than rows where a budget ended


class PreparedReference(Reference):
    """targets/prepared."""

    rows: int
    read: int  # traces
    source: list[str]
    source_digest: str
    profile: str  # file of one flat row per target
    filter_counts: list[tuple[str, int]]  # title of a filter, traces left after it
    seed: int


class TrainReference(Reference):
    """targets/train."""

    rows: int
    heldout_rows: int
    heldout: str  # file
    profile: str  # file
    previous: str | None  # the profile of the version before
    prepared_digest: str
    source: list[str]
    source_digest: str


class ModelReference(Reference):
    """models/base."""

    source: str
    parameters: int
    architecture: str
    layers: int | None = None
    width: int | None = None
    vocabulary: int | None = None
    context_tokens: int | None = None


class SuiteReference(Reference):
    """benchmarks/suite."""

    digests: dict[str, str]  # of the problems and the number of samples, by benchmark


class PolicyReference(Reference):
    """training/policy and experiments/policy."""

    base: str  # digest of the model that it was trained from
    metrics: str  # file of the step metrics


class ScoresReference(Reference):
    """evals/* and ood/*: one benchmark."""

    checkpoint: str  # digest of the model
    problems: str  # digest, as in SuiteReference
    accuracy: float


class ExperimentReference(Reference):
    """experiments/scores: all benchmarks."""

    policy: Checkpoint
    metrics: str  # file of the step metrics
    samples: dict[str, str]  # files, by benchmark


class ScorecardReference(Reference):
    """report/scorecard."""

    policy: Checkpoint
    base: Checkpoint
    inspect_logs: str | None = None  # folder


class ChampionReference(Reference):
    """registry/champion."""

    promoted: bool
