"""``luffy run`` and ``luffy demo``: materialize the graph through Dagster and show it on the terminal.

The run is recorded in the instance that ``luffy ui`` shows.
"""

import gc
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.generated import KEY as GENERATED
from assets.shared.references import Reference
from assets.shared.storage import Storage
from core import PROJECT
from core.errors import InputError
from core.machine.interruptible import INTERRUPTED
from core.plugins.config_files import PROFILES
from core.progress import Terminal
from pipelines.cli.selection import selection_keys
from pipelines.cli.terminal import LINE_SECONDS, RunMonitor, RunView
from pipelines.definitions.database import reuse_engines, wait_for_database
from pipelines.definitions.executor import preload
from pipelines.definitions.instance import CANCEL, COMMAND, prepare_home
from pipelines.definitions.jobs import EVERYTHING, OBSERVE, ROUNDS
from pipelines.definitions.orphans import end_dead_runs
from pipelines.definitions.profile_settings import load_settings, profile_file, read_profile
from pipelines.training_check import check_training
from pipelines.user_paths import from_user_folder, profile_from_user_folder
from pipelines.variables import PREFIX, PROFILE, SET, environment, set_variable

POLICY_NAME = "policy"  # last part of the key of a training
NEEDS_TRAINING_PYTHON = {"training", "evals", "ood"}  # groups


def run_graph(
    profile: str | None, overrides: Sequence[str], select: str | None, max_concurrent: int, job: str = EVERYTHING
) -> int:
    """Materialize the assets of ``job``, or those of them that ``select`` names, and show it; the exit status."""
    configure(profile, overrides)
    prepare_home()  # in the user's folder, where a relative DAGSTER_HOME starts
    os.chdir(PROJECT)
    defs = load_definitions()
    if job == ROUNDS and load_settings().rounds is None:
        raise InputError(f"profile {profile_file()}: no section rounds; add one, or take --profile rounds")
    keys, others = selection_keys(defs, "*" if select is None else select, job)
    left_out = f"not in the job {job}: {', '.join(key.to_user_string() for key in others)}"
    hint = "materialize them in the UI, or by their own command (luffy rounds)"
    if not keys:
        reason = f"{left_out}; {hint}" if others else "the selection contains no asset to materialize; `*` selects all"
        raise InputError(f"--select {select!r}: {reason}")
    if job == ROUNDS or any(key.path[0] in NEEDS_TRAINING_PYTHON or key == GENERATED for key in keys):
        python = resource(defs, "interpreter").examined()
        if any(key.path[-1] == POLICY_NAME for key in keys):
            check_training(load_settings(), python)
    terminal = Terminal(every_s=LINE_SECONDS)
    if select and others:
        terminal.line(f"{left_out}; {hint}")
    with dg.DagsterInstance.get() as instance:
        for run_id in end_dead_runs(instance):
            terminal.line(f"marked run {run_id[:8]} as ended, because its process is gone")
        if any(key.path[0] == "targets" for key in keys):
            status = execute(instance, OBSERVE, terminal, meanwhile=preload)
            if status:
                return status
        status = execute(instance, job, terminal, keys=keys if select else None, at_once=max_concurrent)
    if status == 0:
        show_result(defs, terminal, keys)
        for line in _next_steps(keys):
            terminal.line(line)
    return status


def load_definitions() -> dg.Definitions:
    """Load the definitions of this process's environment; InputError for a mistake in its settings."""
    from pipelines.definitions.code_location import defs

    reuse_engines()
    gc.freeze()  # they stay as long as the process: searching them for garbage, even when it ends, takes long
    return defs


