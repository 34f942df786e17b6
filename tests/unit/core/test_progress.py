"""Lines of progress: no time left before enough is done to tell, what was done before says nothing of the pace."""

import pytest

from core import progress
from core.progress import Progress, after


def test_the_time_left_is_told_once_enough_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    events: list[dict] = []
    shown = Progress("generate", {"a": 100, "b": 100}, events.append)
    shown.skip({"a": 100})
    now[0] = 10.0
    shown.add("b")
    assert (events[-1]["done"], events[-1]["total"], events[-1]["left_s"]) == (1, 100, None)
    for _ in range(19):
        now[0] += 2.0
        shown.add("b")
    assert events[-1]["left_s"] == pytest.approx(48.0 / 20 * 80)


@pytest.mark.parametrize(("seconds", "said"), [(None, ""), (75, ", time left 1:15"), (4000.4, ", time left 1:06:40")])
def test_the_time_left_is_said_as_a_clock_does(seconds: float | None, said: str) -> None:
    assert after(seconds) == said


def test_stages_are_lines_at_their_change_and_every_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now, lines = [0.0], []
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    report = progress.StageLines(lines.append)
    for moment, stage, done, total in ((0, "filter", 256, 4096), (1, "filter", 512, 4096), (2, "filter", 768, None)):
        now[0] = moment
        report(stage, done, total)
    report("write", 1, None)
    assert lines == ["filter: 256 of 4,096", "filter: 768", "write: 1"]
