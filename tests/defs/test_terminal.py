"""The view of a run on a terminal: drawn of what the run has said, and recorded from a command in a pseudo-terminal."""

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
import threading
import time
from pathlib import Path

import dagster as dg
import pytest
from rich.console import Console

from core.progress import Terminal
from pipelines.cli.terminal import CURVES, WARNINGS, RunMonitor, RunView, Stage
from tests.defs.test_run import PART

ROOT = Path(__file__).resolve().parents[2]
REWRITTEN = re.compile(r"\r?\n|(?:\x1b\[(?:1A|2K)|\r)+")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"  # the cursor


def drawn(view: RunView, width: int = 100) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width).print(view)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


@pytest.fixture
def view() -> RunView:
    """Of a run whose training has made 12 of 30 steps."""
    now = time.time()
    result = RunView()
    result.began = now - 75
    result.steps = ["targets__train", "evals__base", "training__policy", "evals__policy", "registry__champion"]
    result.stages = {
        "targets__train": Stage(now - 75, state="done"),
        "evals__base": Stage(now - 60, "arithmetic: 30 of 60 samples, time left 0:20", now - 10),
        "training__policy": Stage(now - 50, "step 12 of 30, reward 0.87, time left 2:10", now),
    }
    result.curves |= {metric.name: [0.1, 0.5, 40.0] for metric in CURVES}
    return result


def test_the_view_has_stages_bars_time_left_and_curves(view: RunView):
    head, base, training, *curves, following = drawn(view)
    assert "1:15" in head and "1 of 5 stages" in head
    assert re.search(r"● evals/base +1:00 ━+.* time left 0:(10|09) arithmetic: 30 of 60 samples", base)
    assert re.search(r"● training/policy +0:50 ━+.* time left 2:(10|09) step 12 of 30, reward 0.87$", training)
    assert curves
    assert [line.split() for line in curves] == [
        [metric.short, "▁▁█", "40" if metric.unit == "tokens" else "40.00"] for metric in CURVES
    ]
    assert following.split() == ["○", "next", "evals/policy,", "registry/champion"]


def test_the_view_has_the_last_warnings_and_fits_a_narrow_terminal(view: RunView):
    before = len(drawn(view))
    view.warnings = [f"warning {number}: the reward of [b]on-policy[/b] samples collapses" for number in range(5)]
    *_, third, fourth, fifth = drawn(view)
    assert "5 warnings" in drawn(view)[0] and len(drawn(view)) == before + WARNINGS
    assert ["warning 2" in third, "warning 3" in fourth, "warning 4: the reward of [b]" in fifth] == [True] * 3
    assert len(drawn(view, width=50)) == before + WARNINGS
    assert max(map(len, drawn(view, width=50))) <= 50


def test_a_narrow_terminal_cuts_what_stages_say_and_not_their_names(view: RunView):
    view.steps += [f"stage__part_{number}" for number in range(9)]
    view.warnings = ["the reward of on-policy samples collapses, and the answers get longer at every step of it"]
    for width in (80, 60):
        _, base, training, *_, following, warning = drawn(view, width)
        assert re.match(r"● evals/base +1:00 ━", base) and re.match(r"● training/policy +0:50 ━", training)
        assert following.startswith("○ next  ") and warning.startswith("!  ")
        assert following.endswith("…") and warning.endswith("…")


class Recording:
    """A command of ours in a pseudo-terminal of 30 lines, and all that it writes there."""

    def __init__(self, arguments: list[str], variables: dict[str, str]) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            os.execve(sys.executable, [sys.executable, "-m", *arguments], {**variables, "TERM": "xterm-256color"})
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 110, 0, 0))
        self.raw = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                self.raw += os.read(self._terminal, 65536).decode(errors="replace")
            except OSError:  # the other end is closed
                return

    def press(self, key: bytes) -> None:
        os.write(self._terminal, key)

    def end(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        self._reader.join(10)
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(status)

    @property
    def text(self) -> str:
        """What was written, each drawing of the view below the one before."""
        return CONTROL.sub("", REWRITTEN.sub("\n", self.raw))


def test_ctrl_c_on_the_terminal_cancels_and_says_what_is_kept(environment, tmp_path: Path, monkeypatch):
    more = ["--set", "targets.embedded_rows=40000"]
    recording = Recording(["pipelines.cli.luffy", "run", "--select", PART, *more], environment)
    prepared = tmp_path / "storage" / "targets" / "prepared"
    deadline = time.monotonic() + 120
    while not (list(prepared.glob(".*.tmp")) and "● targets/prepared" in recording.text):  # the step is at work
        assert time.monotonic() < deadline, recording.text
        time.sleep(0.05)
    recording.press(b"\x03")
    assert recording.end() == 130, recording.text
    lines = recording.text.splitlines()
    assert re.search(r"━+.* \d+ of \d+ stages", recording.text)
    assert re.search(r"● targets/prepared +0:\d\d ", recording.text)
    assert re.search(r"○ next +.*targets/train.*targets/checks", recording.text)
    assert any(re.match(r"kept: the outputs of .*models/base", line) for line in lines), recording.text
    assert not any(line.startswith("kept:") and "targets/prepared" in line for line in lines)
    assert not list(prepared.iterdir()) and not (tmp_path / "storage" / "targets" / "train").exists()
    monkeypatch.setenv("DAGSTER_HOME", environment["DAGSTER_HOME"])
    with dg.DagsterInstance.get() as instance:
        entries = instance.all_logs(instance.get_runs(limit=1)[0].run_id)
    events = [entry.dagster_event.event_type_value for entry in entries if entry.dagster_event]
    said = [entry.user_message for entry in entries if entry.dagster_event is None]
    assert (events[-1], said[-1]) == ("PIPELINE_CANCELED", "cancelled; materialize again to run this step anew")
    assert lines[-1] == "cancelled; run the same command again to continue from the complete outputs"
    assert recording.raw.count(HIDE) == recording.raw.count(SHOW) > 0


def test_a_step_that_was_cancelled_outside_of_its_asset_is_stopped(capsys: pytest.CaptureFixture[str]):
    @dg.op
    def interrupted() -> None:
        raise dg.DagsterExecutionInterruptedError

    @dg.job
    def work() -> None:
        interrupted()

    with dg.DagsterInstance.ephemeral() as instance:
        with pytest.raises(dg.DagsterExecutionInterruptedError):
            work.execute_in_process(instance=instance, tags={"which": "this"})
        with RunMonitor(instance, {"which": "this"}, Terminal(every_s=1.0)) as monitor:
            pass
    assert monitor.failures == []
    assert "interrupted" in (line := capsys.readouterr().out) and "stopped" in line


def test_a_step_that_never_starts_is_no_stage():
    @dg.op
    def failing() -> int:
        raise dg.Failure("no")

    @dg.op
    def after(_number: int) -> None: ...

    @dg.job
    def work() -> None:
        after(failing())

    with dg.DagsterInstance.ephemeral() as instance:
        assert not work.execute_in_process(instance=instance, raise_on_error=False, tags={"which": "this"}).success
        with RunMonitor(instance, {"which": "this"}, Terminal(every_s=1.0)) as monitor:
            pass
    assert monitor.view.names(done=False) == ["failing"]
    assert monitor.failures == ["failing: no"]
