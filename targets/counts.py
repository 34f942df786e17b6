"""Count traces by filter, source, format and verdict, and by each of their metadata."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from grading.answers.gold import suggest
from targets.filter.filters import Filter
from targets.source import OF_ONE_TRACE
from targets.target_tables import IdDigest
from targets.trace import Trace

MOST_VALUES = 200  # counted of each name, so that memory stays bounded
OTHERS = "(other values)"
UNFIT = frozenset({"gold_unparsed", "choice_gold", "no_box"})  # filters of answers that are perhaps not mathematics
# Filters that take questions for the same which follow one template, and what helps.
ALIKE = {
    "contaminated": "put the words that all questions share into suffix or system_prompt, or choose other benchmarks",
    "near_duplicate": "if questions that differ in one word are different ones, set targets.near_duplicate to 100",
}
MOST_ALIKE = 0.25  # of the traces of a source
MOST_GOLDS = 1000


class Breakdown:
    """Counts traces by each of their metadata."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, Counter[str]]] = {}

    def add(self, trace: Trace, what: str) -> None:
        """Count ``trace`` as ``what`` ("read" or "kept"). Values that come late among many are counted together."""
        for name, value in trace.metadata.items():
            if name in OF_ONE_TRACE:
                continue
            values = self._counts.setdefault(name, {})
            if value not in values and len(values) >= MOST_VALUES:
                value = OTHERS
            values.setdefault(value, Counter())[what] += 1

    def values(self) -> dict[str, dict[str, dict[str, int]]]:
        """{name: {value: {"read": n, "kept": n}}}, the most frequent first."""
        return {name: _by_size(values) for name, values in sorted(self._counts.items())}


def _by_size(values: dict[str, Any]) -> dict[str, dict[str, int]]:
    ordered = sorted(values.items(), key=lambda item: (-item[1]["read"], item[0]))
    return {value: {"read": counts["read"], "kept": counts["kept"]} for value, counts in ordered}


@dataclass
class Counts:
    """The counts of the traces that were read, and of their outcomes."""

    filters: Sequence[Filter]  # in the order in which they apply
    read: IdDigest = field(default_factory=IdDigest)
    reasons: Counter[str] = field(default_factory=Counter)  # the first of each rejected trace
    all_reasons: Counter[str] = field(default_factory=Counter)
    sources: dict[str, Counter[str]] = field(default_factory=dict)
    response_formats: Counter[str] = field(default_factory=Counter)
    disagreements: Counter[str] = field(default_factory=Counter)
    breakdown: Breakdown = field(default_factory=Breakdown)
    log_probs: Counter[str] = field(default_factory=Counter)  # of kept targets, where a source has some
    golds: dict[str, list[str]] = field(default_factory=dict)  # the first of each source block
    unfit: Counter[str] = field(default_factory=Counter)  # traces of each source block that `UNFIT` rejects
    by_source: dict[str, Counter[str]] = field(default_factory=dict)  # of each source block: read, kept, first reasons

    def add(self, trace: Trace) -> None:
        self.read.add(trace.id)
        self.sources.setdefault(trace.source, Counter())["read"] += 1
        self.breakdown.add(trace, "read")
        self.by_source.setdefault(trace.data_source, Counter())["read"] += 1
        self.unfit[trace.data_source] += not UNFIT.isdisjoint(trace.reasons)
        golds = self.golds.setdefault(trace.data_source, [])
        if trace.gold and len(golds) < MOST_GOLDS:
            golds.append(trace.gold)
        if trace.response_format:
            self.response_formats[trace.response_format] += 1
        if trace.upstream_correct is True and trace.verdict not in (None, "correct"):
            self.disagreements[f"source says correct, graded {trace.verdict}"] += 1
        elif trace.upstream_correct is False and trace.verdict == "correct":
            self.disagreements["source says wrong, graded correct"] += 1

    def keep(self, trace: Trace) -> None:
        self.sources[trace.source]["kept"] += 1
        self.by_source[trace.data_source]["kept"] += 1
        self.breakdown.add(trace, "kept")

    def reject(self, trace: Trace) -> None:
        self.reasons[trace.reasons[0]] += 1
        self.by_source[trace.data_source][trace.reasons[0]] += 1
        self.all_reasons.update(trace.reasons)

    def filter_counts(self) -> list[dict[str, Any]]:
        """What each filter removed and left, in their order; filters that removed nothing are left out."""
        left, steps = self.read.count, []
        for entry in self.filters:
            if removed := self.reasons[entry.name]:
                left -= removed
                steps.append({"filter": entry.name, "title": entry.title, "removed": removed, "left": left})
        return steps

    def hints(self) -> dict[str, str]:
        """Advice on source blocks: a verifier that fits their golds, and what helps where most questions are alike."""
        advice = {name: "; ".join(self._advice(name, counts)) for name, counts in self.by_source.items()}
        return {name: text for name, text in advice.items() if text}

    def _advice(self, name: str, counts: Counter[str]) -> Iterator[str]:
        if self.unfit[name] > counts["read"] / 2 and (text := suggest(self.golds[name])):
            yield text
        for reason, remedy in ALIKE.items():
            if counts[reason] > MOST_ALIKE * counts["read"]:
                yield f"{reason} took {counts[reason] / counts['read']:.0%} of its traces: {remedy}"

    def metadata(self, kept: int) -> dict[str, str]:
        """The counts in the form that the files record."""
        values = {
            "counts": {"read": self.read.count, "kept": kept, **self.reasons},
            "all_reasons": self.all_reasons,
            "filter_counts": self.filter_counts(),
            "sources": {name: {"read": n["read"], "kept": n["kept"]} for name, n in sorted(self.sources.items())},
            "by_source": self.by_source,
            "breakdown": self.breakdown.values(),
            "hints": self.hints(),
            "log_probs": self.log_probs,
            "response_formats": self.response_formats,
            "disagreements": self.disagreements,
            "ids_read": [self.read.count, self.read.hexdigest()],
        }
        return {name: json.dumps(value, sort_keys=name != "breakdown") for name, value in values.items()}
