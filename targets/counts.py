"""Count traces by filter, source, format and verdict, and by each of their metadata."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from grading.answers.gold import suggest
from targets.files import IdDigest
from targets.source_settings import OF_ONE_TRACE
from targets.trace import Trace

MOST_VALUES = 200  # counted of each name, so that memory stays bounded
OTHERS = "(other values)"
UNFIT = frozenset({"gold_unparsed", "choice_gold", "no_box"})  # filters of answers that are perhaps not mathematics
# Filters that take questions for the same which follow one template, and what helps.
ALIKE = {
    "contaminated": "put the words that all questions share into suffix or system_prompt, or choose other benchmarks",
    "near_duplicate": "if questions that differ in one word are different questions, set targets.near_duplicate to 100",
}
MOST_ALIKE = 0.25  # of the traces of a source
MOST_GOLDS = 1000


def _by_size(values: dict[str, Any]) -> dict[str, dict[str, int]]:
    ordered = sorted(values.items(), key=lambda item: (-item[1]["read"], item[0]))
    return {value: {"read": counts["read"], "kept": counts["kept"]} for value, counts in ordered}


@dataclass
class Tally:
    """Counts of the traces of some pieces. They travel as JSON, and add up in any order."""

    ids: IdDigest = field(default_factory=IdDigest)
    reasons: Counter[str] = field(default_factory=Counter)  # the first of each rejected trace
    all_reasons: Counter[str] = field(default_factory=Counter)
    response_formats: Counter[str] = field(default_factory=Counter)
    disagreements: Counter[str] = field(default_factory=Counter)
    log_probs: Counter[str] = field(default_factory=Counter)  # of kept targets, where a source has some
    unfit: Counter[str] = field(default_factory=Counter)  # traces of each source block that `UNFIT` rejects
    sources: dict[str, Counter[str]] = field(default_factory=dict)
    by_source: dict[str, Counter[str]] = field(default_factory=dict)  # of each source block: read, kept, first reasons
    metadata: Counter[str] = field(default_factory=Counter)  # of traces: {its metadata as JSON: count}

    def read(self, trace: Trace) -> None:
        """Count a trace with the decisions of the filters."""
        self.ids.add(trace.id)
        self.sources.setdefault(trace.source, Counter())["read"] += 1
        self.by_source.setdefault(trace.data_source, Counter())["read"] += 1
        self.unfit[trace.data_source] += not UNFIT.isdisjoint(trace.reasons)
        self._describe(trace.metadata)
        if trace.response_format:
            self.response_formats[trace.response_format] += 1
        if trace.upstream_correct is True and trace.verdict not in (None, "correct"):
            self.disagreements[f"source says correct, graded {trace.verdict}"] += 1
        elif trace.upstream_correct is False and trace.verdict == "correct":
            self.disagreements["source says wrong, graded correct"] += 1

    def keep(self, source: str, data_source: str, metadata: Mapping[str, str]) -> None:
        """Count a target."""
        self.sources.setdefault(source, Counter())["kept"] += 1
        self.by_source.setdefault(data_source, Counter())["kept"] += 1
        self._describe(metadata)

    def reject(self, trace: Trace) -> None:
        """Count a trace that does not become a target."""
        self.reasons[trace.reasons[0]] += 1
        self.by_source.setdefault(trace.data_source, Counter())[trace.reasons[0]] += 1
        self.all_reasons.update(trace.reasons)

    def _describe(self, metadata: Mapping[str, str]) -> None:
        if described := {name: value for name, value in metadata.items() if name not in OF_ONE_TRACE}:
            self.metadata[json.dumps(described)] += 1

    def merge(self, other: "Tally") -> None:
        """Add the counts of other pieces."""
        self.ids.merge(other.ids)
        for counts in FLAT:
            getattr(self, counts).update(getattr(other, counts))
        for counts in NESTED:
            for name, values in getattr(other, counts).items():
                getattr(self, counts).setdefault(name, Counter()).update(values)

    def to_json(self) -> str:
        """The text that `from_json` reads."""
        values = {name: getattr(self, name) for name in (*FLAT, *NESTED)}
        return json.dumps({**values, "ids": self.ids.record()})

    @classmethod
    def from_json(cls, text: str) -> "Tally":
        values = json.loads(text)
        tally = cls(IdDigest.of(values["ids"]))
        for name in FLAT:
            getattr(tally, name).update(values[name])
        for name in NESTED:
            getattr(tally, name).update({key: Counter(counts) for key, counts in values[name].items()})
        return tally


FLAT = ("reasons", "all_reasons", "response_formats", "disagreements", "log_probs", "unfit", "metadata")
NESTED = ("sources", "by_source")


@dataclass
class Counts:
    """The counts of the traces that were read, and of their outcomes."""

    filters: Sequence[tuple[str, str]]  # name and title, in the order in which they apply
    all: Tally = field(default_factory=Tally)  # without `Tally.metadata`, which grows with every value: see `breakdown`
    # By the name and the value of metadata; values that come late among many are counted together.
    breakdown: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)
    problems_of_golds: int = 0  # with traces that have different golds
    golds: Callable[[str], list[str]] = lambda _: []  # the first `MOST_GOLDS` gold answers of a source block

    def read(self, tally: Tally) -> None:
        """Add what was read of a piece; pieces come in order."""
        self.all.merge(replace(tally, metadata=Counter()))
        self._break_down(tally, "read")

    def decided(self, tally: Tally) -> None:
        """Add what became of pieces, in order, when all have been read."""
        self.all.merge(replace(tally, ids=IdDigest(), metadata=Counter()))
        self._break_down(tally, "kept")

    def _break_down(self, tally: Tally, what: str) -> None:
        for metadata, count in tally.metadata.items():
            for name, value in json.loads(metadata).items():
                values = self.breakdown.setdefault(name, {})
                known = value in values or len(values) < MOST_VALUES
                values.setdefault(value if known else OTHERS, Counter())[what] += count

    def filter_counts(self) -> list[dict[str, Any]]:
        """What each filter removed and left, in their order; filters that removed nothing are left out."""
        left, steps = self.all.ids.count, []
        for name, title in self.filters:
            if removed := self.all.reasons[name]:
                left -= removed
                steps.append({"filter": name, "title": title, "removed": removed, "left": left})
        return steps

    def hints(self) -> dict[str, str]:
        """Advice on source blocks: a fitting verifier, and what helps where most questions are alike.

        That without a name is on all of them.
        """
        advice = {name: "; ".join(self._advice(name, counts)) for name, counts in self.all.by_source.items()}
        if count := self.problems_of_golds:
            advice[""] = (
                f"{count:,} {'problem has' if count == 1 else 'problems have'} traces with gold answers of "
                "different texts: if they are not the same answer, correct them, or reject traces by targets.review"
            )
        return {name: text for name, text in advice.items() if text}

    def _advice(self, name: str, counts: Counter[str]) -> Iterator[str]:
        if self.all.unfit[name] > counts["read"] / 2 and (text := suggest(self.golds(name))):
            yield text
        for reason, remedy in ALIKE.items():
            if counts[reason] > MOST_ALIKE * counts["read"]:
                yield f"{reason} took {counts[reason] / counts['read']:.0%} of its traces: {remedy}"

    def metadata(self, kept: int) -> dict[str, str]:
        """The counts in the form that the files record."""
        of = self.all
        values = {
            "counts": {"read": of.ids.count, "kept": kept, **of.reasons},
            "all_reasons": of.all_reasons,
            "filter_counts": self.filter_counts(),
            "sources": {name: {"read": n["read"], "kept": n["kept"]} for name, n in sorted(of.sources.items())},
            "by_source": of.by_source,
            "breakdown": {name: _by_size(values) for name, values in sorted(self.breakdown.items())},
            "hints": self.hints(),
            "log_probs": of.log_probs,
            "response_formats": of.response_formats,
            "disagreements": of.disagreements,
            "ids_read": of.ids.record(),
        }
        return {name: json.dumps(value, sort_keys=name != "breakdown") for name, value in values.items()}
