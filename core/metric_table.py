"""The metrics of a training: one row each, which the UI, the terminal, the pages and the docs read.

A metric that you log under a new name gets a row here and appears in every view that its row names.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from pathlib import Path
from typing import Any, Literal

from core.errors import InputError
from core.files import read_json_lines

REWARD, OFF_POLICY_REWARD = "reward/on_policy", "reward/off_policy"
VALIDATION_SCORE = "validation/score"
# And the name of a source, which may be that of any other metric.
SOURCE_REWARD, SOURCE_SOLVED, SOURCE_VALIDATION = "reward/source/", "solved/source/", "validation/source/"
ENTROPY, GRADIENT_NORM, SFT_LOSS = "actor/entropy", "actor/grad_norm", "actor/sft_loss"
OFF_POLICY_PROB = "actor/off_policy_prob"
RESPONSE_LENGTH, CUT_SHARE = "response_length/mean", "response_length/clip_ratio"
EPISODE_CALLS = "episode/calls"
KEPT_SHARE = "rollout_correction/kept_share"
LOG_RATIO_MEAN, LOG_RATIO_MAX = "rollout_correction/abs_log_ratio_mean", "rollout_correction/abs_log_ratio_max"
DRIFT_BY_AGE = "drift/age_"  # followed by the age
THROUGHPUT, ACTOR_MFU = "perf/throughput", "perf/mfu/actor"
GENERATED_TOKENS, STEP_TOKENS = "batch/generated_tokens", "perf/total_num_tokens"
PHASE_SECONDS = "timing_s/"  # followed by the phase
STEP_SECONDS, VALIDATION_SECONDS = f"{PHASE_SECONDS}step", f"{PHASE_SECONDS}testing"
DEVICE_HOURS = "run/device_hours"
MEMORY = "actor/perf/max_memory_allocated_gb"  # verl's GB are GiB


class View(Flag):
    """A place where a metric is plotted."""

    POLICY = auto()  # on the page of a trained policy in the Dagster UI
    CHAMPION = auto()  # there, compared with the run that trained the champion
    RECIPES = auto()  # on the pages that compare recipes, and in the scorecard
    TERMINAL = auto()  # as a sparkline while a run is under way
    # Only POLICY draws the members of a family.


NOWHERE = View(0)
CHARTS = View.POLICY | View.RECIPES


@dataclass(frozen=True)
class Metric:
    """One metric, or a family of them.

    Attributes:
        name: The name that verl or our hooks log. A name that ends with ``*`` stands for all with this prefix.
        label: title of its chart; ``{}`` in it is what ``*`` stands for.
        unit: of its values; "" for a plain number.
        better: which way it should go; "" where that depends.
        live: recorded as an observation while the training runs; ``metrics.jsonl`` and the trackers have every metric.
        views: The views that draw it.
        short: its title on the terminal, of at most six characters, if `View.TERMINAL` is among its views.
    """

    name: str
    label: str
    unit: str = ""
    better: Literal["higher", "lower", ""] = ""
    live: bool = True
    views: View = NOWHERE
    short: str = ""

    def covers(self, name: str) -> bool:
        """Return whether this row describes the metric ``name``, alone or as a member of its family."""
        return name.startswith(self.name[:-1]) if self.name.endswith("*") else name == self.name

    def title(self, name: str) -> str:
        """Return the label with its unit, for the metric ``name`` that it covers."""
        label = self.label.format(name.removeprefix(self.name.removesuffix("*")))
        return f"{label}, {self.unit}" if self.unit else label


# A family stands after the metrics of its prefix that have rows of their own: the first row that covers a name counts.
METRICS = (
    Metric(
        REWARD,
        "Reward of on-policy samples",
        better="higher",
        views=CHARTS | View.CHAMPION | View.TERMINAL,
        short="reward",
    ),
    Metric(SFT_LOSS, "Supervised loss", better="lower", views=View.POLICY),
    Metric(OFF_POLICY_REWARD, "Reward of off-policy samples", better="higher", views=CHARTS),
    Metric("reward/length_penalty", "Length penalty of on-policy samples", better="lower"),
    Metric("reward/errors", "Samples that the verifier failed on", better="lower", views=View.POLICY),
    Metric(f"{SOURCE_REWARD}*", "Reward of source {}", better="higher", views=View.POLICY),
    Metric(
        f"{SOURCE_SOLVED}*", "Groups of source {} with a solved sample", "share", better="higher", views=View.POLICY
    ),
    Metric("critic/score/mean", "Reward, all samples", better="higher", views=View.RECIPES),
    Metric(VALIDATION_SCORE, "Validation: reward without demonstrations", better="higher", views=View.POLICY),
    Metric(f"{SOURCE_VALIDATION}*", "Validation: reward of source {}", better="higher"),
    Metric(RESPONSE_LENGTH, "Response length", "tokens", views=CHARTS | View.CHAMPION | View.TERMINAL, short="length"),
    Metric(ENTROPY, "Entropy", "nats", views=CHARTS | View.CHAMPION),
    Metric("actor/off_policy_entropy", "Entropy at off-policy tokens", "nats"),
    Metric("actor/entropy_coeff", "Entropy coefficient", views=View.POLICY),
    Metric("actor/entropy_loss", "Entropy loss"),
    Metric("actor/pg_loss", "Policy loss", views=CHARTS),
    Metric("actor/on_pg_loss", "Policy loss, on-policy tokens"),
    Metric("actor/off_pg_loss", "Policy loss, off-policy tokens"),
    Metric("actor/sft_coef", "Coefficient of the supervised loss"),
    Metric("actor/loss", "Sum of all losses"),
    Metric(GRADIENT_NORM, "Gradient norm", views=CHARTS),
    Metric("actor/lr", "Learning rate"),
    Metric("groups/solve_none", "Groups without a right sample", "share", better="lower", views=CHARTS),
    Metric("groups/solve_partial", "Groups with right and wrong samples", "share"),
    Metric("groups/solve_all", "Groups with only right samples", "share", views=CHARTS),
    Metric("groups/off_policy", "Groups with off-policy samples", "share"),
    Metric("groups/supervised", "Groups that the gate trains by the supervised loss", "share"),
    Metric("groups/dropped", "Groups dropped because an off-policy sample failed", better="lower"),
    Metric("groups/*", "Groups: {}"),
    Metric(CUT_SHARE, "Samples cut at the length limit", "share", better="lower", views=CHARTS),
    Metric("episode/turns", "Turns of an episode", views=View.POLICY),
    Metric(EPISODE_CALLS, "Calls of tools in an episode", views=CHARTS),
    Metric("episode/failed_calls", "Calls that a tool refused", better="lower", views=View.POLICY),
    Metric("episode/truncated", "Episodes that were cut", "share", better="lower"),
    Metric("episode/observation_tokens", "Tokens of observations in an episode"),
    Metric("episode/tool_seconds", "Time of the tools in an episode", "s"),
    Metric("episode/off_policy_*", "Episodes that start off-policy: {}"),
    Metric(
        OFF_POLICY_PROB,
        "Probability of off-policy tokens",
        better="higher",
        views=View.POLICY | View.CHAMPION,
    ),
    Metric("actor/on_policy_prob", "Probability of on-policy tokens", views=View.POLICY),
    Metric("distillation/kl", "Policy against teacher, KL", "nats", better="lower", views=CHARTS),
    Metric("actor/off_ratio_mean", "Shaped weight of off-policy tokens", views=View.POLICY),
    Metric("actor/off_ratio_max_clip_frac", "Off-policy tokens at method.off_policy.max", "share"),
    Metric("actor/off_ratio_min_clip_frac", "Off-policy tokens at method.off_policy.min", "share"),
    Metric("actor/ppo_kl", "On-policy tokens: log-ratio to the step's start", views=View.POLICY),
    Metric("actor/on_pg_clipfrac", "On-policy tokens clipped", "share", views=CHARTS),
    Metric("actor/perf/*", "Memory of the actor: {}", "GiB"),
    Metric("actor/*", "Update: {}"),
    Metric(KEPT_SHARE, "Correction: tokens kept", "share", views=View.POLICY),
    Metric(LOG_RATIO_MEAN, "vLLM against actor, mean |log-ratio|", better="lower", views=View.POLICY),
    Metric(LOG_RATIO_MAX, "vLLM against actor, largest |log-ratio|", better="lower"),
    Metric("rollout_correction/kl", "vLLM against actor, KL (mean of -log w)", "nats", views=View.POLICY),
    Metric("rollout_correction/k3_kl", "vLLM against actor, KL (k3)", "nats", better="lower", views=View.POLICY),
    Metric("rollout_correction/ess", "Effective sample size", "share", better="higher", views=View.POLICY),
    Metric("rollout_correction/prefix_is_p05", "Mean ratio up to a token, 5% quantile", views=View.POLICY),
    Metric("rollout_correction/prefix_is_p50", "Mean ratio up to a token, median"),
    Metric("rollout_correction/prefix_is_p95", "Mean ratio up to a token, 95% quantile", views=View.POLICY),
    Metric("rollout_correction/rejected_rows", "Correction: samples with a rejected token", "share", better="lower"),
    Metric("rollout_correction/first_rejected_position", "Correction: position of the first rejected token"),
    Metric("staleness/mean", "Age of on-policy tokens, mean", "updates", better="lower", views=View.POLICY),
    Metric("staleness/max", "Age of on-policy tokens, largest", "updates", better="lower", views=View.POLICY),
    Metric("staleness/partial_share", "Samples with tokens of several versions", "share", views=View.POLICY),
    Metric("staleness/dropped_samples", "Samples dropped because of their age", better="lower", views=View.POLICY),
    Metric(f"{DRIFT_BY_AGE}*", "Drift of tokens of age {}", better="lower", views=View.POLICY),
    Metric("idle/trainer", "Time that the trainer waited", "share", better="lower", views=View.POLICY),
    Metric("idle/rollouts", "Time without generation", "share", better="lower", views=View.POLICY),
    Metric(GENERATED_TOKENS, "Generated tokens"),
    Metric("batch/off_policy_tokens", "Off-policy tokens"),
    Metric("batch/off_policy_samples", "Off-policy samples"),
    Metric("batch/off_policy_prompts", "Prompts with off-policy samples"),
    Metric("batch/generation_requests", "Requests to generate"),
    Metric("batch/missing_samples", "Samples that failed", better="lower"),
    Metric("batch/*", "Batch: {}"),
    Metric("replay/stored", "Experiences stored for replay", live=False),
    Metric("replay/retired", "Prompts retired from replay", live=False),
    Metric("relift/waiting", "Unsolved prompts that wait for a supervised update", live=False),
    Metric("relift/targets", "Targets of a supervised update", live=False),
    Metric("relift/sft_loss", "Loss of a supervised update", better="lower", live=False),
    Metric("relift/grad_norm", "Gradient norm of a supervised update", live=False),
    Metric(THROUGHPUT, "Tokens per second and device", better="higher", views=View.POLICY),
    Metric(ACTOR_MFU, "Model FLOPs utilisation of the update", "share", better="higher", views=View.POLICY),
    Metric(STEP_TOKENS, "Tokens of a step, prompts and responses", live=False),
    Metric(STEP_SECONDS, "Duration of a step", "s", better="lower", views=CHARTS),
    Metric(VALIDATION_SECONDS, "Duration of a validation", "s", better="lower"),
    Metric(f"{PHASE_SECONDS}*", "Duration of {}", "s", better="lower"),
    Metric(DEVICE_HOURS, "Device-hours", "h", live=False, views=View.POLICY),
    # verl's own, which nothing here draws.
    Metric("critic/*", "Values over the samples: {}", live=False),
    Metric("response_length/*", "Response length: {}", "tokens", live=False),
    Metric("response_length_non_aborted/*", "Response length without aborted samples: {}", "tokens", live=False),
    Metric("response/aborted_ratio", "Samples that were aborted", "share", better="lower", live=False),
    Metric("prompt_length/*", "Prompt length: {}", "tokens", live=False),
    Metric("num_turns/*", "Turns of a conversation: {}", live=False),
    Metric("global_seqlen/*", "Tokens per rank: {}", live=False),
    Metric("timing_per_token_ms/*", "Duration per token of {}", "ms", live=False),
    Metric("perf/*", "Performance: {}", live=False),
    Metric("training/*", "State of verl's trainer: {}", live=False),
)
MACHINE = ("timing_", "perf/", "actor/perf/", "idle/", "run/")  # prefixes of metrics that depend on the machine


def metric_of(name: str) -> Metric | None:
    """Return the row of the metric ``name``; None if the table has none.

    >>> metric_of("drift/age_4").name
    'drift/age_*'
    """
    return next((metric for metric in METRICS if metric.covers(name)), None)


def title_of(name: str) -> str:
    """Return the title of a chart of the metric ``name``, which has a row."""
    if (metric := metric_of(name)) is None:
        raise ValueError(f"core/metric_table.py has no row for the metric {name!r}")
    return metric.title(name)


def live_values(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return what is observed of a step while the training runs: live metrics that are finite, with four digits.

    >>> live_values({"reward/on_policy": 0.123456, "actor/loss": math.nan, "replay/stored": 3, "weather/rain": 1})
    {'reward/on_policy': 0.1235}
    """
    rows = {name: metric_of(name) for name, value in metrics.items() if is_finite(value)}
    return {name: float(f"{metrics[name]:.4g}") for name, row in rows.items() if row is not None and row.live}


