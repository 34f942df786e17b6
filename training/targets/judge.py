"""A batch of traces through every filter that looks at one trace alone.

The order is that of `filters.REASONS`: what is cheap and what concerns the problem first, the answer next, tokens last.
Nothing here depends on how traces are grouped into batches, so the same function can run anywhere.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from evaluation.contamination import BenchmarkIndex
from evaluation.grading import Grader
from training.targets.config import PrepareConfig
from training.targets.dialects import BOX, normalise
from training.targets.filters import unreadable, unsuitable_problem, unsuitable_text
from training.targets.tokens import Lengths
from training.targets.traces import Fault, Trace
from training.targets.verify import verify

END_TOKEN = 1  # the trainer appends the end-of-sequence token to a target


@dataclass(frozen=True, slots=True)
class Accepted:
    """A trace that may become a target."""

    trace: Trace
    prompt: list[dict[str, str]]
    target: str
    answer: str  # the boxed answer that was verified


@dataclass
class Judge:
    """The filters with what they need. ``benchmarks``: None where contamination is not looked for."""

    config: PrepareConfig
    grader: Grader
    lengths: Lengths
    benchmarks: BenchmarkIndex | None
    dialects: Counter[str] = field(default_factory=Counter)  # of the traces that could be taken apart
    disagreements: Counter[str] = field(default_factory=Counter)  # our verdict against the source's own flag

    def judge(self, batch: Sequence[Trace]) -> list[Accepted | Fault]:
        """For each trace the target it makes, or the first reason against it."""
        faults: dict[int, Fault] = {}
        targets: dict[int, str] = {}
        overlap: dict[str, Fault | None] = {}
        for position, trace in enumerate(batch):
            fault = unreadable(trace, self.config)
            if fault is None:
                assert trace.problem is not None and trace.gold is not None and trace.response is not None
                if trace.problem not in overlap:
                    overlap[trace.problem] = self._contaminated(trace.problem)
                fault = overlap[trace.problem] or unsuitable_problem(trace.problem, trace.gold, self.config)
            made = fault or self._take_apart(trace)
            if isinstance(made, Fault):
                faults[position] = made
            else:
                targets[position] = made
        answers = self._verify(batch, targets, faults)
        prompts = {position: _prompt(batch[position], self.config) for position in answers}
        self._measure(prompts, targets, faults)
        return [
            faults[p] if p in faults else Accepted(trace, prompts[p], targets[p], answers[p])
            for p, trace in enumerate(batch)
        ]

    def _contaminated(self, problem: str) -> Fault | None:
        match = self.benchmarks.match(problem) if self.benchmarks else None
        if match is None:
            return None
        detail = f"{match.benchmark}/{match.id}: {match.ratio:.0f}% similar, {match.coverage:.0%} covered"
        return Fault("contaminated", detail)

    def _take_apart(self, trace: Trace) -> str | Fault:
        assert trace.response is not None
        parts = normalise(trace.response, split_plain=self.config.plain_text == "split")
        if isinstance(parts, Fault):
            return parts
        self.dialects[parts.dialect] += 1
        if not BOX.search(parts.answer):
            return Fault("no_box", "nothing boxed after the thoughts")
        target = parts.target()
        return unsuitable_text(target, self.config) or target

    def _verify(self, batch: Sequence[Trace], targets: dict[int, str], faults: dict[int, Fault]) -> dict[int, str]:
        """The verified answer of each target; what is not verified becomes a fault."""
        answers: dict[int, str] = {}
        positions = list(targets)
        results = verify([(targets[p], batch[p].gold or "") for p in positions], self.grader)
        for position, result in zip(positions, results, strict=True):
            claimed = batch[position].upstream_correct
            if isinstance(result, Fault):
                faults[position] = result
                self.disagreements["source says correct, graded " + result.reason] += claimed is True
            else:
                answers[position] = result.answer
                self.disagreements["source says wrong, graded correct"] += claimed is False
        return answers

    def _measure(
        self, prompts: dict[int, list[dict[str, str]]], targets: dict[int, str], faults: dict[int, Fault]
    ) -> None:
        """Prompts and targets over their limits become faults."""
        positions = list(prompts)
        limit = self.config.max_prompt_tokens
        for k, count in self.lengths.over([self.lengths.prompt_text(prompts[p]) for p in positions], limit).items():
            faults[positions[k]] = Fault("prompt_too_long", f"{count} tokens (limit {limit})")
        positions = [p for p in positions if p not in faults]
        limit = self.config.max_target_tokens
        for k, count in self.lengths.over([targets[p] for p in positions], limit - END_TOKEN).items():
            faults[positions[k]] = Fault("target_too_long", f"{count + END_TOKEN} tokens (limit {limit})")


def _prompt(trace: Trace, config: PrepareConfig) -> list[dict[str, str]]:
    """System message (the config's, else the source's own) and problem."""
    system = trace.system if config.system_prompt is None else config.system_prompt
    user = {"role": "user", "content": trace.problem or ""}
    return [{"role": "system", "content": system}, user] if system else [user]
