"""Progress of a long stage: on the terminal, and as messages to the command or to Dagster that started this process."""

import atexit
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from core.records import append_record

EVENTS_FILE = "LUFFY_EVENTS_FILE"  # where a job of a cluster writes its events, for the command that follows it
EVERY_S = 2.0
SHARE_OF_A_GUESS = 0.05  # the first answers of a batch come late together: before this much is done, none is made


@contextmanager
def reporter() -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that sends an event to the command that follows us, or to Dagster Pipes, or nowhere without either."""
    if EVENTS_FILE in os.environ:  # first: a job of Slurm also has the environment of its command
        yield partial(append_record, Path(os.environ[EVENTS_FILE]))
        return
    if "DAGSTER_PIPES_CONTEXT" not in os.environ:
        yield lambda event: None
        return
    from dagster_pipes import open_dagster_pipes

    with open_dagster_pipes() as pipes:
        yield pipes.report_custom_message


class Terminal:
    """Lines that stay, and one status line below them.

    On a terminal the status is rewritten in place. Elsewhere it becomes a plain line, at most every ``every_s``.
    """

    def __init__(self, stream: TextIO | None = None, every_s: float = EVERY_S) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._live = self._console.status("") if self._console.is_terminal else None
        if self._live:
            atexit.register(self._live.stop)  # shows the cursor again
        self._every_s = every_s
        self._written = -every_s
        self._waiting = ""

    def line(self, text: str) -> None:
        """Write a line that stays; the status is gone until the next one."""
        self._waiting = ""
        if self._live:
            self._live.stop()
        self._console.print(text)

    def status(self, text: str) -> None:
        """Show what is under way."""
        self._waiting = text
        self.tick()

    def tick(self) -> None:
        """Show the last status if it has not been shown yet and it is time for it."""
        from rich.text import Text

        if self._live and self._waiting:
            self._live.update(Text(self._waiting, no_wrap=True, overflow="ellipsis"))
            self._live.start()
        elif self._waiting and time.monotonic() - self._written >= self._every_s:
            self._written = time.monotonic()
            self._console.print(self._waiting)
        else:
            return
        self._waiting = ""


class Progress:
    """Says how far a program is, stage by stage: at once when a stage begins or ends, else every two seconds.

    Args:
        say: Receives each line; by default the terminal does.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self._say = say or Terminal(every_s=0).status
        self._stage = ""
        self._said = -EVERY_S

    def __call__(self, stage: str, done: int, total: int | None = None) -> None:
        """``done`` of ``total`` items of ``stage`` are done."""
        now = time.monotonic()
        if stage == self._stage and done != total and now - self._said < EVERY_S:
            return
        self._stage, self._said = stage, now
        self._say(f"{stage}: {done:,}" + (f" of {total:,}" if total is not None else ""))


class BatchProgress:
    """Counts the items of one stage over several benchmarks and says how long the rest will take."""

    def __init__(self, stage: str, totals: Mapping[str, int], report: Callable[[dict[str, Any]], None]) -> None:
        self._stage = stage
        self._totals = totals
        self._report = report
        self._terminal = Terminal(every_s=0)
        self._done = dict.fromkeys(totals, 0)
        self._skipped = 0
        self._began = time.monotonic()
        self._said = -EVERY_S

    def skip(self, counts: Mapping[str, int]) -> None:
        """Count items that were done before; they say nothing about the pace."""
        for benchmark, count in counts.items():
            self._done[benchmark] += count
            self._skipped += count
            if self._done[benchmark] == self._totals[benchmark]:
                self._say(benchmark, time.monotonic())

    def add(self, benchmark: str) -> None:
        """Count one more item of ``benchmark``."""
        self._done[benchmark] += 1
        now = time.monotonic()
        if self._done[benchmark] == self._totals[benchmark] or now - self._said >= EVERY_S:
            self._say(benchmark, now)

    def _say(self, benchmark: str, now: float) -> None:
        self._said = now
        done, total = sum(self._done.values()), sum(self._totals.values())
        made = done - self._skipped
        enough = made >= SHARE_OF_A_GUESS * (total - self._skipped)
        left_s = (now - self._began) / max(1, made) * (total - done) if enough else None
        numbers = {"done": self._done[benchmark], "total": self._totals[benchmark], "left_s": left_s}
        self._terminal.status(f"{self._stage} {benchmark} {numbers['done']}/{numbers['total']}{after(left_s)}")
        self._report({"event": "progress", "stage": self._stage, "benchmark": benchmark, **numbers})


def after(left_s: float | None) -> str:
    """What a line of progress says about the seconds left; nothing while they are unknown."""
    return "" if left_s is None else f", time left {clock(left_s)}"


def clock(seconds: float) -> str:
    """``75`` as ``1:15``, ``4000`` as ``1:06:40``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
