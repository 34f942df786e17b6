"""Processes that outlived their run: they are recognised by the run's id in their environment, never by a name.

`TrainingInterpreter` puts the id of the run into the environment of every program that it starts, and the supervisor
ends such a program with all of its descendants. What this module finds are the rare processes that a killed supervisor
left behind.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import dagster as dg
import psutil

from assets.shared.interpreter import RUN_VARIABLE
from core.processes import start_ticks

SETTLE_SECONDS = 60.0  # after a run's end its own supervisor has time to stop everything
KILL_SECONDS = 60.0  # from TERM to KILL


@dataclass(frozen=True)
class Leftover:
    """A process of a run that has ended. ``key`` tells it from a later process with the same id."""

    process: psutil.Process
    run_id: str
    key: str
    command: str


def find_leftovers(instance: dg.DagsterInstance, now: float | None = None) -> list[Leftover]:
    """Processes of this user on this machine whose run of ``instance`` ended a minute ago or longer.

    Processes of runs that ``instance`` does not know belong to another instance and are left alone.
    """
    now = time.time() if now is None else now
    runs = _runs_of_processes()
    ended = {run_id for run_id in set(runs.values()) if _ended(instance, run_id, now)}
    leftovers = []
    for process, run_id in sorted(runs.items(), key=lambda item: item[0].pid):
        if run_id in ended and (ticks := start_ticks(process.pid)) is not None:
            leftovers.append(
                Leftover(process, run_id, f"{process.pid}-{ticks}", " ".join(process.info["cmdline"])[:120])
            )
    return leftovers


def stop(leftovers: Iterable[Leftover], asked: Mapping[str, float], now: float) -> dict[str, float]:
    """Send TERM to those not in ``asked``, and KILL to those that ignored it; returns when each was first asked."""
    times: dict[str, float] = {}
    for leftover in leftovers:
        first = times[leftover.key] = asked.get(leftover.key, now)
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile, even if another process has its id
            if leftover.key not in asked:
                leftover.process.terminate()
            elif now - first >= KILL_SECONDS:
                leftover.process.kill()
    return times


def _runs_of_processes() -> dict[psutil.Process, str]:
    """The run of each process that has one, by its own environment or that of an ancestor.

    Ray's workers overwrite their environment with their titles, so the descendants of a marked process count as marked.
    """
    ours = {
        process.pid: process
        for process in psutil.process_iter(["ppid", "uids", "status", "environ", "cmdline"])
        if process.pid != os.getpid()
        and process.info["environ"] is not None  # None: access denied
        and process.info["uids"].effective == os.geteuid()
        and process.info["status"] != psutil.STATUS_ZOMBIE
    }
    runs = {pid: run for pid, process in ours.items() if (run := process.info["environ"].get(RUN_VARIABLE))}
    for pid in ours:
        chain = [pid]
        while chain[-1] not in runs and chain[-1] in ours:
            chain.append(ours[chain[-1]].info["ppid"])
        if run := runs.get(chain[-1]):
            runs.update(dict.fromkeys(chain, run))
    return {ours[pid]: run for pid, run in runs.items()}


def _ended(instance: dg.DagsterInstance, run_id: str, now: float) -> bool:
    record = instance.get_run_record_by_id(run_id)
    if record is None or not record.dagster_run.is_finished:
        return False
    return now - (record.end_time or record.update_timestamp.timestamp()) >= SETTLE_SECONDS
