"""What is made of the processor time of a measured training."""

import os
from collections import Counter

import pytest

from perf.trainings.process_usage import ACTOR, Sample, slowdown

PARTS = {"timing_s/step": 10.0, "timing_s/gen": 4.0}  # 6 s are the actor's


@pytest.mark.parametrize(("actor", "engine", "expected"), [(6.0, 4.0, 1.0), (9.0, 10.0, 2.0), (0.6, 0.4, 0.1)])
def test_two_that_want_more_processors_than_there_are_slow_each_other_down(
    actor: float, engine: float, expected: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    used = Counter[str]()
    samples = [Sample(2, used.copy(), Counter())]
    for second in range(40):
        used += Counter({ACTOR: actor / 10, "VLLM::EngineCore": engine / 10})
        samples.append(Sample(min(2 + second // 10, 5), used.copy(), Counter()))
    samples += [Sample(6, Counter({ACTOR: 1e9}), Counter())] * 3  # what comes after the steps that are measured
    assert slowdown(samples, [PARTS] * 4) == pytest.approx(max(1.0, expected))
