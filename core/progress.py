"""Progress of a long stage: a line at most every two seconds, and messages to Dagster if it started us."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

EVERY_S = 2.0
SHARE_OF_A_GUESS = 0.05  # the first answers of a batch come late together: before this much is done, none is made


@contextmanager
def reporter() -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that sends an event to Dagster Pipes; one that does nothing when no Pipes session launched us."""
    if "DAGSTER_PIPES_CONTEXT" not in os.environ:
        yield lambda event: None
        return
    from dagster_pipes import open_dagster_pipes

    with open_dagster_pipes() as pipes:
        yield pipes.report_custom_message


class Progress:
    """Counts finished items of one stage over several benchmarks and says how long the rest will take."""

    def __init__(self, stage: str, totals: Mapping[str, int], report: Callable[[dict[str, Any]], None]) -> None:
        self._stage = stage
        self._totals = totals
        self._report = report
        self._done = dict.fromkeys(totals, 0)
        self._skipped = 0
        self._began = time.monotonic()
        self._shown = -EVERY_S

    def skip(self, counts: Mapping[str, int]) -> None:
        """These items were done before: they count as done, and say nothing of the pace."""
        for benchmark, count in counts.items():
            self._done[benchmark] += count
            self._skipped += count
            if self._done[benchmark] == self._totals[benchmark]:
                self._show(benchmark, time.monotonic())

    def add(self, benchmark: str) -> None:
        """One more item of ``benchmark`` is done."""
        self._done[benchmark] += 1
        now = time.monotonic()
        finished = self._done[benchmark] == self._totals[benchmark]
        if not finished and now - self._shown < EVERY_S:
            return
        self._show(benchmark, now)

    def _show(self, benchmark: str, now: float) -> None:
        self._shown = now
        done, total = sum(self._done.values()), sum(self._totals.values())
        made = done - self._skipped
        guess = made >= SHARE_OF_A_GUESS * (total - self._skipped)
        left_s = (now - self._began) / max(1, made) * (total - done) if guess else None
        counts = f"{self._done[benchmark]}/{self._totals[benchmark]}"
        sys.stdout.write(f"{self._stage} {benchmark} {counts}{after(left_s)}\n")
        sys.stdout.flush()
        self._report(
            {
                "event": "progress",
                "stage": self._stage,
                "benchmark": benchmark,
                "done": self._done[benchmark],
                "total": self._totals[benchmark],
                "left_s": left_s,
            }
        )


class StageLines:
    """The rows of successive stages as lines: at most one every two seconds, and one at each change of stage."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._stage = ""
        self._written = -EVERY_S

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if stage != self._stage or now - self._written >= EVERY_S:
            self._stage, self._written = stage, now
            self._write(f"{stage}: {done:,}" + (f" of {total:,}" if total is not None else ""))


def after(left_s: float | None) -> str:
    """What a line of progress says of the seconds left; nothing where they are not known."""
    return "" if left_s is None else f", time left {clock(left_s)}"


def clock(seconds: float) -> str:
    """``75`` as ``1:15``, ``4000`` as ``1:06:40``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
