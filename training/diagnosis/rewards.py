"""Tests of the rewards: verifiers that fail or always say the same, and groups from which nothing is learned."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from core.metric_table import OFF_POLICY_REWARD, REWARD
from core.text.patterns import compile_quick_pattern
from grading.answers.extraction import extract_boxed
from training.diagnosis.record import LIVE_WINDOW, Evidence, RunRecord, share
from training.job.records.rollout_log import Rollout

ERRORS = "reward/errors"
FAILS = 0.01  # share of the samples: a verifier that works fails on none, and 5% in a step end the run
RIGHT, WRONG = 0.99, 0.01  # shares of the samples, which leave room for one in a hundred
CONTRADICTED = 0.5  # share of the groups: right answers to one problem agree
SIGNAL = 0.1  # share of the groups: with fewer, one group of a batch of 16 teaches, or none
ENOUGH = 40  # on-policy samples: if none is right, fewer than one in 13 is, at 95% confidence
REWARDED, COLLAPSED = 0.1, 0.5  # rewards that never were higher cannot collapse; share of the best reward
IDENTICAL = 0.9  # share of the groups: only a temperature near 0 repeats a response to the letter
TEACHING = ("method.imitation", "method.teacher")

STOPPED = compile_quick_pattern(r"the verifier of .{1,200} failed on|RewardError")


def verifier_fails(record: RunRecord) -> Evidence | None:
    """The samples have no verdict, because their verifier failed."""
    failed = [one for one in record.all_samples if one.error]
    if STOPPED.search(record.error):
        return Evidence(f"the run ended: {record.error}", failed, ERRORS)
    counted = len(record.all_samples)
    if not counted or len(failed) < FAILS * counted:
        return None
    text = f"the verifier failed on {len(failed)} of {counted} samples ({FAILS:.0%} or more): {failed[0].error}"
    return Evidence(text, failed, ERRORS)


def always_right(record: RunRecord) -> Evidence | None:
    """Every sample is rewarded, and rewarded answers to one problem contradict each other."""
    for samples in record.both_ends:
        if any(one.reward > 1 for one in samples):  # then 1 need not be the reward of a right answer
            return None
        if sum(one.reward >= 1 for one in samples) < RIGHT * len(samples):
            return None
    groups = by_prompt(one for samples in record.both_ends for one in samples)
    several = [group for group in groups if len(group) > 1]
    contradicted = [group for group in several if len({extract_boxed(one.response) for one in group}) > 1]
    if not several or len(contradicted) < CONTRADICTED * len(several):
        return None
    text = f"all on-policy samples are rewarded, and in {len(contradicted)} of {len(several)} groups their answers "
    return Evidence(f"{text}differ ({CONTRADICTED:.0%} or more)", contradicted[0], REWARD)


def always_wrong(record: RunRecord) -> Evidence | None:
    """No sample is rewarded, not even the targets, or answers that are the gold answer to the letter."""
    own = [one for samples in record.both_ends for one in samples]
    if any(one.error for one in own) or sum(one.reward > 0 for one in own) > WRONG * len(own):
        return None
    whole = [one for one in record.off_policy if one.prefix_length >= one.tokens]
    refused = [one for one in whole if one.reward <= 0]
    if whole and share(whole, refused) >= 1 - WRONG:
        return Evidence(f"no sample is rewarded, and none of the {len(whole)} whole targets is", refused, REWARD)
    exact = [one for one in own if extract_boxed(one.response) == one.gold.strip() and not record.is_cut(one)]
    if not whole and exact:
        text = f"no sample is rewarded, although {len(exact)} have the gold answer in their box"
        return Evidence(text, exact, REWARD)
    return None


def alike(record: RunRecord) -> Evidence | None:
    """Hardly a group has samples of different rewards, from the first step on."""
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
        return Evidence(f"{text}{temperature}", identical[0], "groups/solve_partial")
    ends = record.ends(REWARD)
    hard = "the problems are too hard" if ends is None or ends[0] < 0.5 else "the problems are too easy"
    shown = groups[0] if groups else ()
    return Evidence(f"{text}: {hard} for the policy", shown, "groups/solve_partial")


def no_signal(record: RunRecord) -> Evidence | None:
    """No on-policy sample was ever rewarded."""
    curve = record.curve(REWARD)
    own = [one for one in record.all_samples if not one.prefix_length]
    teaches = any(one["data"].get("groups/solve_partial") for one in record.records)
    if teaches or any(value > 0 for value in curve) or any(one.reward > 0 or one.error for one in own):
        return None
    if not own and len(curve) >= LIVE_WINDOW:
        return Evidence(f"no on-policy sample was rewarded in {len(curve)} steps", (), REWARD)
    if len(own) < ENOUGH:
        return None
    during = f", nor any other in {len(curve)} steps" if curve else ""
    return Evidence(f"0 of {len(own)} on-policy samples are rewarded{during}", own, REWARD)


def collapse(record: RunRecord) -> Evidence | None:
    """The reward was there, and is gone."""
    means = record.means(REWARD)
    if record.learns or not means or max(means) < REWARDED or means[-1] >= COLLAPSED * max(means):
        return None
    at = [one["step"] for one in record.records if one["data"].get(REWARD) is not None]
    best = at[means.index(max(means)) + LIVE_WINDOW - 1]
    text = f"{means[-1]:.2f} on average over the last {LIVE_WINDOW} steps, and it was {max(means):.2f} at step {best}"
    return Evidence(text, record.both_ends[-1] if record.both_ends else (), REWARD)


def by_prompt(samples: Iterable[Rollout]) -> list[Sequence[Rollout]]:
    """Return the samples in groups of one prompt."""
    groups: dict[str, list[Rollout]] = defaultdict(list)
    for one in samples:
        groups[one.prompt].append(one)
    return list(groups.values())


def signal(data: Mapping[str, float]) -> float | None:
    """Return the share of groups with different rewards; a right target beside wrong samples counts."""
    if (partial := data.get("groups/solve_partial")) is None:
        return None
    guided = data.get("groups/off_policy", float(data.get("batch/off_policy_samples", 0) > 0))
    taught = data.get("groups/solve_none", 0.0) * guided if data.get(OFF_POLICY_REWARD, 0.0) > 0 else 0.0
    return partial + taught


def is_taught_otherwise(record: RunRecord) -> bool:
    """Return whether something beside the advantages teaches."""
    return record.value("method.type") == "relift" or any(record.value(key) for key in TEACHING)
