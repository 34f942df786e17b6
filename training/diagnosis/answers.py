"""Tests of the texts of samples: box, thoughts, end token, length.

A symptom counts if the samples before the first update have it, and those of the last step have it, too: a policy may
learn a format from its targets, and a training that goes wrong may unlearn one.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from core.errors import InputError
from core.metric_table import CUT_SHARE, REWARD
from core.model.prompts import OPEN_THOUGHTS
from core.text.patterns import compile_quick_pattern
from grading.answers.extraction import BOXED
from grading.verifiers.spec import parse_spec
from training.diagnosis.record import LIVE_WINDOW, Evidence, RunRecord, share
from training.job.records.rollout_log import Rollout
from training.job.user_reward import SHIPPED, VERIFIERS

NO_BOX = 0.9  # share of the samples: a base model that boxes one answer in ten can be rewarded for it
TWICE = 0.5  # share of the samples: a template or a target does it in all of them
CUT = 0.5  # of the samples: such a reward mostly measures length
CUT_AT_START = 0.25  # a base model that rambles; less than this is the policy's own doing
GOES_ON = 0.5  # share of the cut samples: those that were not done have no answer before the limit
AFTERWORD = 8  # characters after an answer, more than a mark or a closing tag

TWICE_IN_PROMPT = compile_quick_pattern(r"<think>\s{0,9}<think>\s{0,9}\Z")


def no_box(record: RunRecord) -> Evidence | None:
    """Hardly a sample that ended has a box, where the verifier reads the answer."""
    if not _reads_boxes(record) or (list(record.samples) == [1] and _targets_show_boxes(record)):
        return None  # what the first step lacks, a policy learns from such targets
    return _at_both_ends(
        record,
        lambda sample: "\\boxed" not in sample.response,
        NO_BOX,
        "have no \\boxed{…}, where the verifier reads the answer",
        among=lambda sample: not record.is_cut(sample),
        curve=REWARD,
    )


def thoughts_twice(record: RunRecord) -> Evidence | None:
    """The prompt opens the thoughts, and so does the response or, once more, the prompt."""
    for kind in ("off-policy", "on-policy"):
        samples = [one for one in record.all_samples if bool(one.prefix_length) == (kind == "off-policy")]
        chosen = [one for one in samples if _twice(one)]
        if samples and share(samples, chosen) >= TWICE:
            text = f"{share(samples, chosen):.0%} of {len(samples)} {kind} samples open their thoughts twice: the "
            return Evidence(f"{text}prompt ends with {OPEN_THOUGHTS}, and another one follows", chosen, REWARD)
    return None


def no_end_token(record: RunRecord) -> Evidence | None:
    """The samples are cut at the limit although they had given their answer long before."""

    def goes_on(sample: Rollout) -> bool:
        _, _, rest = sample.response.partition("\\boxed{")
        return record.is_cut(sample) and len(rest.partition("}")[2].strip()) > AFTERWORD

    return _at_both_ends(
        record,
        goes_on,
        GOES_ON * CUT,
        f"gave their answer and went on to data.max_response_length={record.limit}",
        curve=CUT_SHARE,
    )


def cut(record: RunRecord) -> Evidence | None:
    """Most samples fill the limit of a response."""
    if not record.both_ends:
        return None
    ends = [share(samples, [one for one in samples if record.is_cut(one)]) for samples in record.both_ends]
    if ends[0] < CUT_AT_START or ends[-1] < CUT:
        return None
    text = f"{ends[-1]:.0%} of the on-policy samples end at data.max_response_length={record.limit}, {CUT:.0%} or more"
    samples = [one for one in record.both_ends[-1] if record.is_cut(one)]
    return Evidence(text, samples, CUT_SHARE)


def mostly_cut(record: RunRecord) -> Evidence | None:
    """Most samples of the last steps fill the limit of a response."""
    means = record.means(CUT_SHARE)
    if not means or means[-1] < CUT:
        return None
    text = (
        f"{means[-1]:.0%} of the samples end at data.max_response_length on average over the last {LIVE_WINDOW} steps"
    )
    return Evidence(f"{text} ({CUT:.0%} or more)", (), CUT_SHARE)


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
    record: RunRecord,
    has_symptom: Callable[[Rollout], bool],
    least: float,
    text: str,
    *,
    among: Callable[[Rollout], bool] = lambda _: True,
    curve: str,
) -> Evidence | None:
    """Return evidence if a share of ``least`` of the samples ``among`` those of either end has the symptom."""
    shares: list[float] = []
    shown: Sequence[Rollout] = ()
    for samples in record.both_ends:
        counted = [one for one in samples if among(one)]
        shown = [one for one in counted if has_symptom(one)]
        shares.append(share(counted, shown))
    if not shares or min(shares) < least:
        return None
    when = "of the first samples" if len(shares) == 1 else f"of the first samples and {shares[-1]:.0%} of the last"
    return Evidence(f"{shares[0]:.0%} {when} {text} ({least:.0%} or more at both ends)", shown, curve)
