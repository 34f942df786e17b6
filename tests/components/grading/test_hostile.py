"""Generated hostile answers and golds: bounded in time and memory, one of the known verdicts, nothing executed."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from hostile import hostile_text

from grading.grader import Grader
from grading.verdict import Verdict

LIMIT_S = 0.25
LONGEST_S = LIMIT_S + 3.0  # the rest for a busy machine, on which a new fork waits for its turn
LONGEST_CPU_S = 0.5  # of this process, where no alarm ends what reads and normalises
LARGEST_BYTES = 300 << 20


class Memory:
    """The largest resident memory of any descendant of this process, sampled while the block runs."""

    def __enter__(self) -> "Memory":
        self.peak, self._end = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.02):
            for process in psutil.Process().children(recursive=True):
                try:
                    self.peak = max(self.peak, process.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue


@pytest.mark.parametrize("count", [150, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])])
def test_hostile_pairs_are_bounded_and_nothing_of_them_runs(tmp_path: Path, count: int) -> None:
    marker, generator = tmp_path / "executed", random.Random(count)
    plain = ("\\frac{1}{2}", "2", "x+1", "(1,2)", "\\{1,2\\}")
    pairs = []
    for number in range(count):
        text = hostile_text(generator, marker)
        other = hostile_text(generator, marker) if number % 3 == 2 else generator.choice(plain)
        pairs.append((text, other) if number % 2 else (other, text))

    def graded(pair: tuple[str, str]) -> tuple[float, float, Verdict, str]:
        answer, gold = pair
        began, cpu = time.perf_counter(), time.thread_time()
        verdict, reason = grader.compare(answer, gold)
        return time.perf_counter() - began, time.thread_time() - cpu, verdict, reason

    with Grader(workers=1, limit_s=LIMIT_S) as grader, ThreadPoolExecutor(1) as thread, Memory() as memory:
        for number in range(50, 60):
            grader.verify("\\sqrt{2}", f"\\sqrt{{{number}}}")
        outcomes = list(thread.map(graded, pairs))
        for number in [number for number, (seconds, *_) in enumerate(outcomes) if seconds >= LONGEST_S]:
            # A busy machine delays anything once; what is slow by itself is slow each time.
            outcomes[number] = min((graded(pairs[number]) for _ in range(3)), key=lambda outcome: outcome[0])
        assert any(grader.verify("\\sqrt{4}", "2") == "correct" for _ in range(20))  # it still works
    assert not marker.exists()
    assert memory.peak < LARGEST_BYTES, memory.peak >> 20
    print(f"{count} pairs: the largest worker {memory.peak >> 20} MiB")
    times, cpu_times, *_ = zip(*outcomes, strict=True)
    for measured, longest in ((times, LONGEST_S), (cpu_times, LONGEST_CPU_S)):
        slowest, number = max(zip(measured, range(count), strict=True))
        print(f"the slowest {slowest:.3f} s, at most {longest} s: {[text[:200] for text in pairs[number]]}")
        assert slowest < longest
    assert all(isinstance(verdict, Verdict) and "Traceback" not in reason for *_, verdict, reason in outcomes)
