"""A year of decisions through the real assets: answers of recorded frequency in place of vLLM's, and kills."""

import itertools
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import assets.registry.champion as registry_asset
from assets.shared.interpreter_process import TrainingInterpreter
from core.model.prompts import PromptRecord
from evaluation.commands import Generate
from evaluation.generation.generate import generate
from evaluation.generation.requests import Completion, SampleRequest, Sampling
from evaluation.generation.sample_cache import SampleCache
from evaluation.promotion import champions
from evaluation.promotion.champions import Registry
from evaluation.sample_tables import read_suite_file
from research.recorded_run import read_run
from tests.defs.written_scores import BENCHMARKS, OUTPUTS, Written

RECORDED = {"arithmetic": "arithmetic_hard"} | {name: name for name in BENCHMARKS if name != "arithmetic"}
RUNS = sorted((Path(__file__).parents[2] / "research/runs/comparison").glob("mixed_policy-*.zip"))
BASE = [f"{group}/base/{name}" for name, group in BENCHMARKS.items()]
WEEKS = 52
POLICY = [f"{group}/policy/{name}" for name, group in BENCHMARKS.items()]


@cache
def frequencies(benchmark: str) -> list[float]:
    """How often the recorded seeds solved each problem of a benchmark."""
    tables = [read_run(file).tables[RECORDED[benchmark]].sort_by("id") for file in RUNS]
    return np.mean([table["score"].to_numpy() for table in tables], axis=0).tolist()


class RecordedModel:
    """A model that solves each problem as often as recorded, and in domain by ``gain`` of the rest more often."""

    tools = None

    def __init__(self, folder: Path, checkpoint: str, golds: dict[str, str]) -> None:
        text = (folder / "model.safetensors").read_bytes()
        self.gain = float(text.split()[-1]) if text.startswith(b"gain ") else -0.4  # the base is worse
        self.checkpoint, self.golds, self.folder = checkpoint, golds, folder

    def decisive(self) -> dict[str, str]:
        return {"checkpoint": self.checkpoint, "device": "recorded"}

    def render(self, conversation: Sequence[dict[str, str]], *, calls: bool = False) -> str:
        return conversation[-1]["content"]

    def prompt_record(self, suite: object, *, calls: bool = False) -> PromptRecord:
        return PromptRecord("recorded", thinking=False)

    def draw(
        self, requests: Sequence[SampleRequest], sampling: Sampling, samples: SampleCache
    ) -> Iterator[tuple[int, Completion]]:
        for number, request in enumerate(requests):
            known = frequencies(request.benchmark)
            often = known[int(request.id, 36) % len(known)] if request.id.isalnum() else known[len(request.id)]
            often += self.gain * ((1 - often) if self.gain > 0 else often) * (request.benchmark == "arithmetic")
            right = random.Random(f"{self.checkpoint}/{request.seed}").random() < often
            answer = self.golds[request.prompt] if right else "-1"
            completion = Completion(f"\\boxed{{{answer}}}", 5, "stop")
            samples.add(request.key, completion)
            yield number, completion


def answer(
    self: TrainingInterpreter, context: object, arguments: Sequence[str], on_message: object, kept: object
) -> None:
    """``python -m evaluation generate`` with a recorded model."""
    assert list(arguments[:3]) == ["evaluation", "generate", "--request"]
    request = Generate.read(Path(arguments[3]))
    suite = read_suite_file(request.suite)
    golds = {row["prompt"][-1]["content"]: row["gold"] for row in suite.to_pylist()}
    model = RecordedModel(Path(request.model), request.checkpoint or "", golds)
    generate(
        model,  # pyright: ignore[reportArgumentType]
        suite,
        request.out,
        benchmarks=request.benchmarks,
        sampling=request.sampling(),
        counts=request.counts,
        cache=request.cache,
    )


@pytest.fixture
def year(build, monkeypatch) -> Written:
    monkeypatch.setattr(TrainingInterpreter, "run", answer)
    settings = {"benchmarks__limit": "40", "evaluation__samples": "until_decided", "promotion__max_ood_drop": "0.3"}
    written = Written(build(**settings))
    assert written.project.run("models/base", "benchmarks/suite").success
    written.base = written.project.data_version("models/base")
    assert written.project.run(*BASE).success
    return written


