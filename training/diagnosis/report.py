"""Write what was found in a run: as lines for a terminal, and as Markdown for the UI."""

from collections.abc import Iterator, Sequence

from core.metric_table import REWARD, SFT_LOSS, metric_of
from core.progress import sparkline
from core.text.excerpt import shorten
from core.text.markdown import escape_markdown
from training.diagnosis import AFTER
from training.diagnosis.causes import Finding, seen
from training.diagnosis.record import ROSE, RunRecord
from training.diagnosis.updates import FELL

LONGEST = 400  # characters of a text of a sample


def summary(record: RunRecord) -> str:
    """Describe in a sentence what happened to the reward, or to the loss of a supervised run."""
    steps, ends = len(record.records), record.ends(REWARD)
    if record.value("objective") == "sft" and (loss := record.ends(SFT_LOSS)) is not None:
        said = "it learns" if loss[1] <= FELL * loss[0] else "it has hardly fallen"
        return f"{steps} steps, supervised loss {loss[0]:.3g} at first and {loss[1]:.3g} at last: {said}"
    if ends is None:
        return f"{steps} steps; the reward of on-policy samples was not recorded at two steps or more"
    said = "it learns" if record.learns else f"it has not risen by {ROSE:g} and stayed there"
    return f"{steps} steps, reward of on-policy samples {ends[0]:.2f} at first and {ends[1]:.2f} at last: {said}"


def nothing_known() -> str:
    """Say that no test has evidence."""
    return f"I found no known fault: {len(seen(AFTER))} causes were looked for, and none has evidence in this run"


def lines(record: RunRecord, findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the report for a terminal: the first cause with its evidence, then the others in a line each."""
    yield summary(record)
    yield from unknown(record)
    if not findings:
        yield f"{nothing_known()} (docs/explain.md lists them)"
        return
    first, *others = findings
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
    for finding in others:
        yield f"also: {finding.cause.title}: {finding.evidence.text} (change {finding.cause.keys})"


def unknown(record: RunRecord) -> Iterator[str]:
    """Yield what the record of a run lacks, so that some tests had nothing to look at."""
    if not record.samples and record.value("objective") != "sft":
        yield "it has no samples (rollouts/), so nothing was said about the texts"
    if record.error:
        yield f"its last attempt ended: {record.error}"


def markdown(record: RunRecord, findings: Sequence[Finding]) -> str:
    """Format the report for the UI, in which no text of a sample is interpreted."""
    parts = [escape_markdown(text) for text in (summary(record), *unknown(record))]
    if not findings:
        parts.append(f"{nothing_known()}.")
    for number, finding in enumerate(findings):
        cause, evidence = finding.cause, finding.evidence
        title = f"**{'First cause' if not number else 'Also'}: {escape_markdown(cause.title)}**"
        parts.append(f"{title}: {escape_markdown(evidence.text)}. Change {escape_markdown(cause.keys)} ({cause.link}).")
        if not number and evidence.samples:
            rows = ["| prompt | response | gold | tokens | reward |", "|---|---|---|--:|--:|"]
            for one in evidence.samples:
                texts = " | ".join(
                    escape_markdown(shorten(text, LONGEST)) for text in (one.prompt, one.response, one.gold)
                )
                rows.append(f"| {texts} | {one.tokens} | {one.reward:g} |")
            parts.append("\n".join(rows))
    return "\n\n".join(parts)


def curve_titles(metric: str) -> dict[str, str]:
    """Return {metric: title} of a chart; empty without a metric."""
    row = metric_of(metric) if metric else None
    return {} if row is None else {metric: row.title(metric)}
