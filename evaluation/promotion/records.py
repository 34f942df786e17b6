"""What the registry keeps: policies with their scores, the decisions about them, and the limits of a promotion."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from core.settings import Section

PACE = 50  # the number of decisions without a promotion that spend half of the error rate


class PromotionLimits(Section):
    """The section promotion: when a new policy becomes the champion."""

    max_ood_drop: float = Field(
        default=0.05, ge=0, le=1, description="Maximum loss on an out-of-domain benchmark, as a share of the samples."
    )
    max_truncated: float = Field(
        default=0.25, ge=0, le=1, description="Maximum share of samples cut at the token limit."
    )
    error_rate: float = Field(
        default=0.05, gt=0, lt=1, description="The chance of any false promotion, over all decisions together."
    )


@dataclass(frozen=True)
class ErrorBudget:
    """The error rate that ``tests`` comparisons have left.

    A comparison spends its level: it promotes a policy that is not better with at most that probability, whatever
    happened before. A promotion gives its level back: if it is true it was no error, and if it is false the one error
    that the rate is about has happened (online fallback; Tian and Ramdas, arXiv 1910.04900).

    >>> ErrorBudget(left=0.05, tests=0).level
    0.000980392156862745
    """

    left: float
    tests: int

    @property
    def level(self) -> float:
        """The level of the next comparison. All levels together are the error rate, however many there will be."""
        return self.left / (PACE + self.tests + 1)

    def after(self, level: float, *, promoted: bool) -> "ErrorBudget":
        """Return the budget after a comparison at ``level``."""
        return ErrorBudget(self.left if promoted else self.left - level, self.tests + 1)


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ScoreFile(_Record):
    """The GRADED file of one benchmark, and the digest of the problems that it answers."""

    file: str
    problems: str
    sequential: bool = False  # drawn until decided: not all problems are answered, and some more often than others


class Checkpoint(_Record):
    """A model with its scores by benchmark."""

    path: str
    digest: str
    scores: dict[str, ScoreFile]


class Contenders(_Record):
    """A policy, the base that it was trained from, and the model that it was compared with, if any."""

    policy: Checkpoint
    base: Checkpoint
    opponent: Checkpoint | None = None  # the champion, or the base, with its answers to the same problems


class Decision(_Record):
    """An outcome with every number behind it, or a move by hand."""

    promoted: bool
    outcome: Literal["promoted", "refused", "not_decided"] | None = None  # None: by hand, or nothing was compared
    test: str | None = None  # identity of what was compared: it spends its level once
    level: float | None = None  # the level of the test
    left: float | None = None  # the error rate that is left after this decision
    log_evidence: float | None = None  # natural logarithm of the e-value; it promotes from -log(level) on
    answers: int | None = None  # number of answers of each of the two models
    more_answers: int | None = None  # number for each model that would decide it, if they are like those so far
    above_base: dict[str, float] = {}  # differences from the base out of domain
    surely_above_base: dict[str, float] = {}  # the lower ends of their 90% intervals
    reasons: list[str]  # against a promotion, or given by who moved the champion by hand
    against: str | None = None  # digest of the checkpoint that the policy was compared with
    difference: float | None = None  # in-domain average, policy minus opponent; None where nothing was compared
    ood: dict[str, float] = {}  # differences out of domain
    truncated: dict[str, float] = {}  # the policy's share by benchmark
    contamination: dict[str, int] | None = None  # benchmark problems among the targets; None: not known
    by_hand: Literal["promote", "rollback"] | None = None
    by: str | None = None  # who moved it by hand


class PolicyRecord(_Record):
    """A policy and the decision about it. The champion's file holds the record of the last promotion."""

    policy: str  # folder
    checkpoint: str  # digest
    scores: dict[str, ScoreFile]
    decision: Decision
    time: str
    base: str | None = None  # digest
    scorecard: str | None = None  # folder
    limits: PromotionLimits | None = None
    previous: str | None = None  # digest of the champion before
    rejected: list[str] = []  # digests of policies that were rolled back
    replaced: str | None = None  # digest of the champion that a rollback removed
    dagster_run: str | None = None

    def files(self) -> list[str]:
        """Return every path that the record names."""
        return [self.policy, *([self.scorecard] if self.scorecard else []), *(s.file for s in self.scores.values())]

    def moved(self, before: Path, now: Path) -> Self:
        """Return the record after the folder ``before``, which holds what it names, became the folder ``now``."""

        def path(name: str) -> str:
            return str(now / Path(name).relative_to(before)) if Path(name).is_relative_to(before) else name

        scores = {name: score.model_copy(update={"file": path(score.file)}) for name, score in self.scores.items()}
        scorecard = self.scorecard and path(self.scorecard)
        return self.model_copy(update={"policy": path(self.policy), "scorecard": scorecard, "scores": scores})
