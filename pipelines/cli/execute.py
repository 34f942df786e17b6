"""Execute the runs of a command in processes forked from its own, which has imported what they need, and show them.

Such a process has a session of its own, so Ctrl-C at the terminal reaches the run as one request to cancel (`CANCEL`),
and not each of its processes at once. It also cancels the run when the command ends, however that happens.
"""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteRepositoryOrigin

from assets.shared.launchpad import COMMAND, write_settings
from assets.shared.storage import Storage
from core.files import read_json
from core.machine.interruptible import INTERRUPTED
from core.machine.processes import die_with_parent
from core.plugins.config_files import recipe_name
from core.progress import Terminal
from core.settings import profile_name, read_run
from evaluation.benchmarks.suite import GROUPS
from pipelines.cli.terminal import RunMonitor, RunView
from pipelines.definitions.database import wait_for_database
from pipelines.definitions.dead_runs import end_dead_runs, owner_tag
from pipelines.definitions.executor import steps
from pipelines.definitions.factory import build_defs
from pipelines.definitions.jobs import EVERYTHING
from pipelines.settings import DEFAULT, Settings

LOCATION, REPOSITORY = "luffy", "__repository__"  # of workspace.yaml, and as Dagster calls the definitions there
CANCEL = signal.SIGUSR1
PAUSE_SECONDS = 0.1
FORK = multiprocessing.get_context("fork")
_DEFINED: dict[str, dg.Definitions] = {}  # by the id of a command


def define(command: str, settings: Settings) -> dg.Definitions:
    """Build the definitions of a command, which the processes that are forked from this one have, too."""
    _DEFINED[command] = build_defs(settings, executor=steps)
    return _DEFINED[command]


def job(name: str, command: str, settings: str) -> dg.JobDefinition:
    """Return a job, for which each step of a run asks again; another process reads the file of the ``settings``."""
    defs = _DEFINED.get(command) or define(command, read_run(Path(settings), Settings))
    return defs.resolve_job_def(name)


