"""A batch of traces through every filter that looks at one trace alone.

The order is that of `filters.REASONS`: what is cheap and what concerns the problem first, the answer next, tokens last.
Nothing here depends on how traces are grouped into batches, so the same function runs in this process, in a pool, or on
Ray Data: a table of traces (`traces.to_table`) in, a table of `judged_schema` out, row by row.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.files import digest_bytes
from core.schemas import PROFILE, REJECTED, TARGET
from core.tokens import END_TOKEN, Lengths, load_lengths
from grading.contamination import BenchmarkIndex
from grading.grader import Grader
from targets.check.profile import measure
from targets.config import PrepareConfig
from targets.filter.rules import refusal, unsuitable_problem, unsuitable_text
from targets.filter.verify import Verified, verify
from targets.read.dialects import BOX, Parts, normalise
from targets.read.traces import (
    LONGEST_DETAIL,
    LONGEST_GOLD,
    LONGEST_PROBLEM,
    Fault,
    Trace,
    from_table,
    printable,
)
from targets.select.dedupe import problem_digest, skeleton, sketch

if TYPE_CHECKING:
    import pyarrow as pa

FACTS = tuple(name for name in PROFILE.names if name not in ("id", "source", "problem_digest"))


@dataclass(frozen=True)
class Setup:
    """What a process needs to judge.

    ``benchmarks``: None where contamination is not looked for. ``verdicts``: a file in which the processes of one
    machine share what they found of answers.
    """

    config: PrepareConfig
    tokenizer: Path
    benchmarks: BenchmarkIndex | None
    verdicts: Path | None = None


@dataclass
class Judgement:
    """What is known of one trace so far."""

    trace: Trace
    faults: list[Fault] = field(default_factory=list)
    dialect: str | None = None
    verdict: str | None = None  # "correct", or why not; None where answers were not compared
    target: str = ""
    answer: str = ""  # the boxed answer that was verified
    prompt: list[dict[str, str]] = field(default_factory=list)
    prompt_tokens: int = 0
    target_tokens: int = 0


class Judge:
    """The filters with what they need: a grader of one comparison process, token lengths, benchmarks.

    Use as a context manager, or call `close`: it ends the comparison process.
    """

    def __init__(self, setup: Setup) -> None:
        from functools import lru_cache

        self.config = setup.config
        self.grader = Grader(1, setup.config.grade_limit_s, setup.verdicts)
        self.lengths = load_lengths(setup.tokenizer)
        self.benchmarks = setup.benchmarks
        self._contaminated = lru_cache(maxsize=4096)(partial(_overlap, setup.benchmarks))

    def __enter__(self) -> "Judge":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.grader.close()

    def judge_table(self, table: "pa.Table", exact: bool = False) -> "pa.Table":
        """`judge` on traces as a table; one row out for each row in."""
        import pyarrow as pa

        rows = [self._row(judgement) for judgement in self.judge(from_table(table), exact)]
        return pa.Table.from_pylist(rows, schema=judged_schema())

    def judge(self, batch: Sequence[Trace], exact: bool = False) -> list[Judgement]:
        """For each trace the target it makes, or every reason against it that was found.

        ``exact``: count tokens with the tokenizer itself, where tiktoken disagrees with it on this source.
        """
        judgements = [Judgement(trace) for trace in batch]
        for judgement in judgements:
            judgement.faults += self._look(judgement)
        self._verify([j for j in judgements if not j.faults])
        self._measure([j for j in judgements if not j.faults], self.lengths.exactly() if exact else self.lengths)
        return judgements

    def _look(self, judgement: Judgement) -> Iterable[Fault]:
        """What can be said without comparing answers or counting tokens; takes the response apart."""
        trace = judgement.trace
        if trace.fault is not None:
            yield trace.fault
            return
        assert trace.problem is not None and trace.gold is not None and trace.response is not None
        if contaminated := self._contaminated(trace.problem):
            yield contaminated
        if unsuitable := unsuitable_problem(trace.problem, trace.gold, self.config):
            yield unsuitable
        parts = normalise(trace.response, split_plain=self.config.plain_text == "split")
        answer = parts.answer if isinstance(parts, Parts) else trace.response
        if declined := refusal(answer):
            yield declined
        if isinstance(parts, Fault):
            yield parts
            return
        judgement.dialect = parts.dialect
        if not BOX.search(parts.answer):
            yield Fault("no_box", "nothing boxed after the thoughts")
        judgement.target = parts.target()
        yield from unsuitable_text(judgement.target, self.config)

    def _verify(self, judgements: Sequence[Judgement]) -> None:
        """The verified answer of each target; what is not verified becomes a fault."""
        results = verify([(j.target, j.trace.gold or "") for j in judgements], self.grader)
        for judgement, result in zip(judgements, results, strict=True):
            if isinstance(result, Verified):
                judgement.verdict, judgement.answer = "correct", result.answer
            else:
                judgement.verdict = result.reason
                judgement.faults.append(result)

    def _measure(self, judgements: Sequence[Judgement], lengths: Lengths) -> None:
        """Lengths of prompts and targets; those over their limits become faults."""
        for judgement in judgements:
            judgement.prompt = _prompt(judgement.trace, self.config)
        prompts = lengths.count([lengths.prompt_text(j.prompt) for j in judgements])
        targets = lengths.count([j.target for j in judgements])
        for judgement, prompt, target in zip(judgements, prompts, targets, strict=True):
            judgement.prompt_tokens, judgement.target_tokens = prompt, target + END_TOKEN
            for reason, tokens, limit in (
                ("prompt_too_long", judgement.prompt_tokens, self.config.max_prompt_tokens),
                ("target_too_long", judgement.target_tokens, self.config.max_target_tokens),
            ):
                if tokens > limit:
                    judgement.faults.append(Fault(reason, f"{tokens} tokens (limit {limit})"))

    def _row(self, judgement: Judgement) -> dict[str, Any]:
        """A row of `judged_schema`: the texts of a target, or why there is none."""
        trace = judgement.trace
        common = {
            "id": trace.id,
            "source": trace.source,
            "row": trace.row,
            "of": trace.of,
            "upstream_correct": trace.upstream_correct,
            "reasons": [fault.reason for fault in judgement.faults],
            "dialect": judgement.dialect,
            "verdict": judgement.verdict,
        }
        if judgement.faults:
            details = [fault.detail for fault in judgement.faults if fault.detail]
            return {
                **common,
                "detail": printable("; ".join(details), LONGEST_DETAIL),
                "problem": printable(trace.problem, LONGEST_PROBLEM),
                "gold": printable(trace.gold, LONGEST_GOLD),
            }
        assert trace.problem is not None and trace.gold is not None
        target = judgement.target.encode()
        return {
            **common,
            "problem": trace.problem,
            "gold": trace.gold,
            "prompt": judgement.prompt,
            "target": judgement.target,
            "answer": judgement.answer,
            "problem_digest": problem_digest(trace.problem),
            "skeleton": skeleton(trace.problem, trace.gold),
            "target_digest": digest_bytes(target)[:32],
            "size": len(target),
            "sketch": sketch(judgement.target) if self.config.keep == "diverse" else None,
            **self._facts(judgement),
        }

    def _facts(self, judgement: Judgement) -> dict[str, Any]:
        trace = judgement.trace
        overlap = None if self.benchmarks is None else self._contaminated(trace.problem or "") is not None
        return {
            "prompt_tokens": judgement.prompt_tokens,
            "target_tokens": judgement.target_tokens,
            "gold_parses": self.grader.parses(trace.gold or ""),
            "benchmark_overlap": overlap,
            **measure(judgement.target, judgement.answer),
        }


def judged_schema() -> "pa.Schema":
    """One row for each trace: why it is refused (``reasons``, not empty), or the target it makes and its profile."""
    import pyarrow as pa

    kept = [REJECTED.field(name) for name in ("id", "source", "row")]
    said = [REJECTED.field(name) for name in ("upstream_correct", "reasons", "detail", "problem", "gold")]
    texts = [(name, pa.string()) for name in ("dialect", "verdict", "target", "answer")]
    digests = [(name, pa.string()) for name in ("problem_digest", "skeleton", "target_digest")]
    state = [("size", pa.int64()), ("sketch", pa.binary())]
    return pa.schema(
        [*kept, ("of", pa.int64()), *said, *texts, TARGET.field("prompt"), *digests, *state]
        + [PROFILE.field(name) for name in FACTS]
    )


def _overlap(benchmarks: BenchmarkIndex | None, problem: str) -> Fault | None:
    match = benchmarks.match(problem) if benchmarks else None
    if match is None:
        return None
    detail = (
        f"{match.benchmark}/{match.id}: {match.ratio:.0f}% similar, {match.coverage:.0%} covered by runs of 8 words"
    )
    return Fault("contaminated", detail)


def _prompt(trace: Trace, config: PrepareConfig) -> list[dict[str, str]]:
    """System message (the config's, else the source's own) and problem."""
    system = trace.system if config.system_prompt is None else config.system_prompt
    user = {"role": "user", "content": trace.problem or ""}
    return [{"role": "system", "content": system}, user] if system else [user]