def is_finite(value: Any) -> bool:
    """Return whether ``value`` is a number that a curve can show."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def measures_machine(name: str) -> bool:
    """Return whether the metric ``name`` measures the machine, so that it differs each time when a run is made again.

    >>> measures_machine("timing_s/gen"), measures_machine("actor/grad_norm")
    (True, False)
    """
    return name.startswith(MACHINE)


def titles(view: View, recorded: Iterable[str] = ()) -> dict[str, str]:
    """Return {name: title} of the metrics that ``view`` draws, in the order of the table.

    A family contributes the members that are among the ``recorded`` names.

    >>> titles(View.CHAMPION)["actor/entropy"]
    'Entropy, nats'
    >>> [name for name in titles(View.POLICY, ["drift/age_10", "drift/age_2"]) if name.startswith("drift/")]
    ['drift/age_2', 'drift/age_10']
    """
    members = sorted({name for name in recorded if metric_of(name)}, key=lambda name: (len(name), name))
    drawn: dict[str, str] = {}
    for metric in METRICS:
        if view in metric.views:
            family = metric.name.endswith("*")
            names = [name for name in members if metric_of(name) is metric] if family else [metric.name]
            drawn |= {name: metric.title(name) for name in names}
    return drawn


def read_step_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the metrics of a training's steps; InputError if a line is not ``{"step": N, "data": {name: number}}``."""
    records = read_json_lines(path)
    for number, record in enumerate(records, start=1):
        data = record.get("data") if isinstance(record, dict) and isinstance(record.get("step"), int) else None
        if not isinstance(data, dict) or not all(isinstance(value, int | float) for value in data.values()):
            expected = '{"step": N, "data": {name: number}}'
            raise InputError(f"{path}, line {number}: expected {expected}; give the metrics.jsonl of a run")
    return records
