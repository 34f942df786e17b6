"""Shows a run on the terminal while it runs: a line a stage, what the current one does, failures in one message."""

import logging
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from typing import TextIO

import dagster as dg

from pipelines.definitions.jobs import EVERYTHING
from pipelines.definitions.sensors import reason

POLL_SECONDS = 0.5
LINE_SECONDS = 10.0  # between lines of the same stage where the output is no terminal
WIDTH = 110


class Terminal:
    """Lines that stay, and on a real terminal one line below them that is rewritten."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._live = self._stream.isatty()
        self._last = -LINE_SECONDS
        self._waiting = ""

    def line(self, text: str) -> None:
        """Write a line that stays."""
        self._waiting = ""
        self._write(f"{self._clear()}{text}\n")

    def status(self, text: str) -> None:
        """Show what is going on; as a line now and then where nothing can be rewritten."""
        self._waiting = text
        self.tick()

    def tick(self) -> None:
        """Show the last status if it is not shown yet and it is time for it."""
        if self._waiting and self._live:
            self._write(f"{self._clear()}{self._waiting[:WIDTH]}")
        elif self._waiting and time.monotonic() - self._last >= LINE_SECONDS:
            self._last = time.monotonic()
            self._write(f"{self._waiting}\n")
        else:
            return
        self._waiting = ""

    def _clear(self) -> str:
        return "\r\x1b[K" if self._live else ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class Follower:
    """Reads the events of a run as they are written, and tells them to a terminal.

    As a context manager it follows in a thread; what is left is told on leaving.
    """

    def __init__(self, instance: dg.DagsterInstance, tags: dict[str, str], terminal: Terminal) -> None:
        self._instance = instance
        self._tags = tags
        self._terminal = terminal
        self._run_id: str | None = None
        self._cursor: str | None = None
        self._stages = 0
        self._finished = 0
        self._began: dict[str, float] = {}
        self._said: dict[str, str] = {}
        self._checks: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.failures: list[str] = []

    def __enter__(self) -> "Follower":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._read()

    @property
    def run_id(self) -> str | None:
        """Id of the run, once it exists."""
        return self._run_id

    def _follow(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            self._read()
            self._terminal.tick()

    def _read(self) -> None:
        if self._run_id is None:
            runs = self._instance.get_runs(filters=dg.RunsFilter(tags=self._tags), limit=1)
            if not runs:
                return
            self._run_id = runs[0].run_id
            plan = self._instance.get_execution_plan_snapshot(str(runs[0].execution_plan_snapshot_id))
            self._stages = len(plan.step_keys_to_execute)
        while True:
            found = self._instance.get_records_for_run(self._run_id, cursor=self._cursor, limit=200)
            self._cursor = found.cursor
            for record in found.records:
                self._tell(record.event_log_entry)
            if not found.has_more:
                return

    def _tell(self, entry: dg.EventLogEntry) -> None:
        step = entry.step_key
        event = entry.dagster_event
        if step is None:
            return
        if event is None:
            if int(entry.level) >= logging.INFO and not entry.user_message.startswith("[pipes]"):
                self._said[step] = entry.user_message
                self._terminal.status(f"{self._place(step)} {entry.user_message}")
        elif event.event_type_value == "ENGINE_EVENT" and "blocked by limit for pool" in (event.message or ""):
            self._terminal.status(f"{self._place(step)} waits for another training or evaluation to end")
        elif event.event_type_value == "STEP_START":
            self._began[step] = entry.timestamp
            self._terminal.status(f"{self._place(step)} started")
        elif event.event_type_value == "STEP_SUCCESS":
            self._finished += 1
            self._terminal.line(self._finish("done", step, entry.timestamp, self._said.get(step, "")))
        elif event.event_type_value == "ASSET_CHECK_EVALUATION":
            evaluation = event.asset_check_evaluation_data
            if not evaluation.passed:
                self._checks.append(f"{evaluation.check_name}: {evaluation.description or 'failed'}")
        elif event.event_type_value == "STEP_FAILURE":
            self._finished += 1
            self._failed(step, entry, event)

    def _failed(self, step: str, entry: dg.EventLogEntry, event: dg.DagsterEvent) -> None:
        data = event.step_failure_data
        if "DagsterExecutionInterruptedError" in reason(data.error):
            self._terminal.line(self._finish("stopped", step, entry.timestamp, ""))
            return
        failure = data.user_failure_data
        message = failure.description if failure and failure.description else reason(data.error)
        if self._checks and "blocking asset check" in message:
            message = "targets do not pass: " + "; ".join(self._checks)
        self.failures.append(f"{_name(step)}: {message}")
        self._terminal.line(self._finish("FAILED", step, entry.timestamp, ""))

    def _finish(self, what: str, step: str, timestamp: float, said: str) -> str:
        seconds = timestamp - self._began.get(step, timestamp)
        return f"{self._place(step, self._finished)} {what:7} {seconds:6.1f} s  {said}".rstrip()

    def _place(self, step: str, number: int | None = None) -> str:
        shown = min(number or self._finished + 1, self._stages)
        return f"[{shown:>{len(str(self._stages))}}/{self._stages}] {_name(step):17}"


def _name(step: str) -> str:
    return step.replace("__", "/")


def selection_keys(defs: dg.Definitions, text: str) -> Sequence[dg.AssetKey]:
    """The assets of the job `everything` that a selection string names."""
    graph = defs.resolve_asset_graph()
    line = defs.resolve_job_def(EVERYTHING).asset_layer.executable_asset_keys
    with warnings.catch_warnings():  # Dagster's own use of its own beta parameter
        warnings.simplefilter("ignore", dg.BetaWarning)
        keys = dg.AssetSelection.from_string(text).required_multi_asset_neighbors().resolve(graph)
    return sorted(key for key in keys if key in line)
