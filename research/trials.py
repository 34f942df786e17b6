"""The runs of a comparison: train and score what is not recorded yet, one run after the other, and record it.

All runs share a storage and a Dagster instance of their own, so that they change nothing in the graph of ``luffy ui``.
An interrupted comparison continues where it stopped.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from core.cli import say
from core.errors import InputError, TaskFailed
from core.files import atomic_write
from core.machine.interruptible import INTERRUPTED
from pipelines import api
from research.comparison_file import Trial
from research.recorded_run import INDEX, RecordedRun, read_run, record_run, record_tables, write_index

SUITE, BASE = "suite.parquet", "base"  # next to the recorded runs: the problems, and the scores before any training
# The benchmarks of a suite may be of any groups.
PREPARE = '+key:targets/train or +key:"*/base/*"'
SCORE = 'key:training/policy or key:"*/policy/*"'


class Trials:
    """The runs with one profile, in the folder ``work``, which are recorded in the folder ``runs``."""

    def __init__(self, profile: str, sets: Sequence[str], work: Path, runs: Path) -> None:
        self.profile = profile
        self.runs = runs
        self.home = work / "dagster"
        self.sets = [*sets, f"storage.root={json.dumps(str(work / 'storage'))}"]

    def file(self, trial: Trial) -> Path:
        """Return the file that records ``trial``."""
        return self.runs / f"{trial.name}-{trial.seed}.zip"

    def prepare(self) -> api.Inputs:
        """Prepare targets, base model and problems, and score the base model.

        Raises:
            TaskFailed: it failed; the command has printed why.
        """
        status = api.run(self.profile, self.sets, PREPARE, self.home)
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        if status:
            raise TaskFailed(f"the targets and the base model of the profile {self.profile} could not be prepared")
        return api.inputs(api.load(self.profile, self.sets))

    def record_base(self, suite: Path) -> None:
        """Store the problems and the scores of the base model with the runs, unless some are there."""
        if not (self.runs / BASE).is_dir():
            scored = api.scored(api.load(self.profile, self.sets), "base")
            record_tables(self.runs / BASE, scored.tables)
            with atomic_write(self.runs / SUITE) as temporary:
                shutil.copyfile(suite, temporary)

    def make(self, trial: Trial) -> int:
        """Train, score and record ``trial``; return the exit status of the command that does it."""
        training = [f"recipe={json.dumps(trial.recipe)}", f"seed={trial.seed}"]
        training += [f"config.{text}" for text in trial.overrides]
        sets = [*self.sets, *(f"training.{text}" for text in training)]
        if status := api.run(self.profile, sets, SCORE, self.home):
            return status
        scored = api.scored(api.load(self.profile, sets))
        assert scored.policy is not None and scored.metrics is not None
        problems, tables = scored.problems, scored.tables
        record_run(self.file(trial), policy=scored.policy, metrics=scored.metrics, problems=problems, tables=tables)
        if (self.runs.parent / INDEX).exists():
            write_index(self.runs.parent)
        return 0


def make_trials(trials: Trials, wanted: Sequence[Trial]) -> int:
    """Make the ``wanted`` runs that are not recorded; return `INTERRUPTED`, 1 if one failed, or 0.

    Raises:
        InputError: the recorded runs have other targets, base model or problems than those that are prepared.
    """
    missing = [trial for trial in wanted if not trials.file(trial).exists()]
    if missing:
        inputs = trials.prepare()
        for trial in wanted:
            if trial not in missing and (fault := differs(read_run(trials.file(trial)), inputs)):
                raise InputError(f"{trials.file(trial)}: {fault}; record in another folder (--runs)")
        trials.record_base(inputs.suite)
    failed = False
    for number, trial in enumerate(wanted, 1):
        shown = f"run {number} of {len(wanted)}: {trial.name}, seed {trial.seed}"
        if trial in missing:
            say(shown)
            status = trials.make(trial)
            if status == INTERRUPTED:
                return status
            failed |= status != 0
            continue
        run = read_run(trials.file(trial))
        present = [*map(_pair, trial.overrides)]
        others = [text for text in run.manifest.request.overrides if _pair(text) not in present]
        note = f"; its settings differ ({', '.join(others)}): remove the file to make it again" if others else ""
        say(f"{shown}: {run}{note}")
    return int(failed)


def _pair(override: str) -> tuple[str, object]:
    """Return key and value of KEY=VALUE; 1e-4 and 0.0001 are one value."""
    key, _, value = override.partition("=")
    try:
        return key, float(value)
    except ValueError:
        return key, value


def differs(run: RecordedRun, inputs: api.Inputs) -> str:
    """Explain why a recorded run does not start from ``inputs``; "" if it does."""
    present = api.problem_digests(api.read_suite_file(inputs.suite))
    if run.manifest.targets.digest != inputs.targets:
        return "its targets are others"
    if run.manifest.base_model.digest != inputs.base:
        return "its base model is another"
    return "" if run.problems == {name: present.get(name) for name in run.problems} else "its problems are others"
