"""Causes that the samples show: box, thoughts, end token, length, and verifiers that fail or always say the same.

A symptom counts if the samples before the first update have it, and samples of the last step have it, too: a policy may
learn a format from its targets, and a training that goes wrong may unlearn one.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from core.errors import InputError
from core.metric_table import CUT_SHARE, REWARD
from core.model.prompts import OPEN_THOUGHTS
from core.text.patterns import compile_quick_pattern
from grading.answers.extraction import BOXED, extract_boxed
from grading.verifiers.spec import parse_spec
from training.diagnosis.record import AFTER, BEFORE, FIRST, Evidence, RunRecord, cause, share
from training.job.records.rollout_log import Rollout
from training.job.user_reward import SHIPPED, VERIFIERS

NO_BOX = 0.9  # share of the samples: a base model that boxes one answer in ten can be rewarded for it
TWICE = 0.5  # share of the samples: a template or a target does it in all of them
CUT = 0.5  # of the samples: such a reward mostly measures length
CUT_AT_START = 0.25  # a base model that rambles; less than this is the policy's own doing
GOES_ON = 0.5  # share of the cut samples: those that were not done have no answer before the limit
AFTERWORD = 8  # characters after an answer, more than a mark or a closing tag
FAILS = 0.01  # share of the samples: a verifier that works fails on none, and 5% in a step end the run
RIGHT, WRONG = 0.99, 0.01  # shares of the samples, which leave room for one in a hundred
CONTRADICTED = 0.5  # share of the groups: right answers to one problem agree

TWICE_IN_PROMPT = compile_quick_pattern(r"<think>\s{0,9}<think>\s{0,9}\Z")
STOPPED = compile_quick_pattern(r"the verifier of .{1,200} failed on|RewardError")
EARLY = BEFORE, FIRST, AFTER
DRAWN = FIRST, AFTER  # of what the policy writes: the checks of targets know their lengths and boxes
LIMIT = "data.max_response_length, or method.length_penalty"
REWARD_OF = "the verifier of the source (targets.source), or reward.custom_reward_function"


@cause(*EARLY, keys="the model's chat template (data.chat_template_kwargs), or the <think> at the start of the targets")
def thoughts_twice(record: RunRecord) -> Evidence | None:
    """The thoughts are opened twice."""
    for kind in ("off-policy", "on-policy"):
        samples = [one for one in record.all_samples if bool(one.prefix_length) == (kind == "off-policy")]
        chosen = [one for one in samples if _twice(one)]
        if samples and share(samples, chosen) >= TWICE:
            text = f"{share(samples, chosen):.0%} of {len(samples)} {kind} samples open their thoughts twice: the "
            return Evidence(f"{text}prompt ends with {OPEN_THOUGHTS}, and another follows", chosen, REWARD)
    return None


@cause(*DRAWN, keys="eos_token in the model's tokenizer_config.json, and eos_token_id in its generation_config.json")
def end_token(record: RunRecord) -> Evidence | None:
    """Responses go on after their answer, because the end token is missing."""

    def goes_on(sample: Rollout) -> bool:
        _, _, rest = sample.response.partition("\\boxed{")
        return record.is_cut(sample) and len(rest.partition("}")[2].strip()) > AFTERWORD

    text = f"gave their answer and went on to data.max_response_length={record.limit}"
    return _at_both_ends(record.both_ends, goes_on, GOES_ON * CUT, text, CUT_SHARE)


@cause(*DRAWN, keys=LIMIT)
def cut(record: RunRecord) -> Evidence | None:
    """Responses are cut at the limit."""
    ends = [share(samples, [one for one in samples if record.is_cut(one)]) for samples in record.both_ends]
    if not ends or ends[0] < CUT_AT_START or ends[-1] < CUT:
        return None
    text = f"{ends[-1]:.0%} of the on-policy samples end at data.max_response_length={record.limit}, {CUT:.0%} or more"
    return Evidence(text, [one for one in record.last if record.is_cut(one)], CUT_SHARE)


@cause(*DRAWN, keys="targets.system_prompt (ask for \\boxed{}), or the verifier of the source (targets.source)")
def no_box(record: RunRecord) -> Evidence | None:
    """Answers have no box."""
    if not _reads_boxes(record) or (list(record.samples) == [1] and _targets_show_boxes(record)):
        return None  # what the first step lacks, a policy learns from such targets
    whole = [[one for one in samples if not record.is_cut(one)] for samples in record.both_ends]
    text = "have no \\boxed{…}, where the verifier reads the answer"
    return _at_both_ends(whole, lambda sample: "\\boxed" not in sample.response, NO_BOX, text, REWARD)


@cause(*EARLY, keys=REWARD_OF)
def verifier_errors(record: RunRecord) -> Evidence | None:
    """The verifier fails."""
    failed = [one for one in record.all_samples if one.error]
    if STOPPED.search(record.error):
        return Evidence(f"the run ended: {record.error}", failed, "reward/errors")
    counted = len(record.all_samples)
    if not counted or len(failed) < FAILS * counted:
        return None
    text = f"the verifier failed on {len(failed)} of {counted} samples ({FAILS:.0%} or more): {failed[0].error}"
    return Evidence(text, failed, "reward/errors")


@cause(*EARLY, keys=REWARD_OF)
def always_right(record: RunRecord) -> Evidence | None:
    """The verifier finds every answer right."""
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


@cause(*EARLY, keys=REWARD_OF)
def always_wrong(record: RunRecord) -> Evidence | None:
    """The verifier finds every answer wrong."""
    own = [one for samples in record.both_ends for one in samples]
    if any(one.error for one in own) or sum(one.reward > 0 for one in own) > WRONG * len(own):
        return None
    whole = [one for one in record.off_policy if one.prefix_length >= one.tokens]
    refused = [one for one in whole if one.reward <= 0]
    if whole and share(whole, refused) >= 1 - WRONG:
        return Evidence(f"no sample is rewarded, and none of the {len(whole)} whole targets is", refused, REWARD)
    exact = [one for one in own if extract_boxed(one.response) == one.gold.strip() and not record.is_cut(one)]
    if whole or not exact:
        return None
    return Evidence(f"no sample is rewarded, although {len(exact)} have the gold answer in their box", exact, REWARD)


def by_prompt(samples: Iterable[Rollout]) -> list[Sequence[Rollout]]:
    """Return the samples in groups of one prompt."""
    groups: dict[str, list[Rollout]] = defaultdict(list)
    for one in samples:
        groups[one.prompt].append(one)
    return list(groups.values())


def _twice(sample: Rollout) -> bool:
    opened = sample.prompt.rstrip().endswith(OPEN_THOUGHTS)
    again = sample.response.lstrip().startswith(OPEN_THOUGHTS)
    return (opened and again) or TWICE_IN_PROMPT.search(sample.prompt[-64:]) is not None


def _reads_boxes(record: RunRecord) -> bool:
    """Return whether the reward is read from a box: as the verifiers of the sources say, or as the targets show."""
    section: Any = record.value("reward.custom_reward_function", {})
    if section.get("path") == SHIPPED:
        specs = json.loads((section.get("reward_kwargs") or {}).get(VERIFIERS, "{}"))
        with suppress(InputError):  # the record of a machine that has other verifiers: the targets show it, too
            return all(parse_spec(spec, name).places == (BOXED,) for name, spec in specs.items())
    return _targets_show_boxes(record)


def _targets_show_boxes(record: RunRecord) -> bool:
    return bool(record.off_policy) and all("\\boxed" in one.response for one in record.off_policy)


def _at_both_ends(
    ends: Sequence[Sequence[Rollout]], has_symptom: Callable[[Rollout], bool], least: float, text: str, curve: str
) -> Evidence | None:
    """Return evidence if a share of ``least`` of the samples of each of the ``ends`` has the symptom."""
    symptoms = [[one for one in samples if has_symptom(one)] for samples in ends]
    shares = [share(samples, having) for samples, having in zip(ends, symptoms, strict=True)]
    if not shares or min(shares) < least:
        return None
    when = "of the first samples" if len(shares) == 1 else f"of the first samples and {shares[-1]:.0%} of the last"
    return Evidence(f"{shares[0]:.0%} {when} {text} ({least:.0%} or more at both ends)", symptoms[-1], curve)
