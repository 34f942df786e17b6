"""DAGSTER_HOME: the folder of the Dagster instance, and the clean-up of runs whose process has died."""

import json
import os
import signal
import socket
from collections.abc import Collection, Iterator
from pathlib import Path

import dagster as dg

from core import PROJECT
from core.errors import InputError
from core.files import atomic_write
from core.machine.processes import Process, start_ticks

CONFIG = "dagster.yaml"
CANCEL = signal.SIGUSR1  # asks `pipelines.cli.execute` to cancel its run
COMMAND = "luffy/command"  # tag of a run that a terminal executes
OWNER = "luffy/process"  # tag of a run: the process that executes it
GONE = "The process that executed this run is gone."


def prepare_home() -> Path:
    """Create DAGSTER_HOME (default ``var/dagster``) with the project's dagster.yaml; InputError if that fails.

    A dagster.yaml that the operator wrote is kept.
    """
    home = Path(os.environ.setdefault("DAGSTER_HOME", str(PROJECT / "var" / "dagster"))).absolute()
    os.environ["DAGSTER_HOME"] = str(home)
    ours, target = (PROJECT / CONFIG).read_text(encoding="utf-8"), home / CONFIG
    marker = ours.splitlines()[0]
    try:
        home.mkdir(parents=True, exist_ok=True)
        present = target.read_text(encoding="utf-8") if target.exists() else marker
        if present != ours and present.startswith(marker):
            with atomic_write(target) as temporary:
                temporary.write_text(ours, encoding="utf-8")
    except OSError as error:
        raise InputError(f"DAGSTER_HOME {home}: {error.strerror}; make room or choose another folder") from error
    return home


def owner_tag() -> dict[str, str]:
    """Return the tag that names this process; a process id alone may be reused, or belong to another machine."""
    return {OWNER: json.dumps([socket.gethostname(), os.getpid(), start_ticks(os.getpid())])}


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
