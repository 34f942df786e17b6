"""Causes that the configuration and the curves show: order, staleness, drift, rate, steps, what the targets taught."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np

from core.files import read_object
from core.metric_table import (
    CUT_SHARE,
    ENTROPY,
    EPISODE_CALLS,
    GRADIENT_NORM,
    LOG_RATIO_MEAN,
    OFF_POLICY_PROB,
    OFF_POLICY_REWARD,
    REWARD,
    SFT_LOSS,
)
from core.text.patterns import compile_quick_pattern
from training.diagnosis.record import AFTER, BEFORE, FIRST, LIVE, LIVE_WINDOW, Evidence, RunRecord, cause
from training.diagnosis.samples import CUT, EARLY, LIMIT, by_prompt

ORDERED = 0.5  # of the variance of the prompts' lengths lies between steps; a shuffled set has (k - 1) / (N - 1)
OVER_CHANCE = 3.0  # times that share
FEWEST_STEPS, FEWEST_PROMPTS = 4, 4  # the fewest for which such a share can be measured
SIGNAL = 0.1  # share of the groups: with fewer, one group of a batch of 16 teaches, or none
ENOUGH = 40  # on-policy samples: if none is right, fewer than one in 13 is, at 95% confidence
REWARDED, COLLAPSED = 0.1, 0.5  # rewards that never were higher cannot collapse; share of the best reward
IDENTICAL = 0.9  # share of the groups: only a temperature near 0 repeats a response to the letter
OLD = 2.0  # updates: with 1 and no correction the embedded task is learned, with 4 it is not (docs/results/drift.md)
APART = 0.1  # mean |log w| of fresh samples; bfloat16 and int4 rollouts of recorded runs that learn have at most 0.05
FORGOTTEN = 0.8  # share of their first probability that targets have left; those that are trained on rise
GREW = 10.0  # times the first gradient norm; recorded runs that learn have at most 9
LEARNED = 0.9  # a probability of the targets that leaves nothing to learn
RISE = 0.005  # of the probability of a target between its first use and its last; taught ones rise by 0.01 and more
RISKY = 4  # updates that samples of a run which is about to start may be old
EXPLODED = 3.0  # times the entropy of the start
STALLED = 50  # steps without a rise of the targets' probability
FELL, LOW = 0.95, 0.1  # share of its first loss that a run which learns has left; a loss that need not fall, in nats
MOVED = 1e-6  # of a weight: one step at the usual rate of a large model
CALLS, STOPPED = 0.1, 0.5  # calls of tools per sample; share of the most that a policy which still calls makes
FEW = 20  # steps; recorded runs that learn show it after as many

TOO_SHORT = compile_quick_pattern(r"is greater than the derived max_model_len")
NOT_FINITE = compile_quick_pattern(r"FloatingPointError|is (?:nan|inf)\b")
CALLING = LIVE, AFTER
TEACHING = ("method.imitation", "method.teacher")
LR, SOLVED = "actor_rollout_ref.actor.optim.lr", "groups/solve_partial"


@cause(
    *EARLY,
    keys="model.rope_theta or model.rope_scaling with model.max_position_embeddings (docs/gpu.md), or a shorter "
    "data.max_response_length",
)
def context(record: RunRecord) -> Evidence | None:
    """The context is shorter than a prompt and its response."""
    override: Mapping[str, object] = record.value("actor_rollout_ref.model.override_config") or {}
    promised = override.get("max_position_embeddings")
    needed = record.value("actor_rollout_ref.rollout.max_model_len")
    if TOO_SHORT.search(record.error):
        return Evidence(f"vLLM ended: {record.error}")
    if promised is None or any("rope" in key for key in override):
        return None
    own = _own_context(record)
    if own is not None and needed is not None and needed <= own:
        return None
    text = (
        f"override_config.max_position_embeddings={promised} lets {needed} tokens of prompt and response through, and "
        f"nothing stretches the positions of a model that was made for {'fewer' if own is None else own}"
    )
    longest = sorted((one for samples in record.both_ends for one in samples), key=lambda one: -one.tokens)
    return Evidence(text, longest, REWARD)


@cause(AFTER, keys="data.shuffle=true and data.order=shuffle")
def order(record: RunRecord) -> Evidence | None:
    """The prompts come in an order."""
    lengths = [[float(len(text)) for text in {one.prompt for one in samples}] for samples in record.samples.values()]
    steps = [step for step in lengths if len(step) >= FEWEST_PROMPTS]
    if record.learns or len(steps) < FEWEST_STEPS:
        return None
    between, chance = between_steps(steps)
    if between < max(ORDERED, OVER_CHANCE * chance):
        return None
    text = (
        f"{between:.0%} of the variance of the prompts' lengths lies between the steps; shuffled, it would be "
        f"{chance:.0%} (from {fmean(steps[0]):.0f} characters on average at first to {fmean(steps[-1]):.0f} at last)"
    )
    first, last = record.both_ends[0], record.both_ends[-1]
    return Evidence(text, [*first[:1], *last[:2]], REWARD)


@cause(
    AFTER,
    keys="actor_rollout_ref.rollout.temperature, targets.pass_rate (problems of another difficulty), or a recipe with "
    "off-policy samples",
)
def alike(record: RunRecord) -> Evidence | None:
    """The samples of a group are all alike, so nothing is learned from them."""
    if record.learns or is_taught_otherwise(record) or any(0 < one.reward < 1 for one in record.all_samples):
        return None
    signals = [teaching for one in record.records if (teaching := signal(one["data"])) is not None]
    if not signals or sum(signals) / len(signals) >= SIGNAL:
        return None
    groups = [group for samples in record.both_ends for group in by_prompt(samples) if len(group) > 1]
    identical = [group for group in groups if len({one.response for one in group}) == 1]
    text = f"in {sum(signals) / len(signals):.1%} of the groups samples differ in their reward (less than {SIGNAL:.0%})"
    if groups and len(identical) >= IDENTICAL * len(groups):
        temperature = record.value("actor_rollout_ref.rollout.temperature")
        text += f"; in {len(identical)} of {len(groups)} groups all samples are the same text: rollout.temperature is "
        return Evidence(f"{text}{temperature}", identical[0], SOLVED)
    ends = record.ends(REWARD)
    hard = "the problems are too hard" if ends is None or ends[0] < 0.5 else "the problems are too easy"
    shown = groups[0] if groups else ()
    return Evidence(f"{text}: {hard} for the policy", shown, SOLVED)


@cause(*CALLING, keys="the recipe: targets that call tools teach it (luffy, sft_rl), or a model that calls some")
def no_calls(record: RunRecord) -> Evidence | None:
    """The policy does not call its tools."""
    means = record.means(EPISODE_CALLS)
    if record.learns or not means or (most := max(means)) >= CALLS:
        return None
    text = f"it makes {most:.2f} calls per sample on average over {LIVE_WINDOW} steps at most (less than {CALLS:g})"
    return Evidence(text, record.last, EPISODE_CALLS)


@cause(*CALLING, keys=f"a lower {LR}, or more targets that call tools (method.prefix.n)")
def stopped_calling(record: RunRecord) -> Evidence | None:
    """The policy has stopped calling its tools."""
    means = record.means(EPISODE_CALLS)
    if record.learns or not means or max(means) < CALLS or means[-1] >= STOPPED * max(means):
        return None
    text = f"it makes {means[-1]:.2f} calls per sample on average over the last {LIVE_WINDOW} steps, and it made"
    return Evidence(f"{text} {max(means):.2f} (less than {STOPPED:.0%})", record.last, EPISODE_CALLS)


@cause(
    *(FIRST, LIVE, AFTER),
    keys="the recipe: imitate first, with sft or sft_rl (training.recipe), or take easier problems (targets.pass_rate)",
)
def no_signal(record: RunRecord) -> Evidence | None:
    """The model cannot do this yet: none of its own answers is right."""
    curve = record.curve(REWARD)
    own = [one for one in record.all_samples if not one.prefix_length]
    teaches = any(one["data"].get(SOLVED) for one in record.records)
    if teaches or any(value > 0 for value in curve) or any(one.reward > 0 or one.error for one in own):
        return None
    if not curve and record.value("tools") and record.off_policy:
        return None  # before any update: the targets teach it to call its tools
    if not own and len(curve) >= LIVE_WINDOW:
        return Evidence(f"no on-policy sample was rewarded in {len(curve)} steps", (), REWARD)
    if len(own) < ENOUGH:
        return None
    during = f", nor any other in {len(curve)} steps" if curve else ""
    return Evidence(f"0 of {len(own)} on-policy samples are rewarded{during}", own, REWARD)


@cause(
    *(BEFORE, AFTER),
    keys="rollouts.max_staleness, or method.correction.type=seq-mask-tis (docs/results/drift.md)",
)
def stale(record: RunRecord) -> Evidence | None:
    """The samples are stale."""
    ages = record.ends("staleness/mean")
    corrected = record.value("method.correction.type", "none") != "none"
    allowed = 0 if record.value("rollouts", "sync") == "sync" else record.value("max_staleness", 0)
    if not record.records and not corrected and allowed >= RISKY:
        return Evidence(f"samples may be {allowed} updates old ({RISKY} or more), and nothing corrects for it")
    if record.learns or corrected or ages is None or ages[1] < OLD:
        return None
    text = f"on-policy tokens are {ages[1]:.1f} updates old on average ({OLD:g} or more), and nothing corrects for it"
    return Evidence(text, record.last, "staleness/mean")


@cause(
    AFTER,
    keys="rollout.precision, actor_rollout_ref.model.override_config, or method.correction.type",
)
def drift(record: RunRecord) -> Evidence | None:
    """vLLM samples from another policy than the one that is trained."""
    apart = record.ends(LOG_RATIO_MEAN)
    ages = record.ends("staleness/mean")
    if record.learns or apart is None or (ages is not None and ages[0] > 0) or apart[0] < APART:
        return None
    text = f"the mean |log-ratio| of vLLM and actor is {apart[0]:.2g} in the first steps ({APART:g} or more)"
    return Evidence(text, record.first, LOG_RATIO_MEAN)


@cause(AFTER, keys=LR)
def learning_rate(record: RunRecord) -> Evidence | None:
    """The learning rate is too high."""
    rate, last = record.value("actor_rollout_ref.actor.optim.lr"), record.last
    if NOT_FINITE.search(record.error):
        return Evidence(f"with lr={rate} the run ended: {record.error}", last, GRADIENT_NORM)
    if record.learns:
        return None
    prob = record.ends(OFF_POLICY_PROB)
    entropy = record.ends(ENTROPY)
    # Where all samples of each group are rewarded alike, the gradient is almost 0 and says nothing about the rate.
    taught = [one for one in record.records if is_taught_otherwise(record) or signal(one["data"]) != 0]
    norm = replace(record, records=taught).ends(GRADIENT_NORM)
    if prob is not None and prob[1] < FORGOTTEN * prob[0]:
        text = f"with lr={rate} the targets' probability fell from {prob[0]:.2f} to {prob[1]:.2f} (to less than "
        return Evidence(f"{text}{FORGOTTEN:.0%}) while they were trained on", last, OFF_POLICY_PROB)
    if norm is not None and norm[0] > 0 and norm[1] >= GREW * norm[0]:
        grew = f"with lr={rate} the gradient norm grew from {norm[0]:.2g} to {norm[1]:.2g} ({GREW:g} times or more)"
        spread = "" if entropy is None else f", the entropy from {entropy[0]:.2g} to {entropy[1]:.2g} nats"
        return Evidence(f"{grew}{spread}", last, GRADIENT_NORM)
    return None


@cause(AFTER, keys=f"{LR}, or method.off_policy.reshape.gamma")
def targets_not_learned(record: RunRecord) -> Evidence | None:
    """The targets are not learned."""
    prob = record.ends(OFF_POLICY_PROB)
    if record.learns or prob is None or prob[1] >= LEARNED:
        return None
    rise, over = prob[1] - prob[0], "over the run"
    if record.learned is not None:
        uses, first, last = (record.learned[name].to_numpy() for name in ("uses", "first_prob", "last_prob"))
        again = (uses > 1) & np.isfinite(last - first)
        if again.any():
            rise, over = (
                float((last - first)[again].mean()),
                f"between first and last use of {int(again.sum())} targets",
            )
    if rise >= RISE:
        return None
    text = f"the targets' probability is {prob[1]:.2f}, and it changed by {rise:+.4f} {over} (less than {RISE:g})"
    return Evidence(text, record.off_policy, OFF_POLICY_PROB)


@cause(AFTER, keys=LR)
def loss_stays(record: RunRecord) -> Evidence | None:
    """The supervised loss does not fall."""
    loss = record.ends(SFT_LOSS)
    if record.value("objective") != "sft" or loss is None or loss[0] < LOW or loss[1] <= FELL * loss[0]:
        return None
    text = f"{loss[0]:.3g} at first and {loss[1]:.3g} at last (more than {FELL:.0%} of it)"
    return Evidence(text, (), SFT_LOSS)


@cause(AFTER, keys=f"{LR}, or trainer.total_epochs")
def barely_moved(record: RunRecord) -> Evidence | None:
    """The policy barely moved."""
    rate, steps = record.value("actor_rollout_ref.actor.optim.lr"), len(record.records)
    if record.learns or rate is None or not steps or (moved := float(rate) * steps) >= MOVED:
        return None
    text = f"{steps} steps with lr={rate} move a weight by about {moved:.1g} at most (less than {MOVED:g})"
    return Evidence(text, (), GRADIENT_NORM)


@cause(LIVE, AFTER, keys=f"a lower {LR}, or policy.source=best with trainer.test_freq")
def collapse(record: RunRecord) -> Evidence | None:
    """The reward collapses."""
    means = record.means(REWARD)
    if record.learns or not means or max(means) < REWARDED or means[-1] >= COLLAPSED * max(means):
        return None
    at = [one["step"] for one in record.records if one["data"].get(REWARD) is not None]
    best = at[means.index(max(means)) + LIVE_WINDOW - 1]
    text = f"{means[-1]:.2f} on average over the last {LIVE_WINDOW} steps, and it was {max(means):.2f} at step {best}"
    return Evidence(text, record.last, REWARD)


@cause(LIVE, keys=LIMIT)
def mostly_cut(record: RunRecord) -> Evidence | None:
    """Most samples are cut at the limit."""
    means = record.means(CUT_SHARE)
    if not means or means[-1] < CUT:
        return None
    text = (
        f"{means[-1]:.0%} of the samples end at data.max_response_length on average over the last {LIVE_WINDOW} steps"
    )
    return Evidence(f"{text} ({CUT:.0%} or more)", (), CUT_SHARE)


@cause(LIVE, keys=f"a lower {LR}, or imitate first")
def entropy(record: RunRecord) -> Evidence | None:
    """The answers become random."""
    means = record.means(ENTROPY)
    if not means or means[-1] <= EXPLODED * (start := min(record.curve(ENTROPY)[0], means[0])):
        return None
    text = f"the entropy is {means[-1]:.2f} nats on average over the last {LIVE_WINDOW} steps, and it was {start:.2f}"
    return Evidence(f"{text} at the start", (), ENTROPY)


@cause(LIVE, keys=f"{LR}, or stop the run")
def stalled(record: RunRecord) -> Evidence | None:
    """The targets are learned no further."""
    means = record.means(OFF_POLICY_PROB)
    if not means or means[-1] >= LEARNED or (since := len(means) - 1 - means.index(max(means))) < STALLED:
        return None
    text = f"their probability is {means[-1]:.2f} on average over the last {LIVE_WINDOW} steps, and has not risen for"
    return Evidence(f"{text} {since} steps", (), OFF_POLICY_PROB)


@cause(AFTER, keys="trainer.total_epochs or trainer.total_training_steps")
def too_few_steps(record: RunRecord) -> Evidence | None:
    """The run is too short to tell."""
    reward, steps = record.ends(REWARD), len(record.records)
    if record.error or reward is None or steps >= FEW or reward[1] > reward[0]:
        return None
    text = f"the reward has not risen in {steps} steps; recorded runs that learn show it after {FEW} or more"
    return Evidence(text, (), REWARD)


def between_steps(steps: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the share of a variance that lies between steps, and what it is on average if the values are shuffled.

    >>> between_steps([[1.0, 1.0], [3.0, 3.0]])
    (1.0, 0.3333333333333333)
    """
    values = np.concatenate([np.asarray(step) for step in steps])
    total = float(((values - values.mean()) ** 2).sum())
    within = sum(float(((np.asarray(step) - np.mean(step)) ** 2).sum()) for step in steps)
    return (1.0 - within / total if total else 0.0), (len(steps) - 1) / (len(values) - 1)


def _own_context(record: RunRecord) -> int | None:
    """Return the positions that the config.json of the run's model names; None if it is not there, or names none."""
    model = record.value("actor_rollout_ref.model.path")
    if not model or not (file := Path(model) / "config.json").is_file():
        return None
    settings = read_object(file)
    return (settings | settings.get("text_config", {})).get("max_position_embeddings")


def signal(data: Mapping[str, float]) -> float | None:
    """Return the share of groups with different rewards; a right target among wrong samples counts."""
    if (partial := data.get("groups/solve_partial")) is None:
        return None
    guided = data.get("groups/off_policy", float(data.get("batch/off_policy_samples", 0) > 0))
    taught = data.get("groups/solve_none", 0.0) * guided if data.get(OFF_POLICY_REWARD, 0.0) > 0 else 0.0
    return partial + taught


def is_taught_otherwise(record: RunRecord) -> bool:
    """Return whether something besides the advantages teaches."""
    return record.value("method.type") == "relift" or any(record.value(key) for key in TEACHING)
