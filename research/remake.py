"""Repeat a run that somebody recorded, and report what differs."""

from collections.abc import Sequence
from pathlib import Path

from core.cli import say
from core.errors import InputError
from core.machine.request_paths import writable_folder
from core.plugins.config_files import RECIPES, config_names, recipe_name
from research.comparison_file import Trial
from research.recheck import RESPONSES, TOLERANCE, VERDICTS, compare_runs, score_table, steps_that_agree
from research.recorded_run import RecordedRun, read_run
from research.trials import Trials, differs

DIFFERENT = 1  # exit status


def remake(file: Path, recipe: str | None, profile: str, sets: Sequence[str], out: Path) -> int:
    """Train and score the run in ``file`` again and compare the two.

    Args:
        file: A recorded run.
        recipe: The path of the run's recipe. None: the recipe of that name.
        profile: The profile that prepares the targets, the base model and the problems.
        sets: Settings, each ``SECTION.KEY=VALUE``.
        out: Folder for the storage, the instance and the record of the repeated run.

    Returns:
        The exit status: 0 if every response and verdict is the same, and the curves agree in every step.

    Raises:
        InputError: the run cannot be made again with this recipe or profile.
    """
    out = out.absolute()
    writable_folder(out)
    recorded = read_run(file)
    trial = trial_of(file, recorded, recipe)
    trials = Trials(profile, [*sets, f"training.hardware={recorded.manifest.request.hardware}"], out, out)
    if fault := differs(recorded, trials.prepare()):
        raise InputError(f"{file}: it cannot be made again with the profile {profile}: {fault}; give --profile")
    if status := trials.make(trial):
        return status
    say(f"your recording: {trials.file(trial)}\n")
    return report(recorded, read_run(trials.file(trial)))


def report(recorded: RecordedRun, remade: RecordedRun) -> int:
    """Print what differs, and return the exit status."""
    different = False
    for check in compare_runs(recorded, remade):
        say(check)
        different |= bool(check.differences) and check.kind in (RESPONSES, VERDICTS)
    steps, agree = len(recorded.metrics), steps_that_agree(recorded, remade)
    say(f"the first {agree} of {steps} steps agree within {TOLERANCE:.0%}: docs/results/comparing.md says what follows")
    say(f"\n{score_table(recorded, remade).to_text()}")
    return DIFFERENT if different or agree < steps else 0


def trial_of(file: Path, recorded: RecordedRun, recipe: str | None) -> Trial:
    """Return exactly what leads to the run in ``file`` again; InputError if its recipe is missing here."""
    request = recorded.manifest.request
    if recipe is None and request.recipe not in config_names(RECIPES):
        raise InputError(
            f"{file}: its recipe {request.recipe} is not of this project: give its file, --recipe {request.recipe}.yaml"
        )
    if recipe is not None and recipe_name(recipe) != request.recipe:
        raise InputError(
            f"--recipe {recipe}: {file} is a run of the recipe {request.recipe}; expected {request.recipe}.yaml"
        )
    given = request.recipe if recipe is None else str(Path(recipe).absolute())
    return Trial(request.recipe, given, request.seed, request.overrides)
