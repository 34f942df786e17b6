"""The questions that verl's hooks ask a method: the trainer, the agent loop, the workers and the ledger."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from core.files import read_json, write_json
from training.algorithms.options import Baseline, Options
from training.algorithms.samples import Samples, Signal
from training.algorithms.term import Loss
from training.later import Tensor
from training.methods.given import Group, Metrics, Prompt, RunValues, Start, Tools

STATE = "method.json"  # in the folder of a checkpoint


class Method(Options):
    """What an update learns: its fields are the keys of the section ``method`` of a run.

    It answers with the formulas of training.algorithms; whoever asks knows no method. Private attributes are its state.
    """

    supervised: ClassVar[bool] = False  # learns from targets, without rollouts
    needs: ClassVar[Mapping[str, Any]] = {}  # keys of the run that it sets
    second_optimizer: ClassVar[bool] = False  # makes supervised updates with an optimizer of their own

    def check(self, run: RunValues) -> None:
        """Check the options against the rest of the run.

        Raises:
            InputError: two of them exclude each other.
        """

    @property
    def by_prompt(self) -> bool:
        """Whether samples carry the key of their prompt."""
        return False

    @property
    def reads_target_probs(self) -> bool:
        """Whether targets come with the probabilities of the policy that wrote them."""
        return False

    @property
    def all_targets(self) -> bool:
        """Whether samples may start with other targets of their problem than the row's own."""
        return False

    @property
    def chooses(self) -> bool:
        """Whether `choose` and `skips` are called."""
        return False

    @property
    def rewards(self) -> Collection[str]:
        """The rewards that are compared in a group one by one; without any it is the score."""
        return ()

    @property
    def decide(self) -> Baseline:
        """The samples that decide by their outcomes that a group has no signal."""
        return "all_samples"

    def off_policy_samples(self, n: int) -> int:
        """Return how many of the ``n`` samples of a group start with a target, in a group with any; they come first."""
        return 0

    def keeps(self, *, solved: bool, off_policy: bool) -> bool:
        """Return whether a group with equal scores is used.

        Args:
            solved: one of its samples that decide is right.
            off_policy: some of its samples start with a target.
        """
        return False

    def losses(self) -> Mapping[str, Loss]:
        """Return the losses of its updates, by the name that a `Signal` gives."""
        raise NotImplementedError

    def fields(self) -> list[str]:
        """Return the fields of the samples that `signal` reads besides the fields of every method."""
        return []

    def plan(self, prompt: Prompt, n: int) -> list[Start]:
        """Return how each of the ``n`` samples of ``prompt`` starts; the rest is for `draw_more`."""
        return [Start()] * n

    @property
    def draws_more(self) -> bool:
        """Whether `draw_more` is called."""
        return False

    def draw_more(self, prompt: Prompt, group: Group, n: int) -> dict[int, Start]:
        """Return how more samples of ``prompt`` start, by their numbers; a number that the group has is drawn again.

        It is called until it returns none, in the processes of the agent loop, which have no state of the method. Then
        the group must have ``n`` samples.
        """
        return {}

    def signal(self, samples: Samples, rewards: Tensor, step: int) -> Signal:
        """Return what the update of ``step``, counted from 0, learns from ``samples``.

        Args:
            rewards: ``[batch, length]``: the samples' rewards, less a penalty for drift where there is one.
        """
        raise NotImplementedError

    def begin_epoch(self, prompts: int, batch: int) -> None:
        """Begin an epoch of ``prompts`` prompts, of which a batch has ``batch``."""

    def choose(self, tools: Tools, prompts: int) -> list[int]:
        """Return the keys of prompts that the next batch of ``prompts`` begins with."""
        return []

    def skips(self, prompt: int, prompts: int) -> bool:
        """Return whether the next batch leaves out a ``prompt`` of the dataset, which has ``prompts``."""
        return False

    def note(self, samples: Samples, tools: Tools) -> Metrics:
        """Take in the samples of a step, after `signal`."""
        return {}

    def see(self, prompts: Sequence[int], solved: Sequence[bool], on_policy: Sequence[bool]) -> None:
        """Take in the outcomes of finished samples, also of groups that are dropped, where samples carry a key.

        Args:
            prompts: the key of the prompt of each sample.
            on_policy: whether the policy sampled all of it.
        """

    def after_update(self, tools: Tools) -> Metrics:
        """Do what follows the update of a step."""
        return {}

    def end_step(self, metrics: Mapping[str, Any]) -> None:
        """Take in the metrics of a step, before `after_update`."""

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, as JSON has it."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` returned."""

    def save(self, folder: Path) -> None:
        """Write the state into the folder of a checkpoint."""
        write_json(self.state(), folder / STATE)

    def load(self, folder: Path) -> None:
        """Take over the state that `save` wrote."""
        self.restore(read_json(folder / STATE))
