"""``luffy run`` and ``luffy demo``: materialize the graph through Dagster and show it on the terminal.

The run is recorded in the instance that ``luffy ui`` shows.
"""

import gc
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.generated import KEY as GENERATED
from assets.shared.launchpad import COMMAND, write_settings
from assets.shared.references import Reference
from assets.shared.storage import Storage
from core import PROJECT
from core.errors import InputError
from core.machine.interruptible import INTERRUPTED
from core.progress import Terminal
from pipelines.cli.selection import selection_keys
from pipelines.cli.terminal import LINE_SECONDS, RunMonitor, RunView
from pipelines.definitions.database import reuse_engines, wait_for_database
from pipelines.definitions.executor import preload
from pipelines.definitions.instance import CANCEL, prepare_home
from pipelines.definitions.jobs import EVERYTHING, OBSERVE, ROUNDS
from pipelines.definitions.orphans import end_dead_runs
from pipelines.settings import Settings, built_in
from pipelines.training_check import check_training

POLICY_NAME = "policy"  # last part of the key of a training
NEEDS_TRAINING_PYTHON = {"training", "evals", "ood"}  # groups


def run_graph(
    settings: Settings, select: str | None, max_concurrent: int, job: str = EVERYTHING, *, profile: str = ""
) -> int:
    """Materialize the assets of ``job``, or those of them that ``select`` names, and show it; the exit status.

    ``profile``: The name that the user gave, which the suggestions repeat.
    """
    prepare_home()  # in the user's folder, where a relative DAGSTER_HOME starts
    os.chdir(PROJECT)
    if job == ROUNDS and settings.rounds is None:
        raise InputError("the settings have no section rounds; add one to the profile, or take --profile rounds")
    command = Command(settings)
    defs = command.definitions()
    keys, others = selection_keys(defs, "*" if select is None else select, job)
    left_out = f"not in the job {job}: {', '.join(key.to_user_string() for key in others)}"
    hint = "materialize them in the UI, or by their own command (luffy rounds)"
    if not keys:
        reason = f"{left_out}; {hint}" if others else "the selection contains no asset to materialize; `*` selects all"
        raise InputError(f"--select {select!r}: {reason}")
    if job == ROUNDS or any(key.path[0] in NEEDS_TRAINING_PYTHON or key == GENERATED for key in keys):
        python = resource(defs, "interpreter").examined()
        if any(key.path[-1] == POLICY_NAME for key in keys):
            check_training(settings, python)
    terminal = Terminal(every_s=LINE_SECONDS)
    if select and others:
        terminal.line(f"{left_out}; {hint}")
    with dg.DagsterInstance.get() as instance:
        for run_id in end_dead_runs(instance):
            terminal.line(f"marked run {run_id[:8]} as ended, because its process is gone")
        if any(key.path[0] == "targets" for key in keys):
            status = execute(instance, command, OBSERVE, terminal, meanwhile=preload)
            if status:
                return status
        status = execute(instance, command, job, terminal, keys=keys if select else None, at_once=max_concurrent)
    if status == 0:
        show_result(command.storage, terminal, keys)
        for line in _next_steps(settings, keys, profile):
            terminal.line(line)
    return status


