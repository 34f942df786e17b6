"""Processes that outlived their run: found by the run's id in their environment, never by a name.

`TrainingInterpreter` gives every program that it starts the id of its run. The supervisor ends such a program with all
of its descendants; what is left here is what a power cut of the supervisor, or a process that hides, left over.
"""

import os
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from assets.shared.interpreter import RUN_VARIABLE
from pipelines.definitions.instance import started

SETTLE_SECONDS = 60.0  # after a run's end its own supervisor has time to stop everything
KILL_SECONDS = 60.0  # from TERM to KILL


@dataclass(frozen=True)
class Leftover:
    """A process of a run that has ended; ``started`` tells it from a later one of the same id."""

    pid: int
    started: int
    run_id: str
    command: str

    @property
    def key(self) -> str:
        return f"{self.pid}-{self.started}"


def find_leftovers(instance: dg.DagsterInstance, now: float | None = None) -> list[Leftover]:
    """Processes of this user on this machine whose run of ``instance`` ended a minute ago or longer.

    Processes of runs that ``instance`` does not know belong to another instance and are left alone.
    """
    now = time.time() if now is None else now
    owned = _runs_of_processes()
    ended = {run_id for run_id in set(owned.values()) if _ended(instance, run_id, now)}
    found = []
    for pid, run_id in sorted(owned.items()):
        if run_id in ended and (since := started(pid)) is not None:
            found.append(Leftover(pid, since, run_id, _command(pid)))
    return found


def stop(leftovers: Iterable[Leftover], asked: Mapping[str, float], now: float) -> dict[str, float]:
    """TERM those that were not asked yet, KILL those that did not listen; when each was first asked."""
    times: dict[str, float] = {}
    for leftover in leftovers:
        first = asked.get(leftover.key)
        times[leftover.key] = now if first is None else first
        if first is None:
            _signal(leftover, signal.SIGTERM)
        elif now - first >= KILL_SECONDS:
            _signal(leftover, signal.SIGKILL)
    return times


def _signal(leftover: Leftover, signum: signal.Signals) -> None:
    """Signal exactly this process: the descriptor pins it before its start time is compared."""
    try:
        descriptor = os.pidfd_open(leftover.pid)
    except ProcessLookupError:
        return
    try:
        if started(leftover.pid) == leftover.started:
            signal.pidfd_send_signal(descriptor, signum)
    except ProcessLookupError:
        return  # it ended meanwhile
    finally:
        os.close(descriptor)


def _runs_of_processes() -> dict[int, str]:
    """The run of each process that has one, by its environment or its parent's.

    Ray's workers write their titles over their environment, so what a marked process started counts as marked.
    """
    parents: dict[int, int] = {}
    runs: dict[int, str] = {}
    mark = f"{RUN_VARIABLE}=".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        pid = int(entry.name)
        try:
            if entry.stat().st_uid != os.getuid():
                continue
            state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            variables = (entry / "environ").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it ended while we looked, or is not ours
        if state == "Z" or pid == os.getpid():
            continue
        parents[pid] = int(parent)
        for variable in variables:
            if variable.startswith(mark):
                runs[pid] = variable.removeprefix(mark).decode(errors="replace")
    for pid in parents:
        chain, above = [pid], pid
        while above not in runs and above in parents:
            above = parents[above]
            chain.append(above)
        if above in runs:
            runs.update(dict.fromkeys(chain, runs[above]))
    return runs


def _ended(instance: dg.DagsterInstance, run_id: str, now: float) -> bool:
    record = instance.get_run_record_by_id(run_id)
    if record is None or not record.dagster_run.is_finished:
        return False
    return now - (record.end_time or record.update_timestamp.timestamp()) >= SETTLE_SECONDS


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120].strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
