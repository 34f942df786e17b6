"""The tools of the filters in one process: settings, verifiers, token lengths, and the benchmarks."""

import logging
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from core.files import scratch_folder
from core.model.token_counts import load_lengths
from grading.contamination import BenchmarkIndex, Match
from grading.spec_values import MATHEMATICS
from grading.verifiers.spec import VerifierSpec, open_verifier
from grading.verifiers.verifier import Verifier
from targets.config import PrepareConfig
from targets.filter.filter_memo import BENCHMARK, Memory
from targets.source_settings import Source
from targets.trace import Trace

BOXED_MATHEMATICS = VerifierSpec("math")
ANSWER_TAG = "tag:answer"  # a place of answers
MATCHES_IN_MEMORY = 4096  # problems: their traces follow each other


@dataclass(frozen=True)
class FilterInputs:
    """The inputs from which a process makes its `FilterContext`; they can be sent to another process.

    ``benchmarks``: None where contamination is not looked for. ``verdicts``: a file through which the processes of one
    machine share the verdicts on answers.
    """

    config: PrepareConfig
    tokenizer: Path
    benchmarks: BenchmarkIndex | None = None
    verdicts: Path | None = None

    def open(self) -> "FilterContext":
        return FilterContext(self)


def verdict_file(stack: ExitStack) -> Path | None:
    """A file for the verdicts on answers until ``stack`` closes; None, with a warning, where there is no room for one.

    What a killed preparation left there is removed.
    """
    try:
        return stack.enter_context(scratch_folder(Path(tempfile.gettempdir()))) / "verdicts.sqlite"
    except OSError as error:
        logging.getLogger(__name__).warning(
            "no folder for verdicts on answers (%s): they are not cached, so that equal answers are compared again; "
            "make room or set TMPDIR to another folder",
            error,
        )
        return None


class FilterContext:
    """The tools of the filters. Use it as a context manager, or call `close` to end the comparing processes."""

    def __init__(self, inputs: FilterInputs) -> None:
        self.config = inputs.config
        self.lengths = load_lengths(inputs.tokenizer, inputs.config.chat_template_kwargs)
        self._sources = {str(source.name): source for source in inputs.config.sources}
        self._specs = {name: source.spec for name, source in self._sources.items()}
        self._spec_digests = {name: spec.digest for name, spec in self._specs.items()}
        self._verdicts = inputs.verdicts
        self._verifiers: dict[VerifierSpec, Verifier] = {}
        self.looks_for_benchmarks = inputs.benchmarks is not None
        self._search: Callable[[str], Match | None] = inputs.benchmarks.match if inputs.benchmarks else _no_match
        self.remember_in(Memory())

    def __enter__(self) -> "FilterContext":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for verifier in self._verifiers.values():
            verifier.close()

    def remember_in(self, memory: Memory) -> None:
        """Recall results from ``memory``, that of the piece that is filtered next, and keep them there."""
        self.memory = memory
        self.benchmark_match: Callable[[str], Match | None] = lru_cache(MATCHES_IN_MEMORY)(self._match)

    def _match(self, problem: str) -> Match | None:
        values = self.memory.result(BENCHMARK, lambda: _values(self._search(problem)), problem)
        return Match(*values) if values else None

    def source(self, trace: Trace) -> Source:
        """The source of ``trace``."""
        return self._sources[trace.data_source]

    def spec_digest(self, trace: Trace) -> str:
        """The digest of the verifier of the source."""
        return self._spec_digests[trace.data_source]

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
            limit_s = self.config.grade_limit_s
            self._verifiers[spec] = open_verifier(spec, workers=1, limit_s=limit_s, shared=self._verdicts)
        return self._verifiers[spec]


def _values(match: Match | None) -> list[str | float]:
    return [] if match is None else [match.benchmark, match.id, match.problem, match.ratio, match.coverage]


def _no_match(problem: str) -> None:
    """Without benchmarks, match no problem."""
