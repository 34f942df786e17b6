"""Progress of a long stage on the terminal, and as lines that a command or Dagster step can read."""

import atexit
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any, TextIO

from core.text.patterns import compile_pattern

if TYPE_CHECKING:
    from rich.console import RenderableType

EVERY_S = 2.0
BLOCKS = "▁▂▃▄▅▆▇█"
POSITION = compile_pattern(r"^(?:step|[^:]*:) ([\d,]+) of ([\d,]+)(?: samples)?(?:, |$)")
TIME_LEFT = compile_pattern(r", time left ([\d:]+)$")
SHARE_OF_A_GUESS = 0.05  # the first answers of a batch come late together: before this much is done, none is made


class Terminal:
    """Lines that scroll up and, below them, a view of the running stages or one status line.

    On a terminal what is below is rewritten in place. Elsewhere there is no view, and a status becomes a plain line, at
    most every ``every_s``.
    """

    def __init__(self, stream: TextIO | None = None, every_s: float = EVERY_S) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self.rewrites = (
            self._console.file.isatty()
            and not self._console.is_dumb_terminal
            and self._console.encoding.startswith("utf")  # other encodings have no characters to draw with
        )
        self._status = self._console.status("") if self.rewrites else None
        if self._status:
            atexit.register(self._status.stop)  # shows the cursor again
        self._refresh: Callable[[], None] | None = None  # draws the view
        self._every_s = every_s
        self._written = -every_s
        self._waiting = ""

    def line(self, text: str) -> None:
        """Write a line that stays; the status is gone until the next one."""
        self._waiting = ""
        if self._status:
            self._status.stop()
        self._console.print(text)

    def status(self, text: str) -> None:
        """Show the current status, if no view shows it."""
        self._waiting = text
        self.tick()

    def tick(self) -> None:
        """Draw the view again, or the last status if it has not been shown yet and it is time for it."""
        from rich.text import Text

        if self._refresh:
            self._refresh()
        elif self._status and self._waiting:
            self._status.update(Text(self._waiting, no_wrap=True, overflow="ellipsis"))
            self._status.start()
        elif self._waiting and time.monotonic() - self._written >= self._every_s:
            self._written = time.monotonic()
            self._console.print(self._waiting)
        else:
            return
        self._waiting = ""

    @contextmanager
    def live_view(self, view: Callable[[], "RenderableType"]) -> Iterator[None]:
        """Show what ``view`` returns below the lines of a terminal, drawn anew with each `tick`."""
        if not self.rewrites:
            yield
            return
        from rich.live import Live

        live = Live(get_renderable=view, console=self._console, auto_refresh=False, transient=True)
        with live:
            self._refresh = live.refresh
            try:
                yield
            finally:
                self._refresh = None


class Progress:
    """Reports how far a program is, by stage: when a stage begins or ends, and every two seconds in between.

    Args:
        say: Receives each line; by default the terminal does.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self._say = say or Terminal(every_s=0).status
        self._stage = ""
        self._said = -EVERY_S

    def __call__(self, stage: str, done: int, total: int | None = None) -> None:
        """Report that ``done`` of ``total`` items of ``stage`` are done."""
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
        self.skipped = 0  # items that were done before
        self._began = time.monotonic()
        self._said = -EVERY_S

    def skip(self, counts: Mapping[str, int]) -> None:
        """Count items that an earlier run has done; they do not affect the pace."""
        for benchmark, count in counts.items():
            self._done[benchmark] += count
            self.skipped += count
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
        made = done - self.skipped
        enough = made >= SHARE_OF_A_GUESS * (total - self.skipped)
        left_s = (now - self._began) / max(1, made) * (total - done) if enough else None
        numbers = {"done": self._done[benchmark], "total": self._totals[benchmark], "left_s": left_s}
        self._terminal.status(f"{self._stage} {benchmark} {numbers['done']}/{numbers['total']}{after(left_s)}")
        self._report({"event": "progress", "stage": self._stage, "benchmark": benchmark, **numbers})


def progress_line(message: Mapping[str, Any]) -> str:
    """Return an event of `BatchProgress` over samples as one line."""
    count = f"{message['done']} of {message['total']} samples"
    return f"{message['benchmark']}: {count}{after(message['left_s'])}"


def after(left_s: float | None) -> str:
    """Format the seconds left for a line of progress; "" while they are unknown."""
    return "" if left_s is None else f", time left {clock(left_s)}"


def clock(seconds: float) -> str:
    """Return ``75`` as ``1:15``, ``4000`` as ``1:06:40``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@dataclass(frozen=True)
class Position:
    """How far a stage is, and the seconds left if they are known."""

    done: int
    total: int
    left_s: int | None


def position(text: str) -> Position | None:
    """Read the numbers from a line of progress; None if it has none.

    >>> position("step 12 of 30, reward 0.87, time left 1:02:10")
    Position(done=12, total=30, left_s=3730)
    """
    if (found := POSITION.search(text)) is None:
        return None
    done, total = (int(number.replace(",", "")) for number in found.groups())
    left = TIME_LEFT.search(text)
    parts = [int(part) for part in reversed(left[1].split(":"))] if left else []
    return Position(done, total, sum(part * 60**power for power, part in enumerate(parts)) if left else None)


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """Draw ``values`` as blocks between the lowest and the highest; more than ``width`` values are averaged.

    >>> sparkline([0, 1, 2, 7])
    '▁▂▃█'
    """
    count = min(width, len(values))
    edges = [len(values) * k // count for k in range(count + 1)] if count else []
    means = [fmean(values[first:last]) for first, last in pairwise(edges)]
    low, high = min(means, default=0.0), max(means, default=0.0)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round((value - low) * scale)] for value in means)