class Command:
    """One call of ``luffy run``: its settings, and the definitions of its runs."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.id = os.urandom(4).hex()
        self.storage = Storage(root=settings.storage.root)

    def definitions(self) -> dg.Definitions:
        """Build the definitions."""
        from pipelines.cli.execute import define

        defs = define(self.id, self.settings)
        reuse_engines()
        gc.freeze()  # they stay as long as the process: searching them for garbage, even when it ends, takes long
        return defs


def resource(defs: dg.Definitions, name: str) -> Any:
    """Return a resource of the definitions."""
    assert defs.resources is not None
    return defs.resources[name]


def execute(
    instance: dg.DagsterInstance,
    command: Command,
    job: str,
    terminal: Terminal,
    *,
    keys: Sequence[dg.AssetKey] | None = None,
    at_once: int | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> int:
    """Run ``job`` in a process of its own and show it; Ctrl-C cancels the run.

    Args:
        instance: The instance that records the run.
        command: What the run belongs to.
        job: Name of the job.
        terminal: Where the run is shown.
        keys: Materialize only these assets.
        at_once: Number of steps that run at the same time.
        meanwhile: Called once while this process waits.

    Returns:
        The exit status of the command.
    """
    wait_for_database()  # it has answered before
    tags = {COMMAND: f"{job}-{command.id}"}
    # A shell starts background jobs with Ctrl-C ignored, and Dagster's steps then ignore TERM: nothing could stop us.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from pipelines.cli.execute import start_run

    file = write_settings(command.settings, command.id)
    # A fork, so before any thread.
    process = start_run(job, command.id, file, log_file(instance), tags=tags, keys=keys, at_once=at_once)
    assert process.pid is not None
    cancelled = False
    with RunMonitor(instance, tags, terminal) as monitor:
        while process.exitcode is None:
            try:
                work, meanwhile = meanwhile, None
                if work:
                    work()
                process.join()
            except KeyboardInterrupt:
                cancelled = True
                terminal.line("cancelling: the running steps are being stopped")
                os.kill(process.pid, CANCEL)
    if process.exitcode == 0 and not cancelled:
        return 0
    run = instance.get_run_by_id(monitor.run_id) if monitor.run_id else None
    # The process may end by the request before the run begins, or after its last step.
    if (cancelled and not monitor.failures) or (run is not None and run.status == dg.DagsterRunStatus.CANCELED):
        end_dead_runs(instance)
        for line in _kept(command.storage, str(monitor.run_id), monitor.view):
            terminal.line(line)
        terminal.line("cancelled; run the same command again to continue from the complete outputs")
        return INTERRUPTED
    for failure in monitor.failures:
        sys.stderr.write(f"error: {failure}\n")
    if not monitor.failures:
        said = log_file(instance).read_text(encoding="utf-8", errors="replace").splitlines()
        reasons = [line for line in said if "OperationalError" in line]  # of the database; its last lines are SQL
        where = f"DAGSTER_HOME {instance.root_directory}: " if reasons else ""
        last = [*said[-1:], *reasons[-1:]]
        sys.stderr.write(f"error: the run ended early: {where}{last[-1] if last else 'it wrote no message'}\n")
        sys.stderr.write(f"its log: {log_file(instance)}\n")
    return 1


def _kept(storage: Storage, run_id: str, view: RunView) -> Iterator[str]:
    """Describe what a cancelled run leaves for the next one to continue from."""
    from core.files import read_json
    from training.job.checkpoints import latest_step

    if done := view.names(done=True):
        yield f"kept: the outputs of {', '.join(done)}"
    if any(name.startswith(("evals/", "ood/")) for name in view.names(done=False)):
        yield "kept: the samples that were generated, except for those of the last seconds"
    for file in sorted(storage.path.glob("training/policy/*/request.json")):
        run = file.parent
        if (run / "policy").exists() or read_json(file).get("upstream", {}).get("dagster_run") != run_id:
            continue
        steps = {folder: latest_step(folder / "checkpoints") for folder in (run, run / "first_stage")}
        if folder := next((folder for folder, step in steps.items() if step), None):
            yield f"kept: the training up to the checkpoint of step {steps[folder]}, in {folder}"
        else:
            yield "not kept: the training, which had no checkpoint yet (trainer.save_freq: steps between them)"


def log_file(instance: dg.DagsterInstance) -> Path:
    """Return the log of the last run's processes, with what Dagster and its libraries print beside the event log."""
    return Path(instance.root_directory) / "terminal.log"


def show_result(storage: Storage, terminal: Terminal, keys: Sequence[dg.AssetKey]) -> None:
    """Print the scorecard, and say where to find more."""
    from assets.report import SCORECARD
    from evaluation.report.scorecard.publish import PAGE, TEXT

    if SCORECARD in keys:
        folder = storage.read_reference(SCORECARD.to_user_string(), Reference).path
        terminal.line("")
        with open(f"{folder}/{TEXT}", encoding="utf-8") as text:
            terminal.line(text.read().rstrip())
        terminal.line(f"\nreport: {folder}/{PAGE}")
    elif scored := last_scorecard(storage, keys):
        with open(f"{scored}/rounds.md", encoding="utf-8") as text:
            terminal.line(f"\n{text.read().rstrip()}")
        terminal.line(f"\nreport: {scored}/rounds.html")
    else:
        terminal.line(f"\noutputs: {storage.path}")


def last_scorecard(storage: Storage, keys: Sequence[dg.AssetKey]) -> str | None:
    """The folder of the scorecard of the last round of this run, if it had rounds: later ones were skipped."""
    names = [key.to_user_string() for key in keys if key.path[0] == "rounds" and key.path[-1] == "scorecard"]
    written = [name for name in names if storage.reference_file(name).exists()]
    last = max(written, key=lambda name: storage.reference_file(name).stat().st_mtime_ns, default=None)
    return storage.read_reference(last, Reference).path if last else None


def _next_steps(settings: Settings, keys: Sequence[dg.AssetKey], profile: str) -> Iterator[str]:
    """Suggest commands that follow the run; each works when it is pasted."""
    program = "luffy" if shutil.which("luffy") else ".venv/bin/luffy"
    stages, given = {key.path[0] for key in keys}, f" --profile {shlex.quote(profile)}" if profile else ""
    steps = [f"  {program} champion{given}: the policy in use, and the decisions"] if "registry" in stages else []
    if settings.training == built_in().training and "training" in stages:
        steps.append(f"  {program} run: the same on your own targets, model and benchmarks (docs/tutorial.md)")
    elif "training" not in stages:
        steps.append(f"  {program} run{given}: the whole graph, which trains and scores a policy")
    if steps:
        yield "what next:"
        yield from steps
    yield f"to see everything in the UI: {program} ui{given}"
