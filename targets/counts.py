"""Count traces by filter, source, format and verdict, and by each of their metadata."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from grading.gold import suggest
from targets.filter import filters
from targets.source import OF_ONE_TRACE
from targets.target_tables import IdDigest
from targets.trace import Trace

MOST_VALUES = 200  # counted of each name, so that memory stays bounded
OTHERS = "(other values)"
UNFIT = frozenset({"gold_unparsed", "choice_gold"})  # filters of a gold answer that the verifier cannot compare
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

    read: IdDigest = field(default_factory=IdDigest)
    reasons: Counter[str] = field(default_factory=Counter)  # the first of each rejected trace
    all_reasons: Counter[str] = field(default_factory=Counter)
    sources: dict[str, Counter[str]] = field(default_factory=dict)
    response_formats: Counter[str] = field(default_factory=Counter)
    disagreements: Counter[str] = field(default_factory=Counter)
    breakdown: Breakdown = field(default_factory=Breakdown)
    log_probs: Counter[str] = field(default_factory=Counter)  # of kept targets, where a source has some
    golds: dict[str, list[str]] = field(default_factory=dict)  # the first of each source block
    unfit: Counter[str] = field(default_factory=Counter)  # traces of each source block whose gold fits no verifier
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
        for entry in filters.FILTERS:
            if removed := self.reasons[entry.name]:
                left -= removed
                steps.append({"filter": entry.name, "title": entry.title, "removed": removed, "left": left})
        return steps

    def hints(self) -> dict[str, str]:
        """Name, by source block, a verifier that fits its golds, if its own understands less than half of them."""
        unfit = (name for name, count in self.unfit.items() if count > self.by_source[name]["read"] / 2)
        suggested = {name: suggest(self.golds[name]) for name in unfit}
        return {name: text for name, text in suggested.items() if text}

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
