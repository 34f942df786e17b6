"""Show a run while it runs: one line per finished stage and, on a terminal, a live view of the running stages."""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from core.metric_table import METRICS, View, is_finite
from core.progress import Terminal, clock, position, sparkline
from pipelines.definitions.sensors import reason

if TYPE_CHECKING:
    from rich.table import Table

POLL_SECONDS = 0.5
LINE_SECONDS = 10.0  # between status lines if the output is not a terminal
RUNNING, DONE = "running", "done"  # the states of a stage
INTERRUPTED = dg.DagsterExecutionInterruptedError.__name__  # what a cancelled step reports before or after its asset
BAR = 24  # width in characters
WARNINGS = 3  # the most that the view shows
CURVES = [metric for metric in METRICS if View.TERMINAL in metric.views]  # the curves of a training


@dataclass
class Stage:
    """A step of the run that has begun: its start, its last message with the time of it, and its state."""

    began: float
    message: str = "started"
    said: float = 0.0
    state: str = RUNNING


class RunView:
    """The live view of a run, which rich draws as a table of a few lines."""

    def __init__(self) -> None:
        self.began = time.time()
        self.steps: list[str] = []  # all, in their order
        self.stages: dict[str, Stage] = {}
        self.curves: dict[str, list[float]] = defaultdict(list)
        self.warnings: list[str] = []

    @property
    def ended(self) -> int:
        """The number of stages that have ended, with or without success."""
        return sum(stage.state != RUNNING for stage in self.stages.values())

    def names(self, *, done: bool) -> list[str]:
        """Return the names of the stages that are ``done``, or of the started stages that are not."""
        return [name_of(step) for step, stage in self.stages.items() if (stage.state == DONE) == done]

    def __rich__(self) -> "Table":
        from rich.table import Table
        from rich.text import Text

        table, now = Table.grid(padding=(0, 1)), time.time()
        for _ in range(3):
            table.add_column(no_wrap=True, overflow="ellipsis")
        table.add_column()  # a narrow terminal cuts it first

        def add(mark: str, name: str, since: float | None, text: str, style: str = "") -> None:
            cut = Text(text, no_wrap=True, overflow="ellipsis")
            table.add_row(mark, name, "" if since is None else clock(now - since), cut, style=style)

        more = f", {len(self.warnings)} warnings" if len(self.warnings) > 1 else ""
        count = f"{_bar(self.ended, len(self.steps))} {self.ended} of {len(self.steps)} stages{more}"
        add("", "", self.began, count if self.steps else "starting")
        for step, stage in self.stages.items():
            if stage.state == RUNNING:
                add("●", name_of(step), stage.began, _under_way(stage, now), "bold")
                for line in self._curves() if step.endswith("__policy") else ():
                    add("", "", None, line)
        if waiting := [name_of(step) for step in self.steps if step not in self.stages]:
            add("○", "next", None, ", ".join(waiting), "dim")
        for text in self.warnings[-WARNINGS:]:
            add("!", "", None, text, "yellow")
        return table

    def _curves(self) -> Iterator[str]:
        for metric in CURVES:
            if values := self.curves[metric.name]:
                form = ",.0f" if metric.unit == "tokens" else ".2f"
                yield f"{metric.short:6} {sparkline(values)} {values[-1]:{form}}"


def _under_way(stage: Stage, now: float) -> str:
    """Describe a running stage by its last message, and by its progress if it reports numbers."""
    if not (at := position(stage.message)):
        return stage.message
    bar = _bar(at.done, at.total)
    if at.left_s is None:
        return f"{bar} {stage.message}"
    left = clock(max(0.0, at.left_s - (now - stage.said)))
    return f"{bar} time left {left} {stage.message.rpartition(', time left ')[0]}"


def _bar(done: int, total: int) -> str:
    filled = round(BAR * done / max(total, 1))
    return "━" * filled + "╌" * (BAR - filled)


