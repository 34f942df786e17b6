"""Shows a run on the terminal while it runs: one line per stage, what the current stage does, and failures."""

import logging
import threading
import warnings
from collections.abc import Sequence

import dagster as dg

from core.errors import InputError
from core.progress import Terminal
from pipelines.definitions.jobs import EVERYTHING
from pipelines.definitions.sensors import reason

POLL_SECONDS = 0.5
LINE_SECONDS = 10.0  # between status lines where the output is no terminal


class RunMonitor:
    """Reads the events of a run as they are written, and shows them on a terminal.

    As a context manager it reads in a thread; on leaving it shows what is left.
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
        self._messages: dict[str, str] = {}
        self._checks: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.failures: list[str] = []

    def __enter__(self) -> "RunMonitor":
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

    def _watch(self) -> None:
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
            page = self._instance.get_records_for_run(self._run_id, cursor=self._cursor, limit=200)
            self._cursor = page.cursor
            for record in page.records:
                self._show(record.event_log_entry)
            if not page.has_more:
                return

    def _show(self, entry: dg.EventLogEntry) -> None:
        step = entry.step_key
        event = entry.dagster_event
        if step is None:
            return
        if event is None:
            if int(entry.level) == logging.WARNING:
                self._terminal.line(f"{self._prefix(step)} {entry.user_message}")
            elif int(entry.level) >= logging.INFO and not entry.user_message.startswith("[pipes]"):
                self._messages[step] = entry.user_message
                self._terminal.status(f"{self._prefix(step)} {entry.user_message}")
        elif event.event_type_value == "ENGINE_EVENT" and "blocked by limit for pool" in (event.message or ""):
            self._terminal.status(f"{self._prefix(step)} waits for another training or evaluation to end")
        elif event.event_type_value == "STEP_START":
            self._began[step] = entry.timestamp
            self._terminal.status(f"{self._prefix(step)} started")
        elif event.event_type_value == "STEP_SUCCESS":
            self._finished += 1
            self._terminal.line(self._finish("done", step, entry.timestamp, self._messages.get(step, "")))
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

    def _finish(self, state: str, step: str, timestamp: float, text: str) -> str:
        seconds = timestamp - self._began.get(step, timestamp)
        return f"{self._prefix(step, self._finished)} {state:7} {seconds:6.1f} s  {text}".rstrip()

    def _prefix(self, step: str, number: int | None = None) -> str:
        number = min(number or self._finished + 1, self._stages)
        return f"[{number:>{len(str(self._stages))}}/{self._stages}] {_name(step):17}"


def _name(step: str) -> str:
    return step.replace("__", "/")


def selection_keys(defs: dg.Definitions, text: str) -> Sequence[dg.AssetKey]:
    """The assets of the job `everything` that a selection string names; InputError if it is none."""
    graph = defs.resolve_asset_graph()
    executable = defs.resolve_job_def(EVERYTHING).asset_layer.executable_asset_keys
    with warnings.catch_warnings():  # Dagster's own use of its own beta parameter
        warnings.simplefilter("ignore", dg.BetaWarning)
        try:
            keys = dg.AssetSelection.from_string(text).required_multi_asset_neighbors().resolve(graph)
        except dg.DagsterError as error:
            raise InputError(
                f"--select {text!r}: {str(error).splitlines()[0]:.200}; expected a selection such as +group:targets, "
                "+key:targets/train or key:training/policy (+ takes along what it needs)"
            ) from error
    return sorted(key for key in keys if key in executable)
