"""The table of known causes, which of them a run has, and the report for the terminal and the UI.

To add a cause, write its test in `samples` or `updates`, and its row in docs/explain.md and in `CAUSES`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.metric_table import REWARD, SFT_LOSS, metric_of
from core.progress import sparkline
from core.text.markdown import escape_markdown, shorten
from training.diagnosis import samples, updates
from training.diagnosis.record import AFTER, ROSE, Cause, Evidence, RunRecord, cause

LONGEST = 400  # characters of a text of a sample


@cause(AFTER, keys="first_stage.set, or a recipe without a first stage")
def first_stage(record: RunRecord) -> Evidence | None:
    """The first stage, from which the run starts, has a fault of its own."""
    if record.learns or record.first_stage is None or not (found := explain(record.first_stage)):
        return None
    return Evidence(f"of the first stage: {found[0].line()}", found[0].evidence.samples)


# Upstream causes come first: they also produce the symptoms of later ones.
CAUSES: tuple[Cause, ...] = (
    first_stage,
    updates.context,
    *(samples.thoughts_twice, samples.end_token, samples.cut, samples.no_box),
    *(samples.verifier_errors, samples.always_right, samples.always_wrong),
    *(updates.order, updates.no_calls, updates.stopped_calling, updates.alike, updates.no_signal),
    *(updates.stale, updates.drift, updates.learning_rate),
    *(updates.targets_not_learned, updates.loss_stays, updates.barely_moved, updates.collapse),
    *(updates.mostly_cut, updates.entropy, updates.stalled, updates.too_few_steps),
)


@dataclass(frozen=True)
class Finding:
    """A cause with the evidence for it."""

    cause: Cause
    evidence: Evidence

    def line(self) -> str:
        """Return all of it in one line."""
        return f"{self.cause.title}: {self.evidence.text}. Change {self.cause.keys}; see {self.cause.link}"


def seen(*when: str) -> list[Cause]:
    """Return the causes that can be seen at one of these moments."""
    return [cause for cause in CAUSES if set(when) & set(cause.when)]


def explain(record: RunRecord, *when: str) -> list[Finding]:
    """Return the causes for which ``record`` has evidence at a moment, `AFTER` by default; the first explains most."""
    tested = ((cause, cause.test(record)) for cause in seen(*(when or (AFTER,))))
    return [Finding(cause, evidence) for cause, evidence in tested if evidence is not None]


def summary(record: RunRecord) -> str:
    """Describe in a sentence what happened to the reward, or to the loss of a supervised run."""
    steps, ends = len(record.records), record.ends(REWARD)
    if record.value("objective") == "sft" and (loss := record.ends(SFT_LOSS)) is not None:
        outcome = "it learns" if loss[1] <= updates.FELL * loss[0] else "it has hardly fallen"
        return f"{steps} steps, supervised loss {loss[0]:.3g} at first and {loss[1]:.3g} at last: {outcome}"
    if ends is None:
        return f"{steps} steps; the reward of on-policy samples was not recorded at two steps or more"
    outcome = "it learns" if record.learns else f"it has not risen by {ROSE:g} and stayed there"
    return f"{steps} steps, reward of on-policy samples {ends[0]:.2f} at first and {ends[1]:.2f} at last: {outcome}"


def notes(record: RunRecord, findings: Sequence[Finding]) -> list[str]:
    """Return what the record of a run lacks, so that some tests had nothing to look at, and whether none has evidence.

    >>> notes(RunRecord({"objective": "sft"}, error="ValueError: x"), [Finding(CAUSES[0], Evidence(""))])
    ['its last attempt ended: ValueError: x']
    """
    result = []
    if not record.samples and record.value("objective") != "sft":
        result.append("it has no samples (rollouts/), so its texts were not examined")
    if record.error:
        result.append(f"its last attempt ended: {record.error}")
    if not findings:
        causes = f"{len(seen(AFTER))} causes were looked for, and none has evidence in this run"
        result.append(f"I found no known fault: {causes} (docs/explain.md lists them)")
    return result


def lines(record: RunRecord, findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the report for a terminal: the first cause with its evidence, then the others in a line each."""
    yield from (summary(record), *notes(record, findings))
    for first in findings[:1]:
        yield f"first cause: {first.cause.title}"
        yield f"  evidence: {first.evidence.text}"
        yield f"  change: {first.cause.keys}"
        yield f"  read: {first.cause.link}"
        if len(values := record.curve(first.evidence.curve)) > 1:
            ends = f"{values[0]:.3g} to {values[-1]:.3g}"
            yield f"  {first.evidence.curve}, step by step: {sparkline(values)} {ends}"
        for number, sample in enumerate(first.evidence.samples, start=1):
            yield f"  sample {number}, reward {sample.reward:g}, gold {sample.gold!r:.60}, {sample.tokens} tokens"
            yield f"    prompt:   {shorten(sample.prompt, LONGEST)!r}"
            yield f"    response: {shorten(sample.response, LONGEST)!r}"
    for finding in findings[1:]:
        yield f"also: {finding.cause.title}: {finding.evidence.text} (change {finding.cause.keys})"


def markdown(record: RunRecord, findings: Sequence[Finding]) -> str:
    """Format the report for the UI, in which no text of a sample is interpreted."""
    return "\n\n".join(escape_markdown(line.strip()) for line in lines(record, findings))


def curve_titles(metric: str) -> dict[str, str]:
    """Return {metric: title} of a chart; empty without a metric."""
    row = metric_of(metric) if metric else None
    return {} if row is None else {metric: row.title(metric)}
