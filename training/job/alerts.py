"""Warnings while a training runs: the metrics that are watched, and the moments when a warning is sent.

Each rule about a curve compares means over the last ``window`` steps, so that one step alone alarms nobody. It warns
once, and again only after things were in order in between. A metric that is no number ends the training
(`training.job.records.metrics_log.require_finite`).
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ConfigDict, Field

from core.errors import validated
from core.metric_table import CUT_SHARE, ENTROPY, OFF_POLICY_PROB, REWARD, WATCHED

LEARNED = 0.9  # a policy that gives off-policy tokens this probability has no more to learn from them
REWARDED = 0.1  # rewards that never were higher cannot collapse


class AlertOptions(BaseModel):
    """Section ``run.alerts``: the thresholds; None switches a rule off."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    window: int = Field(default=10, ge=1)  # steps
    reward_share: float | None = Field(default=0.5, gt=0, lt=1)  # share of the best reward of on-policy samples
    entropy_factor: float | None = Field(default=3.0, gt=1)  # times the entropy of the start
    cut_share: float | None = Field(default=0.5, gt=0, le=1)  # share of the samples that are cut at the length limit
    off_policy_steps: int | None = Field(default=50, ge=1)  # without a rise of the targets' probability
    uncorrected_staleness: int | None = Field(default=4, ge=1)  # max_staleness without a rollout correction

    @classmethod
    def of(cls, config: DictConfig) -> "AlertOptions":
        """Read the thresholds of a run; InputError for a value that is not allowed."""
        return validated(cls, OmegaConf.to_container(config.run.alerts), "run.alerts.")


def uncorrected_staleness(config: DictConfig) -> str | None:
    """Warn before the start if the samples of a run will be stale and nothing corrects for that."""
    limit, staleness = AlertOptions.of(config).uncorrected_staleness, config.max_staleness
    corrected = config.mixed.rollout_correction.type != "none"
    if config.rollouts == "sync" or corrected or limit is None or staleness < limit:
        return None
    return (
        f"samples may be {staleness} updates old, and nothing corrects for that: on the embedded task no such run "
        "learned. Set mixed.rollout_correction.type=seq-mask-tis; docs/results/drift.md compares the corrections"
    )


class Alerts:
    """Checks the metrics of one step after the other."""

    def __init__(self, options: AlertOptions) -> None:
        self._options = options
        self._recent: dict[str, deque[float]] = {name: deque(maxlen=options.window) for name in WATCHED.values()}
        self._start: dict[str, float] = {}  # of the first step; the mean over the first window where that is less
        self._best: dict[str, float] = {}  # largest mean over a window so far
        self._best_step: dict[str, int] = {}
        self._warned: set[str] = set()

    def check(self, step: int, metrics: Mapping[str, Any]) -> list[str]:
        """Return the warnings that are new since this step, in one line each."""
        means: dict[str, float] = {}
        for name, recent in self._recent.items():
            if name not in metrics:
                continue
            recent.append(metrics[name])
            if len(recent) == self._options.window:
                means[name] = sum(recent) / len(recent)
                self._start.setdefault(name, min(recent[0], means[name]))
                if means[name] > self._best.get(name, float("-inf")):
                    self._best[name], self._best_step[name] = means[name], step
        wrong = dict(self._wrong(step, means))
        new = [text for rule, text in wrong.items() if rule not in self._warned]
        self._warned = set(wrong)
        return new

    def _wrong(self, step: int, means: Mapping[str, float]) -> Iterator[tuple[str, str]]:
        options = self._options
        over = f"on average over the last {options.window} steps"
        reward, entropy, off_policy, cut = map(means.get, (REWARD, ENTROPY, OFF_POLICY_PROB, CUT_SHARE))
        if reward is not None and options.reward_share is not None:
            best = self._best[REWARD]
            if best >= REWARDED and reward < options.reward_share * best:
                was = f"it was {best:.2f} at step {self._best_step[REWARD]}"
                yield "reward_share", f"the reward collapses: {reward:.2f} {over}, and {was}"
        if entropy is not None and options.entropy_factor is not None:
            start = self._start[ENTROPY]
            if entropy > options.entropy_factor * start:
                was = f"it was {start:.2f} at the start"
                yield "entropy_factor", f"the entropy explodes: {entropy:.2f} nats {over}, and {was}"
        if off_policy is not None and options.off_policy_steps is not None and off_policy < LEARNED:
            steps = step - self._best_step[OFF_POLICY_PROB]
            if steps >= options.off_policy_steps:
                stalls = f"is {off_policy:.2f} {over}, and has not risen for {steps} steps"
                yield "off_policy_steps", f"the policy does not learn the targets: their probability {stalls}"
        if cut is not None and options.cut_share is not None and cut >= options.cut_share:
            yield "cut_share", f"{cut:.0%} of the samples are cut at data.max_response_length {over}"