def configure(profile: str | None, overrides: Sequence[str], more: Sequence[str] = (), where: str = "") -> None:
    """Put the command line's settings into the environment, where this process and the run's steps find them.

    Relative paths in them and in variables start at the user's current folder. So do those in the user's own profile,
    unless they lead somewhere beside the profile.

    Args:
        profile: Name or file of a profile.
        overrides: Those of ``--set``, each ``SECTION.KEY=VALUE``; ``KEY`` may go on with the keys of mappings.
        more: Further ones, which win.
        where: What messages name if one of these is wrong.
    """
    if profile == "":
        raise InputError("--profile '': expected the name of a profile, or the path of a YAML file")
    if profile:
        set_variable(PROFILE, profile_from_user_folder(profile), "--profile")
    elif given := os.environ.get(PROFILE):
        os.environ[PROFILE] = profile_from_user_folder(given)
    variables = environment()
    for name in [name for name in os.environ if name.upper() in variables]:
        del os.environ[name]
    for variable, value in variables.items():
        setting = variable.removeprefix(PREFIX).lower().replace("__", ".")
        os.environ[variable] = from_user_folder(setting, value, f"variable {variable}")
    if not (file := profile_file()).is_relative_to(PROJECT / PROFILES):  # the user's or a package's
        _locate_paths_of(file)
    for override, given_by in [*((text, "") for text in overrides), *((text, where) for text in more)]:
        name, equals, value = override.partition("=")
        if not equals or "." not in name:
            raise InputError(f"--set {override!r}: expected SECTION.KEY=VALUE, e.g. training.seed=1")
        origin = given_by or f"{SET}{name}"
        variable = f"{PREFIX}{name.replace('.', '__')}".upper()
        set_variable(variable, from_user_folder(name, value, origin), origin)


def _locate_paths_of(profile: Path) -> None:
    """Override the relative paths of a profile by absolute ones, unless a variable overrides them already."""
    for section, settings in read_profile(profile).items():
        for key, value in settings.items() if isinstance(settings, dict) else ():
            written = json.dumps(value, default=str)
            located = from_user_folder(f"{section}.{key}", written, f"profile {profile}")
            variable = f"{PREFIX}{section}__{key}".upper()
            if located != written and variable not in os.environ:
                set_variable(variable, located, f"profile {profile}")


def resource(defs: dg.Definitions, name: str) -> Any:
    """Return a resource of the definitions."""
    assert defs.resources is not None
    return defs.resources[name]


def execute(
    instance: dg.DagsterInstance,
    job: str,
    terminal: Terminal,
    *,
    keys: Sequence[dg.AssetKey] | None = None,
    at_once: int | None = None,
    more_tags: Mapping[str, str] | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> int:
    """Run ``job`` in a process of its own and show it; Ctrl-C cancels the run.

    Args:
        instance: The instance that records the run.
        job: Name of the job.
        terminal: Where the run is shown.
        keys: Materialize only these assets.
        at_once: Number of steps that run at the same time.
        more_tags: Further tags of the run.
        meanwhile: Called once while this process waits.

    Returns:
        The exit status of the command.
    """
    wait_for_database()  # it has answered before
    tags = {COMMAND: f"{job}-{os.urandom(4).hex()}", **(more_tags or {})}
    # A shell starts background jobs with Ctrl-C ignored, and Dagster's steps then ignore TERM: nothing could stop us.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from pipelines.cli.execute import start_run  # here, since mistakes in settings show on import

    process = start_run(job, log_file(instance), tags=tags, keys=keys, at_once=at_once)  # a fork, so before any thread
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
        for line in _kept(str(monitor.run_id), monitor.view):
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


def _kept(run_id: str, view: RunView) -> Iterator[str]:
    """Describe what a cancelled run leaves for the next one to continue from."""
    from core.files import read_json
    from training.job.checkpoints import latest_step

    if done := view.names(done=True):
        yield f"kept: the outputs of {', '.join(done)}"
    if any(name.startswith(("evals/", "ood/")) for name in view.names(done=False)):
        yield "kept: the samples that were generated, except for those of the last seconds"
    storage = Storage(root=load_settings().storage.root)
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


def show_result(defs: dg.Definitions, terminal: Terminal, keys: Sequence[dg.AssetKey]) -> None:
    """Print the scorecard, and say where to find more."""
    from assets.report import SCORECARD
    from evaluation.report.scorecard.publish import PAGE, TEXT

    storage = resource(defs, "storage")
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


def _next_steps(keys: Sequence[dg.AssetKey]) -> Iterator[str]:
    """Suggest what to do after the run."""
    program = "luffy" if shutil.which("luffy") else ".venv/bin/luffy"
    stages = {key.path[0] for key in keys}
    yield "what next:"
    if "registry" in stages:
        yield f"  {program} champion: the policy in use, and the decisions"
    if profile_file().stem == "embedded":
        yield f"  {program} run: the same on your own targets, model and benchmarks, which docs/tutorial.md explains"
    elif "training" not in stages:
        yield f"  {program} run: the whole graph, which trains and scores a policy"
    yield f"to see everything in the UI: {program} ui"
