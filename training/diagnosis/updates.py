"""Tests of the updates: order of the data, staleness, drift, learning rate, steps, and what the targets taught."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from core.files import read_object
from core.metric_table import ENTROPY, GRADIENT_NORM, LOG_RATIO_MEAN, OFF_POLICY_PROB, REWARD, SFT_LOSS
from core.text.patterns import compile_quick_pattern
from training.diagnosis.record import LIVE_WINDOW, Evidence, RunRecord
from training.diagnosis.rewards import is_taught_otherwise, signal

ORDERED = 0.5  # of the variance of the prompts' lengths lies between steps; a shuffled set has (k - 1) / (N - 1)
OVER_CHANCE = 3.0  # times that share
FEWEST_STEPS, FEWEST_PROMPTS = 4, 4  # the fewest for which such a share can be measured
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
FEW = 20  # steps; recorded runs that learn show it after as many

TOO_SHORT = compile_quick_pattern(r"is greater than the derived max_model_len")
NOT_FINITE = compile_quick_pattern(r"FloatingPointError|is (?:nan|inf)\b")


def context(record: RunRecord) -> Evidence | None:
    """An override promises positions that the model was not made for, and does not stretch them."""
    override: Mapping[str, object] = record.value("actor_rollout_ref.model.override_config") or {}
    promised, needed = override.get("max_position_embeddings"), record.value("actor_rollout_ref.rollout.max_model_len")
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


def _own_context(record: RunRecord) -> int | None:
    """Return the positions that the config.json of the run's model names; None if it is not there, or names none."""
    model = record.value("actor_rollout_ref.model.path")
    if not model or not (file := Path(model) / "config.json").is_file():
        return None
    settings = read_object(file)
    return (settings | settings.get("text_config", {})).get("max_position_embeddings")


def order(record: RunRecord) -> Evidence | None:
    """The prompts of a step are alike, and differ from those of other steps."""
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


