"""The folder of a training run: its files, and the request that it belongs to.

request.json         the request of the run, as `python -m training --request` takes it
config.yaml          the resolved configuration
attempts/0001.*      .jsonl: step metrics of an attempt, .log: its output, .causes: its exceptions, .json: how it ended
job/                 request, log and events of the job that a cluster runs, by its submissions
attempts/earlier/    the attempts of the trainings before the last one that --force started
metrics.jsonl        step metrics of the whole run, written when it ends
checkpoints/         verl's checkpoints
rollouts/            the samples of every step
ledger/              the uses of targets of every step; ledger.parquet: of the whole run, targets.parquet: by target
first_stage/         the run folder of the first stage, for recipes that have one
policy/              Hugging Face model, tokenizer, lineage.json, model card: complete or absent
"""

from collections.abc import Callable
from pathlib import Path

from core import kinds
from core.backends.attempts import EARLIER
from core.errors import InputError
from core.files import read_yaml, remove_folder, set_aside
from core.ledger_verdicts import LEDGER
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
        self.job = path / "job"
        self.metrics = path / "metrics.jsonl"
        self.checkpoints = path / "checkpoints"
        self.rollouts = path / "rollouts"
        self.policy = path / "policy"

    @property
    def first_stage(self) -> "RunFolder":
        return RunFolder(self.path / FIRST_STAGE)

    def kept(self, again: str) -> str:
        """Say what an interrupted training leaves; ``again`` is what the user does to continue it."""
        for folder in (self, self.first_stage):
            if step := latest_step(folder.checkpoints):
                return f"the checkpoint of step {step} is kept in {folder.path}; {again} to resume"
        return f"there is no checkpoint yet (trainer.save_freq: steps between them); {again} to start anew"

    def is_forced(self, request: TrainingRequest) -> bool:
        """Return whether the folder has a training of ``request`` that ``--force`` started and that has not ended."""
        asked = self._asked()
        return asked is not None and asked.force and asked.computed() == request.computed()

    def has_policy_of(self, request: TrainingRequest, say: Callable[[str], None]) -> bool:
        """Return whether the policy in the folder is the one that ``request`` would train, and its files are intact.

        ``say`` gets a line if other code trained it. A policy that was damaged since is set aside, with a line, too.
        """
        if not (self.policy / MANIFEST).exists():
            return False
        try:
            manifest = read_manifest(self.policy)
        except InputError as error:
            say(f"{error}; set aside as {set_aside(self.policy).name}")
            return False
        finished = manifest.identity == request.identity()
        if finished and (line := kinds.POLICY.reused(self.policy, manifest.code.digest)):
            say(line)
        return finished

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
        """Make this the folder of ``request``; one that forces a training starts anew, unless that is interrupted.

        Raises:
            InputError: unless it does, the folder has a policy or checkpoints of another request.
        """
        if forced := self.is_forced(request):
            request = request.model_copy(update={"force": True})
        if request.force:
            if not forced:
                self._start_anew()
        elif (self.policy / MANIFEST).exists():
            raise InputError(
                f"{self.path}: has a policy of other inputs or settings: give --out another folder, or --force "
                "to train anew there"
            )
        elif latest_step(self.checkpoints):
            asked = self._asked()
            if asked is None or asked.computed() != request.computed():
                name = self.request.name
                why = f"with other inputs or settings, see {name}" if asked else f"with a damaged or missing {name}"
                raise InputError(
                    f"{self.path}: has the checkpoints of a training {why}: give --out another folder, or --force to "
                    "train anew there"
                )
        request.write(self.request)

    def end(self, request: TrainingRequest) -> None:
        """Note that ``request`` has its policy, so that ``--force`` starts another training."""
        request.model_copy(update={"force": False}).write(self.request)

    def _asked(self) -> TrainingRequest | None:
        """Return the request of the last training in the folder; None if its file is missing or damaged."""
        try:
            return TrainingRequest.read(self.request)
        except InputError:  # `claim` names the file, unless a training is forced
            return None

    def _start_anew(self) -> None:
        """Drop what an earlier training left; its policy stays until there is another, and its attempts are history."""
        for folder in (self.checkpoints, self.rollouts, self.path / LEDGER, self.first_stage.policy):
            if folder.is_dir():
                remove_folder(folder)
        earlier = self.attempts / EARLIER
        for file in self.attempts.glob("[0-9]*"):
            earlier.mkdir(exist_ok=True)
            file.rename(earlier / file.name)
        if self.first_stage.path.is_dir():
            self.first_stage._start_anew()
