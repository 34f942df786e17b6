"""Lines of progress: no time left before enough is done to tell, what was done before says nothing of the pace."""

import io

import pytest

from core import progress
from core.progress import BLOCKS, BatchProgress, Position, Progress, Terminal, after, position, sparkline


def test_the_time_left_is_told_once_enough_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    events: list[dict] = []
    batch = BatchProgress("generate", {"a": 100, "b": 100}, events.append)
    batch.skip({"a": 100})
    now[0] = 10.0
    batch.add("b")
    assert (events[-1]["done"], events[-1]["total"], events[-1]["left_s"]) == (1, 100, None)
    for _ in range(19):
        now[0] += 2.0
        batch.add("b")
    assert events[-1]["left_s"] == pytest.approx(48.0 / 20 * 80)


def test_a_stage_is_said_when_it_begins_and_ends_and_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    lines: list[str] = []
    report = Progress(lines.append)
    for done in range(1, 5):
        now[0] += 1.0
        report("filter", 1000 * done, 4000)
    report("write", 10)
    report("write", 20)
    assert lines == ["filter: 1,000 of 4,000", "filter: 3,000 of 4,000", "filter: 4,000 of 4,000", "write: 10"]


def test_a_status_is_a_line_now_and_then_where_nothing_can_be_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    terminal = Terminal(stream, every_s=10)
    terminal.status("one")
    terminal.status("two [bold]")
    terminal.tick()
    now[0] = 10.0
    terminal.tick()
    terminal.line("done " + "x" * 200)
    assert stream.getvalue().splitlines() == ["one", "two [bold]", "done " + "x" * 200]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("step 3 of 30, reward 0.04, time left 10:19", Position(3, 30, 619)),
        ("step 3 of 30" + after(3730.0), Position(3, 30, 3730)),
        ("aime24: 12 of 960 samples" + after(75.0), Position(12, 960, 75)),
        ("filter: 3,000 of 4,000", Position(3000, 4000, None)),
        ("read: 3,000", None),
        ("18 of 18 checks passed", None),
        ("4,096 of 4,096 traces are used", None),
        ("starting Ray, vLLM and the actor", None),
    ],
)
def test_a_line_of_progress_says_how_far_a_stage_is(text: str, says: Position | None) -> None:
    assert position(text) == says


def test_a_sparkline_goes_from_the_lowest_to_the_highest_in_a_given_width() -> None:
    assert sparkline([0.1, 0.2, 0.3]) == "▁▅█"
    assert sparkline([]) == "" and sparkline([0.5, 0.5]) == 2 * BLOCKS[0]
    assert sparkline(range(400), width=8) == BLOCKS