def between_steps(steps: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the share of a variance that lies between steps, and what it is on average if the values are shuffled.

    >>> between_steps([[1.0, 1.0], [3.0, 3.0]])
    (1.0, 0.3333333333333333)
    """
    values = np.concatenate([np.asarray(step) for step in steps])
    total = float(((values - values.mean()) ** 2).sum())
    within = sum(float(((np.asarray(step) - np.mean(step)) ** 2).sum()) for step in steps)
    return (1.0 - within / total if total else 0.0), (len(steps) - 1) / (len(values) - 1)


def stale(record: RunRecord) -> Evidence | None:
    """Samples come, or will come, from old weights, and nothing corrects for that."""
    ages, corrected = record.ends("staleness/mean"), record.value("method.correction.type", "none") != "none"
    allowed = 0 if record.value("rollouts", "sync") == "sync" else record.value("max_staleness", 0)
    if not record.records and not corrected and allowed >= RISKY:
        return Evidence(f"samples may be {allowed} updates old ({RISKY} or more), and nothing corrects for it")
    if record.learns or corrected or ages is None or ages[1] < OLD:
        return None
    text = f"on-policy tokens are {ages[1]:.1f} updates old on average ({OLD:g} or more), and nothing corrects for it"
    return Evidence(text, record.both_ends[-1] if record.both_ends else (), "staleness/mean")


def drift(record: RunRecord) -> Evidence | None:
    """Fresh samples have other probabilities under vLLM than under the actor."""
    apart, ages = record.ends(LOG_RATIO_MEAN), record.ends("staleness/mean")
    if record.learns or apart is None or (ages is not None and ages[0] > 0) or apart[0] < APART:
        return None
    text = f"the mean |log-ratio| of vLLM and actor is {apart[0]:.2g} in the first steps ({APART:g} or more)"
    return Evidence(text, record.both_ends[0] if record.both_ends else (), LOG_RATIO_MEAN)


def learning_rate(record: RunRecord) -> Evidence | None:
    """The policy forgets what it could do before: targets, or rewards while the gradients grow."""
    rate, last = record.value("actor_rollout_ref.actor.optim.lr"), record.both_ends[-1] if record.both_ends else ()
    if NOT_FINITE.search(record.error):
        return Evidence(f"with lr={rate} the run ended: {record.error}", last, GRADIENT_NORM)
    if record.learns:
        return None
    prob, entropy = record.ends(OFF_POLICY_PROB), record.ends(ENTROPY)
    # Where all samples of each group are rewarded alike, the gradient is almost 0 and says nothing about the rate.
    norm = record.ends(GRADIENT_NORM, lambda data: is_taught_otherwise(record) or signal(data) != 0)
    if prob is not None and prob[1] < FORGOTTEN * prob[0]:
        text = f"with lr={rate} the targets' probability fell from {prob[0]:.2f} to {prob[1]:.2f} (to less than "
        return Evidence(f"{text}{FORGOTTEN:.0%}) while they were trained on", last, OFF_POLICY_PROB)
    if norm is not None and norm[0] > 0 and norm[1] >= GREW * norm[0]:
        grew = f"with lr={rate} the gradient norm grew from {norm[0]:.2g} to {norm[1]:.2g} ({GREW:g} times or more)"
        spread = "" if entropy is None else f", the entropy from {entropy[0]:.2g} to {entropy[1]:.2g} nats"
        return Evidence(f"{grew}{spread}", last, GRADIENT_NORM)
    return None


def targets_not_learned(record: RunRecord) -> Evidence | None:
    """The probability of the targets stays where it was, although the policy does not have them yet."""
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


def stalled(record: RunRecord) -> Evidence | None:
    """The probability of the targets has not risen for a long time, and the policy does not have them yet."""
    means = record.means(OFF_POLICY_PROB)
    if not means or means[-1] >= LEARNED or (since := len(means) - 1 - means.index(max(means))) < STALLED:
        return None
    text = f"their probability is {means[-1]:.2f} on average over the last {LIVE_WINDOW} steps, and has not risen for"
    return Evidence(f"{text} {since} steps", (), OFF_POLICY_PROB)


def entropy_explodes(record: RunRecord) -> Evidence | None:
    """The policy samples ever more at random."""
    means = record.means(ENTROPY)
    if not means or means[-1] <= EXPLODED * (start := min(record.curve(ENTROPY)[0], means[0])):
        return None
    text = f"the entropy is {means[-1]:.2f} nats on average over the last {LIVE_WINDOW} steps, and it was {start:.2f}"
    return Evidence(f"{text} at the start", (), ENTROPY)


def loss_stays(record: RunRecord) -> Evidence | None:
    """A supervised run has nearly the loss with which it began."""
    loss = record.ends(SFT_LOSS)
    if record.value("objective") != "sft" or loss is None or loss[0] < LOW or loss[1] <= FELL * loss[0]:
        return None
    text = f"{loss[0]:.3g} at first and {loss[1]:.3g} at last (more than {FELL:.0%} of it)"
    return Evidence(text, (), SFT_LOSS)


def barely_moved(record: RunRecord) -> Evidence | None:
    """The learning rate and the number of steps leave the weights where they were: Adam moves each by the rate."""
    rate, steps = record.value("actor_rollout_ref.actor.optim.lr"), len(record.records)
    if record.learns or rate is None or not steps or (moved := float(rate) * steps) >= MOVED:
        return None
    text = f"{steps} steps with lr={rate} move a weight by about {moved:.1g} at most (less than {MOVED:g})"
    return Evidence(text, (), GRADIENT_NORM)


def too_few_steps(record: RunRecord) -> Evidence | None:
    """The reward has not risen, in so few steps that it need not have."""
    reward, steps = record.ends(REWARD), len(record.records)
    if record.error or reward is None or steps >= FEW or reward[1] > reward[0]:
        return None
    text = f"the reward has not risen in {steps} steps; recorded runs that learn show it after {FEW} or more"
    return Evidence(text, (), REWARD)