class RunMonitor:
    """Reads the events of a run as they are written, and shows them on a terminal.

    As a context manager it reads in a thread, and shows the remaining events when the block ends.
    """

    def __init__(self, instance: dg.DagsterInstance, tags: dict[str, str], terminal: Terminal) -> None:
        self._instance = instance
        self._tags = tags
        self._terminal = terminal
        self.run_id: str | None = None
        self._cursor: str | None = None
        self.view = RunView()
        self._checks: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._showing = ExitStack()
        self.failures: list[str] = []

    def __enter__(self) -> "RunMonitor":
        self._showing.enter_context(self._terminal.live_view(lambda: self.view))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._read()
        self._showing.close()
        if self._terminal.rewrites:  # elsewhere they are lines already
            for text in self.view.warnings:
                self._terminal.line(text)

    def _watch(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            self._read()
            self._terminal.tick()

    def _read(self) -> None:
        if self.run_id is None:
            runs = self._instance.get_runs(filters=dg.RunsFilter(tags=self._tags), limit=1)
            if not runs:
                return
            self.run_id = runs[0].run_id
            plan = self._instance.get_execution_plan_snapshot(str(runs[0].execution_plan_snapshot_id))
            self.view.steps = list(plan.step_keys_to_execute)
        while True:
            page = self._instance.get_records_for_run(self.run_id, cursor=self._cursor, limit=200)
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
            if step not in self.view.stages:  # it does not start, because another has failed or was stopped
                return
            if int(entry.level) == logging.WARNING:
                self._warn(f"{self._prefix(step)} {entry.user_message}")
            elif int(entry.level) >= logging.INFO:
                self._say(step, entry.user_message, entry.timestamp)
        elif event.event_type_value == "STEP_START":
            self.view.stages[step] = Stage(entry.timestamp)
            self._terminal.status(f"{self._prefix(step)} started")
        elif event.event_type_value == "STEP_SUCCESS":
            self._finish(DONE, step, entry.timestamp)
        elif event.event_type_value == "ASSET_CHECK_EVALUATION":
            evaluation = event.asset_check_evaluation_data
            if not evaluation.passed and evaluation.severity is dg.AssetCheckSeverity.ERROR:
                self._checks.append(f"{evaluation.check_name}: {evaluation.description or 'failed'}")
        elif event.event_type_value == "ASSET_OBSERVATION":
            self._observed(event.asset_observation_data.asset_observation.metadata)
        elif event.event_type_value == "STEP_UP_FOR_RETRY":
            self._warn(f"{self._prefix(step)} {reason(event.step_retry_data.error)}; it starts again")
        elif event.event_type_value == "STEP_FAILURE":
            self._failed(step, entry, event)

    def _failed(self, step: str, entry: dg.EventLogEntry, event: dg.DagsterEvent) -> None:
        data = event.step_failure_data
        if data.error and data.error.cls_name == INTERRUPTED:
            self._finish("stopped", step, entry.timestamp)
            return
        failure = data.user_failure_data
        message = failure.description if failure and failure.description else reason(data.error)
        if self._checks and "blocking asset check" in message:
            message = f"targets do not pass: {'; '.join(self._checks)}; mend them (docs/filters.md#checks), or train "
            message += "on them as they are with --set training.ignore_checks=true, which the lineage records"
        self.failures.append(f"{name_of(step)}: {message}")
        self._finish("FAILED", step, entry.timestamp)

    def _say(self, step: str, text: str, timestamp: float) -> None:
        stage = self.view.stages[step]
        stage.message, stage.said = text, timestamp
        self._terminal.status(f"{self._prefix(step)} {text}")

    def _warn(self, text: str) -> None:
        self.view.warnings.append(text)
        if not self._terminal.rewrites:
            self._terminal.line(text)

    def _observed(self, metadata: Mapping[str, Any]) -> None:
        for name in (metric.name for metric in CURVES):
            if name in metadata and is_finite(value := metadata[name].value):
                self.view.curves[name].append(value)

    def _finish(self, state: str, step: str, timestamp: float) -> None:
        """Write the line of a step that ended."""
        stage = self.view.stages.setdefault(step, Stage(timestamp))
        stage.state = state
        text = stage.message if state == DONE and stage.said else ""
        prefix = self._prefix(step, self.view.ended)
        self._terminal.line(f"{prefix} {state:7} {timestamp - stage.began:6.1f} s  {text}".rstrip())

    def _prefix(self, step: str, number: int | None = None) -> str:
        stages = len(self.view.steps)
        number = min(number or self.view.ended + 1, stages)
        return f"[{number:>{len(str(stages))}}/{stages}] {name_of(step):17}"


def name_of(step: str) -> str:
    """Return the asset that a step materializes, as people write it."""
    return step.replace("__", "/")
