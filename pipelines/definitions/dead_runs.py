"""Runs with a dead process: otherwise they would stay "started" and keep their slots in the pools.

Dagster's run monitoring cannot examine the runs of its default launcher.
"""

import json
import os
import socket
from collections.abc import Collection, Iterator

import dagster as dg

from assets.shared.launchpad import COMMAND, OWNER
from core.machine.processes import Process, start_ticks

GONE = "The process that executed this run is gone."


def owner_tag() -> dict[str, str]:
    """Return the tag that names this process; a process id alone may be reused, or belong to another machine."""
    return {OWNER: json.dumps([socket.gethostname(), os.getpid(), start_ticks(os.getpid())])}


def end_dead_runs(instance: dg.DagsterInstance, lost: Collection[str] = ()) -> list[str]:
    """End the runs with a dead process (killed, power lost), free their slots in the pools, and return their ids.

    The daemon retries the run of a code server; a run that belonged to a terminal counts as cancelled.

    Args:
        lost: Ids of runs that were executed under another host name, which is gone.
    """
    ended = []
    for run, (host, process) in _executed(instance):
        if run.run_id not in lost and (host != socket.gethostname() or process.is_alive()):
            continue
        cancelled = COMMAND in run.tags or run.status == dg.DagsterRunStatus.CANCELING
        report = instance.report_run_canceled if cancelled else instance.report_run_failed
        report(run, message=GONE)
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
        for run, (host, process) in _executed(instance)
        if host != socket.gethostname()
        and run.remote_job_origin
        and (COMMAND not in run.tags or run.parent_run_id)  # not that of a terminal
        and run.remote_job_origin.location_name == location
        and not process.is_alive()  # a machine that was renamed still has the process
    ]


def _executed(instance: dg.DagsterInstance) -> Iterator[tuple[dg.DagsterRun, tuple[str, Process]]]:
    """Yield the unfinished runs that are being executed, with the host and the process that executes each."""
    unfinished = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.CANCELING]
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=unfinished)):
        owner = run.tags.get(OWNER)
        parent = instance.get_run_by_id(run.parent_run_id) if run.parent_run_id else None
        # A run that is executed again takes the tags of its parent.
        if owner is not None and not (parent and owner == parent.tags.get(OWNER)):
            host, pid, since = json.loads(owner)
            yield run, (host, Process(pid, since))
