"""Runs whose process has died, and processes that outlived their run.

`TrainingInterpreter` puts the id of the run into the environment of every program that it starts, and the supervisor
ends such a program with all of its descendants. The rare processes that a killed supervisor left behind are found by
that id, never by a name.
"""

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from assets.shared.interpreter_process import RUN_VARIABLE
from assets.shared.launchpad import COMMAND
from core.machine.processes import Process, running, start_ticks
from pipelines.definitions.instance import OWNER

GONE = "The process that executed this run is gone."
SETTLE_SECONDS = 60.0  # after a run's end, in which its own supervisor may still stop everything
KILL_SECONDS = 60.0  # time from TERM to KILL


def end_dead_runs(instance: dg.DagsterInstance, lost: Collection[str] = ()) -> list[str]:
    """End the runs whose process has died (killed, power lost), and free their slots in the pools.

    Otherwise a run that was killed would stay "started" for ever and keep its slot in the `gpu` pool. The daemon
    retries the run of a code server; a run that belonged to a terminal counts as cancelled.

    Args:
        lost: Ids of runs that were executed under another host name, which is gone.
    """
    ended = []
    for run, (host, pid, since) in _executed(instance):
        here = host == socket.gethostname()
        if run.run_id not in lost and (not here or Process(pid, since).is_alive()):
            continue
        if COMMAND in run.tags or run.status == dg.DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, message=GONE)
        else:
            instance.report_run_failed(run, message=GONE)
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        ended.append(run.run_id)
    return ended


def runs_elsewhere(instance: dg.DagsterInstance, location: str) -> list[str]:
    """Find the unfinished runs that a code server of this location has executed under another host name.

    Dagster's default launcher executes a run in the code server, and a location has one code server at a time. If
    this process is that server, the others are lost, or about to be: a new pod starts before the old one ends.
    """
    if not isinstance(instance.run_launcher, dg.DefaultRunLauncher):
        return []
    return [
        run.run_id
        for run, (host, pid, since) in _executed(instance)
        if host != socket.gethostname()
        and run.remote_job_origin
        and run.remote_job_origin.location_name == location
        and not Process(pid, since).is_alive()  # a machine that was renamed still has the process
    ]


def _executed(instance: dg.DagsterInstance) -> Iterator[tuple[dg.DagsterRun, tuple[str, int, int]]]:
    """Yield the unfinished runs that are being executed, with the host, id and start of the executing process."""
    unfinished = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.CANCELING]
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=unfinished)):
        owner = run.tags.get(OWNER)
        # A run that is executed again takes the tags of its parent.
        if owner is not None and owner != _owner_of_parent(instance, run):
            yield run, json.loads(owner)


def _owner_of_parent(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str | None:
    parent = instance.get_run_by_id(run.parent_run_id) if run.parent_run_id else None
    return parent.tags.get(OWNER) if parent else None


@dataclass(frozen=True)
class OrphanProcess:
    """A process of a run that has ended."""

    process: Process
    run_id: str
    command: str

    @property
    def key(self) -> str:
        """A key that distinguishes it from a later process with the same id."""
        return f"{self.process.pid}-{self.process.since}"


def find_leftovers(instance: dg.DagsterInstance, now: float | None = None) -> list[OrphanProcess]:
    """Find processes of this user and machine whose run of ``instance`` ended at least a minute ago.

    Processes of runs that ``instance`` does not know belong to another instance and are left alone.
    """
    now = time.time() if now is None else now
    runs = _runs_of_processes()
    ended = {run_id for run_id, _ in set(runs.values()) if _ended(instance, run_id, now)}
    return [OrphanProcess(process, run, command) for process, (run, command) in runs.items() if run in ended]


def stop(leftovers: Iterable[OrphanProcess], asked: Mapping[str, float], now: float) -> dict[str, float]:
    """Send TERM to those not in ``asked``, and KILL to those that ignored it; return when each was first asked."""
    times: dict[str, float] = {}
    for leftover in leftovers:
        first = times[leftover.key] = asked.get(leftover.key, now)
        if leftover.key not in asked:
            leftover.process.send_signal(signal.SIGTERM)
        elif now - first >= KILL_SECONDS:
            leftover.process.send_signal(signal.SIGKILL)
    return times


def _runs_of_processes() -> dict[Process, tuple[str, str]]:
    """Find the processes of runs, with run and command, by their own environment or that of an ancestor.

    Ray's workers overwrite their environment with their titles, so the descendants of a marked process count as marked.
    """
    import psutil  # here: the code location loads this module

    ours: dict[int, tuple[Process, dict[str, Any]]] = {}
    for process in running():  # with its start, before anything else is looked at: whoever has its id later is another
        with contextlib.suppress(psutil.NoSuchProcess):
            facts = psutil.Process(process.pid).as_dict(["ppid", "uids", "status", "environ", "cmdline"])
            if (
                process.pid != os.getpid()
                and facts["environ"] is not None  # None: access denied
                and facts["uids"].effective == os.geteuid()
                and facts["status"] != psutil.STATUS_ZOMBIE
            ):
                ours[process.pid] = process, facts
    runs = {pid: run for pid, (_, facts) in ours.items() if (run := facts["environ"].get(RUN_VARIABLE))}
    for pid in ours:
        chain = [pid]
        while chain[-1] not in runs and chain[-1] in ours:
            chain.append(ours[chain[-1]][1]["ppid"])
        if (run := runs.get(chain[-1])) and all(start_ticks(p) == ours[p][0].since for p in chain[1:]):
            runs[pid] = run
    commands = {pid: " ".join(facts["cmdline"] or [])[:120] for pid, (_, facts) in ours.items()}
    return {ours[pid][0]: (run, commands[pid]) for pid, run in sorted(runs.items())}


def _ended(instance: dg.DagsterInstance, run_id: str, now: float) -> bool:
    record = instance.get_run_record_by_id(run_id)
    if record is None or not record.dagster_run.is_finished:
        return False
    return now - (record.end_time or record.update_timestamp.timestamp()) >= SETTLE_SECONDS
