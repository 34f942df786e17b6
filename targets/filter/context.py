"""What the filters of one process need beside the trace: settings, a grader, token lengths, and the benchmarks."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from core.model.tokens import load_lengths
from grading.contamination import BenchmarkIndex, Match
from grading.grader import Grader
from targets.config import PrepareConfig

MATCHES_IN_MEMORY = 4096  # problems: their traces follow each other


@dataclass(frozen=True)
class FilterInputs:
    """From what a process makes its `FilterContext`; it can be sent to another process.

    ``benchmarks``: None where contamination is not looked for. ``verdicts``: a file through which the processes of one
    machine share the verdicts on answers.
    """

    config: PrepareConfig
    tokenizer: Path
    benchmarks: BenchmarkIndex | None
    verdicts: Path | None = None


class FilterContext:
    """Use as a context manager, or call `close`: it ends the process that compares answers."""

    def __init__(self, inputs: FilterInputs) -> None:
        self.config = inputs.config
        self.lengths = load_lengths(inputs.tokenizer, inputs.config.chat_template_kwargs)
        self.grader = Grader(1, inputs.config.grade_limit_s, inputs.verdicts)
        self.looks_for_benchmarks = inputs.benchmarks is not None
        match = inputs.benchmarks.match if inputs.benchmarks else _no_match
        self.benchmark_match: Callable[[str], Match | None] = lru_cache(MATCHES_IN_MEMORY)(match)

    def __enter__(self) -> "FilterContext":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.grader.close()


def _no_match(problem: str) -> None:
    """Without benchmarks no problem is theirs."""
