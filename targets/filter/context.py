"""The tools of the filters in one process: settings, verifiers, token lengths, and the benchmarks."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from core.model.token_counts import load_lengths
from grading.contamination import BenchmarkIndex, Match
from grading.spec_values import MATHEMATICS
from grading.verifiers.spec import VerifierSpec, open_verifier
from grading.verifiers.verifier import Verifier
from targets.filter.damaged_encoding import repair
from targets.settings import TargetSettings
from targets.source_settings import Source
from targets.trace import Trace

BOXED_MATHEMATICS = VerifierSpec("math")
ANSWER_TAG = "tag:answer"  # a place of answers
MATCHES_IN_MEMORY = 4096  # problems: their traces follow each other


@dataclass(frozen=True)
class FilterInputs:
    """The inputs from which a process makes its `FilterContext`; they can be sent to another process.

    ``benchmarks``: None where contamination is not looked for.
    """

    config: TargetSettings
    tokenizer: Path
    benchmarks: BenchmarkIndex | None = None

    def open(self) -> "FilterContext":
        return FilterContext(self)


class FilterContext:
    """The tools of the filters. Use it as a context manager, or call `close` to end the comparing processes."""

    def __init__(self, inputs: FilterInputs) -> None:
        self.config = inputs.config
        self.lengths = load_lengths(inputs.tokenizer, inputs.config.chat_template_kwargs)
        self._sources = {str(source.name): source for source in inputs.config.sources}
        self._specs = {name: source.spec for name, source in self._sources.items()}
        self._spec_digests = {name: spec.digest for name, spec in self._specs.items()}
        self._verifiers: dict[VerifierSpec, Verifier] = {}
        self.looks_for_benchmarks = inputs.benchmarks is not None
        search = inputs.benchmarks.match if inputs.benchmarks else _no_match
        self._search: Callable[[str], Match | None] = lru_cache(MATCHES_IN_MEMORY)(search)

    def benchmark_match(self, problem: str) -> Match | None:
        """The benchmark problem that ``problem`` repeats, whatever its encoding."""
        return self._search(repair(problem))

    def __enter__(self) -> "FilterContext":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for verifier in self._verifiers.values():
            verifier.close()

    def source(self, trace: Trace) -> Source:
        """The source of ``trace``."""
        return self._sources[trace.data_source]

    def is_mathematics(self, trace: Trace) -> bool:
        """Whether the answers of the source are mathematics."""
        return self._specs[trace.data_source].type in MATHEMATICS

    def is_boxed(self, trace: Trace) -> bool:
        """Whether the answers of the source are mathematics in a box."""
        return self._specs[trace.data_source] == BOXED_MATHEMATICS

    def reads_answer_tag(self, trace: Trace) -> bool:
        """Whether the verifier of the source looks for <answer>."""
        return ANSWER_TAG in self._specs[trace.data_source].places

    def verifier(self, trace: Trace) -> Verifier:
        """The verifier of the source; sources of one spec share it."""
        spec = self._specs[trace.data_source]
        if spec not in self._verifiers:
            self._verifiers[spec] = open_verifier(spec, workers=1, limit_s=self.config.grade_limit_s)
        return self._verifiers[spec]


def _no_match(problem: str) -> None:
    """Without benchmarks, match no problem."""
