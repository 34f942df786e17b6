"""Execute one run of a job in a process forked from that of a command: it has imported what the run needs.

The process has a session of its own, so Ctrl-C at the terminal reaches the run as one request to cancel (`CANCEL`), and
not each of its processes at once. It also cancels the run when the process that started it ends, however that happens.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import dagster as dg

from assets.shared.profile import Names
from core.machine.processes import die_with_parent
from core.settings import read_run
from pipelines.definitions.executor import forked_steps
from pipelines.definitions.factory import build_defs
from pipelines.definitions.instance import CANCEL, owner_tag
from pipelines.settings import Settings

PAUSE_SECONDS = 0.1
FORK = multiprocessing.get_context("fork")


_DEFINED: dict[str, dg.Definitions] = {}  # by the id of a command


def define(command: str, settings: Settings) -> dg.Definitions:
    """Build the definitions of a command, which the processes that are forked from this one have, too."""
    _DEFINED[command] = build_defs(settings, Names(), executor=forked_steps)
    return _DEFINED[command]


def job(name: str, command: str, settings: str) -> dg.JobDefinition:
    """Return a job, for which each step of a run asks again; another process reads the file of the ``settings``."""
    defs = _DEFINED.get(command) or define(command, read_run(Path(settings), Settings))
    return defs.resolve_job_def(name)


def start_run(
    name: str,
    command: str,
    settings: Path,
    log: Path,
    *,
    tags: Mapping[str, str],
    keys: Sequence[dg.AssetKey] | None,
    at_once: int | None,
) -> BaseProcess:
    """Start a process that executes a run of the job ``name``; its exit status is 0 if the run succeeds.

    Args:
        command: Id of the command.
        settings: File of its settings.
        log: File for what the process and its steps print.
        tags: Tags of the run.
        keys: Materialize only these assets.
        at_once: Number of steps that run at the same time.
    """
    process = FORK.Process(target=_execute, args=(os.getpid(), name, command, settings, log, tags, keys, at_once))
    process.start()
    return process


def _execute(
    parent: int,
    name: str,
    command: str,
    settings: Path,
    log: Path,
    tags: Mapping[str, str],
    keys: Sequence[dg.AssetKey] | None,
    at_once: int | None,
) -> None:
    os.setsid()
    asked = threading.Event()
    signal.signal(CANCEL, lambda *_: asked.set())
    die_with_parent(parent, CANCEL)
    with open(os.devnull, "rb") as nothing, log.open("wb") as output:
        os.dup2(nothing.fileno(), 0)
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
    # The daemon retries crashed workers of code servers; this run belongs to a terminal, where a person sees its end.
    tags = {"dagster/max_retries": "0", **tags, **owner_tag()}
    config: dict[str, Any] = {"execution": {"config": {"max_concurrent": at_once}}} if at_once else {}
    with dg.DagsterInstance.get() as instance:
        threading.Thread(target=_cancel_when, args=(asked, instance, owner_tag()), daemon=True).start()
        result = dg.execute_job(
            dg.build_reconstructable_job(
                "pipelines.cli.execute",
                "job",
                reconstructable_kwargs={"name": name, "command": command, "settings": str(settings)},
            ),
            instance,
            run_config=config,
            tags=tags,
            asset_selection=keys or None,
        )
    sys.exit(0 if result.success else 1)


def _cancel_when(asked: threading.Event, instance: dg.DagsterInstance, tags: dict[str, str]) -> None:
    """Once ``asked``, have Dagster stop the run as cancelled: without its state it would count as failed.

    Dagster drops an interrupt that comes before the run is in progress.
    """
    asked.wait()
    started = dg.RunsFilter(tags=tags, statuses=[dg.DagsterRunStatus.STARTED])
    while not (runs := instance.get_runs(filters=started, limit=1)):
        time.sleep(PAUSE_SECONDS)
    instance.report_run_canceling(runs[0], message="Cancelled at the terminal, or the terminal went away.")
    os.kill(os.getpid(), signal.SIGINT)
