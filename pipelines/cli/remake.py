"""``luffy remake`` repeats a run that somebody recorded, and reports what differs.

The run has a storage and a Dagster instance of its own, so that it changes nothing in the graph of ``luffy ui``.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from assets.shared.experiment_options import training_of
from core import PROJECT
from core.errors import InputError
from core.machine.request_paths import writable_folder
from core.model.lineage_file import RequestRecord
from core.plugins.config_files import RECIPES, config_names, recipe_name
from core.progress import Terminal
from evaluation.recheck import RESPONSES, TOLERANCE, VERDICTS, compare_runs, score_table, steps_that_agree
from evaluation.recorded_run import RecordedRun, read_run
from pipelines.cli.experiments import run_partition
from pipelines.cli.run import configure, execute, load_definitions, resource
from pipelines.cli.terminal import LINE_SECONDS
from pipelines.definitions.instance import prepare_home
from pipelines.definitions.jobs import OBSERVE, PREPARE
from pipelines.definitions.orphans import end_dead_runs
from pipelines.definitions.profile_settings import Settings, load_settings

DIFFERENT = 1  # exit status


def remake(file: Path, recipe: str | None, profile: str, overrides: Sequence[str], out: Path) -> int:
    """Train and score the run in ``file`` again and compare the two.

    Args:
        file: A recorded run.
        recipe: The path of the run's recipe. None: the recipe of that name.
        profile: The profile that prepares the targets, the base model and the problems.
        overrides: Each is ``SECTION.KEY=VALUE``.
        out: Folder for the storage, the instance and the record of the repeated run.

    Returns:
        The exit status: 0 if every response and verdict is the same, and the curves agree in every step.

    Raises:
        InputError: the run cannot be made again with this recipe, profile or project.
    """
    file, out = file.absolute(), out.absolute()
    writable_folder(out)
    recorded = read_run(file)
    configure(profile, overrides, request_settings(file, recorded.manifest.request, recipe, out), str(file))
    os.chdir(PROJECT)
    settings = load_settings()
    os.environ["DAGSTER_HOME"] = str(out / "dagster")
    prepare_home()
    terminal = Terminal(every_s=LINE_SECONDS)
    remade = _make(file, recorded, profile, settings, terminal)
    if isinstance(remade, int):
        return remade
    terminal.line(f"your recording: {remade}\n")
    return _report(recorded, read_run(remade), terminal)


def _report(recorded: RecordedRun, remade: RecordedRun, terminal: Terminal) -> int:
    """Print what differs, and return the exit status."""
    different = False
    for check in compare_runs(recorded, remade):
        terminal.line(str(check))
        different |= bool(check.differences) and check.kind in (RESPONSES, VERDICTS)
    steps, agree = len(recorded.metrics), steps_that_agree(recorded, remade)
    terminal.line(f"the first {agree} of {steps} steps agree within {TOLERANCE:.0%}: docs/plugins.md says what follows")
    terminal.line(f"\n{score_table(recorded, remade).to_text()}")
    return DIFFERENT if different or agree < steps else 0


def _make(file: Path, recorded: RecordedRun, profile: str, settings: Settings, terminal: Terminal) -> Path | int:
    """Repeat the run; return the file that records it, or the exit status of what failed."""
    from assets.experiments.runs import Inputs, partition, recorded_file

    defs = load_definitions()
    resource(defs, "interpreter").examined()
    request = recorded.manifest.request
    key = partition(request.recipe, request.seed)
    with dg.DagsterInstance.get() as instance:
        end_dead_runs(instance)
        for job in (OBSERVE, PREPARE):
            if status := execute(instance, job, terminal):
                return status
        inputs = Inputs.present(resource(defs, "storage"))
        if fault := inputs.fault(recorded, file, training_of(settings.experiments, settings.training, key)):
            raise InputError(
                f"{file}: it cannot be made again: {fault}; give the profile and the recipe that it was made with "
                f"(--profile {profile}, --recipe)"
            )
        if status := run_partition(instance, terminal, key):
            return status
    remade = recorded_file(settings.experiments, key)
    assert remade is not None
    return remade


def request_settings(file: Path, request: RequestRecord, recipe: str | None, out: Path) -> list[str]:
    """Return exactly the settings that lead to the ``request`` of the run in ``file`` again."""
    name, own = request.recipe, {}
    if recipe is not None:
        if recipe_name(recipe) != name:
            raise InputError(f"--recipe {recipe}: {file} is a run of the recipe {name}; expected {name}.yaml")
        own = {name: {"recipe": str(Path(recipe).absolute())}}
    elif name not in config_names(RECIPES):
        raise InputError(f"{file}: its recipe {name} is not of this project: give its file, --recipe {name}.yaml")
    settings: dict[str, Any] = {
        "storage.root": str(out / "storage"),
        "training.hardware": request.hardware,
        "training.seed": request.seed,
        "training.overrides": list(request.overrides),
        "experiments.matrix": [],
        "experiments.variants": own,
        "experiments.recipes": [],
        "experiments.overrides": {},
        "experiments.seeds": 1,
        "experiments.baseline": name,
        "experiments.runs": str(out),
    }
    return [f"{key}={json.dumps(value)}" for key, value in settings.items()]