def killed_run(written: Written, owner: object, name: str, calls: int) -> None:
    """A run in a process of its own that SIGKILL ends when ``name`` of ``owner`` is called after ``calls`` calls."""
    if (child := os.fork()) == 0:
        call, left = getattr(owner, name), itertools.count(calls, -1)

        def killing(*arguments: Any, **named: Any) -> Any:
            if next(left) == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        setattr(owner, name, killing)
        written.project.run(*POLICY, *OUTPUTS)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def drawn(written: Written) -> int:
    """The samples that were ever drawn, each of them once."""
    found: Counter[tuple[str, str, int]] = Counter()
    for file in (written.project.storage / "samples").rglob("*.parquet"):
        rows = pq.read_table(file, columns=["prompt_digest", "sample"]).to_pylist()
        found.update((file.parent.name, row["prompt_digest"], row["sample"]) for row in rows)
    assert set(found.values()) <= {1}
    return len(found)


def decide(written: Written, name: str, gain: float) -> tuple[str, int]:
    """A candidate of the week; its digest, and the samples that its decision drew of both models."""
    before, digest = drawn(written), written.policy(f"gain {name} {gain}")
    assert written.project.run(*POLICY, *OUTPUTS).success
    return digest, drawn(written) - before


def test_a_better_policy_wins_and_an_equal_one_does_not_and_nothing_is_paid_twice(year: Written):
    registry = Registry(year.project.storage)
    first, _ = decide(year, "first", 0.0)  # the base is much worse
    assert year.champion["checkpoint"] == first
    _, cost = decide(year, "equal", 0.0)
    shown = year.project.metadata("registry/champion")
    assert year.champion["checkpoint"] == first and shown["compared with"] == first[:16]
    left = registry.error_budget(0.05)
    assert left.tests == 2 and 0.049 < left.left < 0.05
    assert cost == 2 * (128 + 3 * 32)  # one round of the policy, and of the champion that defends its place
    page = Path(year.project.metadata("report/scorecard")["file"]).with_name("scorecard.txt").read_text()
    assert "not promoted: " in page and "(details: luffy champion)" in page

    before, files = drawn(year), {k: v for k, v in year.project.files().items() if not k.startswith("registry")}
    assert year.project.run(*POLICY, *OUTPUTS).success  # a schedule with nothing new
    assert drawn(year) == before and registry.error_budget(0.05) == left
    assert {k: v for k, v in year.project.files().items() if not k.startswith("registry")} == files

    better = year.policy("gain better 0.9")
    killed_run(year, SampleCache, "add", 50)
    assert year.project.run(*POLICY, *OUTPUTS).success
    assert year.champion["checkpoint"] == better and registry.error_budget(0.05).left == left.left
    assert year.project.run(*POLICY, *OUTPUTS).success  # the champion itself
    assert "already the champion" in year.project.metadata("registry/champion")["reasons"]
    assert registry.error_budget(0.05).tests == 3


KILLS = [  # while the policy answers, before a decision is kept, and after it
    (SampleCache, "add", 50),
    (champions, "write_text", 0),
    (registry_asset, "_result", 0),
]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_year_of_candidates_with_kills_in_between(year: Written):
    """51 candidates no better than the champion of the day and one that is: it alone follows the first."""
    registry, promoted, kept = Registry(year.project.storage), [], []
    for week in range(WEEKS):
        gain = 0.9 if week >= WEEKS // 2 else 0.0
        digest = year.policy(f"gain {week} {gain}")
        if week in (0, WEEKS // 2):
            killed_run(year, champions, "write_text", 1)  # the promotion is kept, and the champion's file is not
        elif week in (1, WEEKS // 2 + 1):
            killed_run(year, SampleCache, "add", 300)  # while the new champion answers
        elif week % 3 == 2:
            killed_run(year, *KILLS[week // 3 % len(KILLS)])
        assert year.project.run(*POLICY, *OUTPUTS).success
        if year.champion["checkpoint"] == digest:
            promoted.append(week)
        decisions = registry.decisions()
        assert decisions[: len(kept)] == kept and decisions[-1].checkpoint == digest
        kept = decisions
    assert promoted == [0, WEEKS // 2]
    decided = [record for record in kept if record.decision.test]
    assert len({record.checkpoint for record in decided}) == WEEKS < len(decided)
    levels = {record.decision.test: record.decision.level for record in decided if not record.decision.promoted}
    assert {(r.decision.test, r.decision.level) for r in decided if not r.decision.promoted} == set(levels.items())
    budget = registry.error_budget(0.05)
    assert budget.tests == WEEKS and budget.left == pytest.approx(0.05 - sum(levels.values()))
    assert 0.02 < budget.left < 0.03 and drawn(year) > WEEKS * 224
