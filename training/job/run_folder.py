"""The folder of a training run: its files, and the request that it belongs to.

request.json         what the run was asked for, as `python -m training --request` takes it
config.yaml          the resolved configuration
plan.json            what the run needs and is predicted to take
attempts/0001.*      .jsonl: step metrics of an attempt, .log: its output, .json: how it ended
metrics.jsonl        step metrics of the whole run, written when it ends
checkpoints/         verl's checkpoints
rollouts/            the samples of every step
ledger/              the uses of targets of every step; ledger.parquet: of the whole run, targets.parquet: by target
first_stage/         the run folder of the first stage, for recipes that have one
policy/              Hugging Face model, tokenizer, lineage.json, model card: complete or absent
"""

from collections.abc import Callable
from pathlib import Path

from core.errors import InputError
from core.files import read_yaml, remove_folder, set_aside
from core.model.lineage_file import MANIFEST, read_manifest
from training.job.checkpoints import latest_step
from training.job.request import FIRST_STAGE, TrainingRequest


class RunFolder:
    """The files of the run in folder ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.request = path / "request.json"
        self.config = path / "config.yaml"
        self.attempts = path / "attempts"
        self.metrics = path / "metrics.jsonl"
        self.checkpoints = path / "checkpoints"
        self.rollouts = path / "rollouts"
        self.policy = path / "policy"

    @property
    def first_stage(self) -> "RunFolder":
        return RunFolder(self.path / FIRST_STAGE)

    def has_policy_of(self, request: TrainingRequest, say: Callable[[str], None]) -> bool:
        """Return whether the policy in the folder is the one that ``request`` would train, and its files are intact.

        A policy that was damaged since is set aside, and ``say`` gets a line.
        """
        if not (self.policy / MANIFEST).exists():
            return False
        try:
            return read_manifest(self.policy).identity == request.identity()
        except InputError as error:
            say(f"{error}; set aside as {set_aside(self.policy).name}")
            return False

    def answers(self, request: TrainingRequest) -> bool:
        """Return whether ``request`` is complete, so that no training interpreter has to start.

        With ``run.*`` keys in the request or an upload in the configuration, only the training itself can tell.
        """
        if request.record() != request.computed() or not (self.policy / MANIFEST).exists():
            return False
        try:
            finished = read_manifest(self.policy).identity == request.identity()
            return finished and read_yaml(self.config, "configuration")["run"]["push_to_hub"] is None
        except InputError:  # the training sets a damaged policy aside
            return False

    def claim(self, request: TrainingRequest) -> None:
        """Make this the folder of ``request``, dropping older checkpoints if it forces a training.

        Raises:
            InputError: unless it does, the folder has a policy or checkpoints of another request.
        """
        if request.force:
            if self.checkpoints.is_dir():
                remove_folder(self.checkpoints)
        elif (self.policy / MANIFEST).exists():
            raise InputError(
                f"{self.path}: has a policy of other inputs, settings or code: give --out another folder, or --force "
                "to train anew there"
            )
        elif latest_step(self.checkpoints) and TrainingRequest.read(self.request).computed() != request.computed():
            raise InputError(
                f"{self.path}: has the checkpoints of a training with other inputs or settings, see "
                f"{self.request.name} in it: give --out another folder, or --force to train anew there"
            )
        request.write(self.request)