class Command:
    """One call of ``luffy run``: its settings, the definitions of its runs, and the runs."""

    def __init__(self, settings: Settings, profile: str = "") -> None:
        self.settings = settings
        self.tags = {"profile": profile or profile_name() or DEFAULT, "recipe": recipe_name(settings.training.recipe)}
        self.id = os.urandom(4).hex()
        self.run_id: str | None = None  # of the last run
        self.storage = Storage(root=settings.storage.root)
        self.definitions = define(self.id, settings)
        gc.freeze()  # these objects live until exit: keep the collector off them

    def execute(
        self,
        instance: dg.DagsterInstance,
        job: str,
        terminal: Terminal,
        keys: Sequence[dg.AssetKey] | None = None,
        at_once: int = 1,
    ) -> int:
        """Run ``job`` in a process of its own and show it on ``terminal``; Ctrl-C cancels the run.

        Args:
            instance: The instance that records the run.
            keys: Materialize only these assets.
            at_once: Number of steps that run at the same time.

        Returns:
            The exit status of the command.
        """
        wait_for_database()  # it has answered before
        tags = {COMMAND: f"{job}-{self.id}", **(self.tags if job == EVERYTHING else {})}
        # A shell starts background jobs with Ctrl-C ignored, and Dagster's steps then ignore TERM.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.file = write_settings(self.settings, self.id)
        process = FORK.Process(target=self._run, args=(os.getpid(), instance.root_directory, job, tags, keys, at_once))
        process.start()  # a fork, so before any thread
        assert process.pid is not None
        cancelled = False
        with RunMonitor(instance, tags, terminal) as monitor:
            while process.exitcode is None:
                try:
                    process.join()
                except KeyboardInterrupt:
                    cancelled = True
                    terminal.line("cancelling: the running steps are being stopped")
                    os.kill(process.pid, CANCEL)
        self.run_id = monitor.run_id
        if process.exitcode == 0 and not cancelled:
            return 0
        run = instance.get_run_by_id(monitor.run_id) if monitor.run_id else None
        # The process may end by the request before the run begins, or after its last step.
        if (cancelled and not monitor.failures) or (run is not None and run.status == dg.DagsterRunStatus.CANCELED):
            end_dead_runs(instance)
            for line in _kept(self.storage, str(monitor.run_id), monitor.view):
                terminal.line(line)
            terminal.line("cancelled; run the same command again to continue from the complete outputs")
            return INTERRUPTED
        for failure in monitor.failures or [_early_end(instance)]:
            sys.stderr.write(f"error: {failure}\n")
        return 1

    def _run(
        self, parent: int, home: str, name: str, tags: dict[str, str], keys: Sequence[dg.AssetKey] | None, at_once: int
    ) -> None:
        """Execute a run in this process, which is a fork; its exit status is 0 if the run succeeds."""
        os.setsid()
        asked = threading.Event()
        signal.signal(CANCEL, lambda *_: asked.set())
        die_with_parent(parent, CANCEL)
        with open(os.devnull, "rb") as nothing, log_file(home).open("wb") as output:
            os.dup2(nothing.fileno(), 0)
            for stream in (1, 2):
                os.dup2(output.fileno(), stream)
        # The daemon retries crashed workers of code servers; the end of this run is seen by a person.
        tags = {"dagster/max_retries": "0", **tags, **owner_tag()}
        with dg.DagsterInstance.get() as instance:
            # The timeline of the UI leaves out the runs that belong to no code location.
            create: Any = instance.create_run_for_job
            origin = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(LOCATION), REPOSITORY).get_job_origin(name)
            instance.create_run_for_job = partial(create, remote_job_origin=origin)
            threading.Thread(target=_cancel_when, args=(asked, instance, owner_tag()), daemon=True).start()
            result = dg.execute_job(
                dg.build_reconstructable_job(
                    "pipelines.cli.execute",
                    "job",
                    reconstructable_kwargs={"name": name, "command": self.id, "settings": str(self.file)},
                ),
                instance,
                run_config={"execution": {"config": {"max_concurrent": at_once}}},
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


def _kept(storage: Storage, run_id: str, view: RunView) -> Iterator[str]:
    """Describe what a cancelled run leaves for the next one to continue from."""
    from training.job.checkpoints import latest_step

    if done := view.names(done=True):
        yield f"kept: the outputs of {', '.join(done)}"
    if any(name.partition("/")[0] in GROUPS for name in view.names(done=False)):
        yield "kept: the samples that were generated, except for the last seconds'"
    for file in sorted(storage.path.glob("training/policy/*/request.json")):
        run = file.parent
        if (run / "policy").exists() or read_json(file).get("upstream", {}).get("dagster_run") != run_id:
            continue
        steps = {folder: latest_step(folder / "checkpoints") for folder in (run, run / "first_stage")}
        if folder := next((folder for folder, step in steps.items() if step), None):
            yield f"kept: the training up to the checkpoint of step {steps[folder]}, in {folder}"
        else:
            yield "not kept: the training, which had no checkpoint yet (trainer.save_freq: steps between them)"


def log_file(home: str) -> Path:
    """Return the log of the last run's processes, with what Dagster and its libraries print outside the event log."""
    return Path(home) / "terminal.log"


def _early_end(instance: dg.DagsterInstance) -> str:
    """Describe the end of a run without a failed step, from the log of its process."""
    log = log_file(instance.root_directory)
    said = log.read_text(encoding="utf-8", errors="replace").splitlines()
    reasons = [line for line in said if "OperationalError" in line]  # of the database; its last lines are SQL
    where = f"DAGSTER_HOME {instance.root_directory}: " if reasons else ""
    last = [*said[-1:], *reasons[-1:]]
    return f"the run ended early: {where}{last[-1] if last else 'it wrote no message'}\nits log: {log}"
