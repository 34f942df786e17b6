"""What the filters of one process share: settings, verifiers, token lengths, and the benchmarks."""

from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.model.prompts import CHAT
from core.model.token_counts import Lengths, load_lengths
from grading.contamination import BenchmarkIndex, Match
from grading.tools.settings import ToolSettings
from grading.tools.toolbox import Toolbox
from grading.verifiers.spec import MATHEMATICS, VerifierSpec, open_verifier
from grading.verifiers.verifier import Verifier
from targets.filter.text_properties import repair
from targets.settings import TargetSettings
from targets.source_settings import Source
from targets.trace import Trace

if TYPE_CHECKING:
    import pyarrow as pa

BOXED_MATHEMATICS = VerifierSpec("math")
ANSWER_TAG = "tag:answer"  # a place of answers
MATCHES_IN_MEMORY = 4096  # problems: their traces follow each other


class Worker:
    """The tools of the filters, each made when it is first needed; end the comparing processes with `close`.

    It can be sent to another process, which makes its own, except for the index of the benchmarks if there is one.

    Args:
        config: the settings.
        tokenizer: the policy's tokenizer.json or its folder.
        benchmarks: BENCHMARK rows. None: contamination is not looked for.
        tools: the tools that traces may call.
    """

    def __init__(
        self,
        config: TargetSettings,
        tokenizer: Path,
        benchmarks: "pa.Table | None" = None,
        tools: ToolSettings | None = None,
    ) -> None:
        self.config, self._tokenizer, self._benchmarks, self.tools = config, tokenizer, benchmarks, tools
        self._verifiers: dict[VerifierSpec, Verifier] = {}
        self._search = lru_cache(MATCHES_IN_MEMORY)(lambda problem: self.index and self.index.match(repair(problem)))

    def __reduce__(self) -> tuple[Any, ...]:
        made = {"index": self.index} if "index" in self.__dict__ else {}
        return type(self), (self.config, self._tokenizer, self._benchmarks, self.tools), made

    @cached_property
    def index(self) -> BenchmarkIndex | None:
        """The index of the benchmarks, which takes time to make and four times their size."""
        return None if self._benchmarks is None else BenchmarkIndex(self._benchmarks)

    @cached_property
    def lengths(self) -> Lengths:
        lengths = load_lengths(self._tokenizer, replace(CHAT, kwargs=self.config.chat_template_kwargs))
        return lengths.with_template(self.tools.template(lengths.chat)) if self.tools else lengths

    @cached_property
    def toolbox(self) -> Toolbox | None:
        return Toolbox(self.tools, workers=1) if self.tools else None

    @cached_property
    def _sources(self) -> dict[str, tuple[Source, VerifierSpec]]:
        return {str(source.name): (source, source.spec) for source in self.config.sources}

    @property
    def looks_for_benchmarks(self) -> bool:
        return self._benchmarks is not None

    def benchmark_match(self, problem: str) -> Match | None:
        """The benchmark problem that ``problem`` repeats, whatever its encoding."""
        return self._search(problem)

    def source(self, trace: Trace) -> Source:
        """The source of ``trace``."""
        return self._sources[trace.data_source][0]

    def is_mathematics(self, trace: Trace) -> bool:
        """Whether the answers of the source are mathematics."""
        return self._sources[trace.data_source][1].type in MATHEMATICS

    def is_boxed(self, trace: Trace) -> bool:
        """Whether the answers of the source are mathematics in a box."""
        return self._sources[trace.data_source][1] == BOXED_MATHEMATICS

    def reads_answer_tag(self, trace: Trace) -> bool:
        """Whether the verifier of the source looks for <answer>."""
        return ANSWER_TAG in self._sources[trace.data_source][1].places

    def verifier(self, trace: Trace) -> Verifier:
        """The verifier of the source; sources of one spec share it."""
        spec = self._sources[trace.data_source][1]
        if spec not in self._verifiers:
            self._verifiers[spec] = open_verifier(spec, workers=1, limit_s=self.config.grade_limit_s)
        return self._verifiers[spec]

    def close(self) -> None:
        for verifier in self._verifiers.values():
            verifier.close()
        if toolbox := self.__dict__.get("toolbox"):
            toolbox.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
