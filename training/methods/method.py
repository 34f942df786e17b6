"""The questions that verl's hooks ask a method: the trainer, the agent loop, the workers and the ledger."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from core.files import read_json, write_json
from training.algorithms.options import Baseline, Options
from training.algorithms.samples import Samples, Signal
from training.algorithms.term import Loss
from training.later import Tensor

Metrics = dict[str, float]
STATE = "method.json"  # in the folder of a checkpoint


class RunValues(NamedTuple):
    """What a method is checked against.

    Args:
        n: samples of a prompt.
        rollouts: sync, colocate_async or separate_async.
        temperature: of the samples.
        target_ratio: share of the prompts whose target is used.
    """

    n: int
    rollouts: str = "sync"
    temperature: float = 1.0
    target_ratio: float = 1.0


class Prompt(NamedTuple):
    """A prompt that is about to be drawn.

    Args:
        key: equal for targets of one problem.
        name: what names the row in every epoch and after a resume.
        step: the step that it is drawn for, from 0.
        has_target: whether samples may use its target.
        pass_rate: share of the base model's samples that solve it; None where the targets have no such column.
    """

    key: int
    name: str
    step: int
    seed: int
    has_target: bool
    pass_rate: float | None = None


class Start(NamedTuple):
    """The beginning of a sample.

    Args:
        ratio: share of the target that it starts with.
        shown: the share is part of the prompt, and not of the response.
        tokens, log_probs: an earlier response that the sample repeats, with the probabilities when it was sampled.
    """

    ratio: float = 0.0
    shown: bool = False
    tokens: Sequence[int] = ()
    log_probs: Sequence[float] = ()


class Tools(Protocol):
    """What a method can ask of the trainer. ``global_steps`` is the step, from 1; ``n`` are the samples of a prompt."""

    seed: int
    global_steps: int
    n: int

    def has_target(self, prompt: int) -> bool:
        """Return whether a prompt, by its key, has a target."""
        ...

    def entropies(self, answers: Sequence[tuple[int, Sequence[int]]]) -> list[float]:
        """Return the mean entropy of each answer, the tokens of a response to a prompt, under the present policy."""
        ...

    def supervised_update(self, prompts: Sequence[int], loss: str, coefficients: Mapping[str, float]) -> Metrics:
        """Make an update with its own optimizer on the targets of ``prompts``, with a loss of the method's."""
        ...


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
    def chooses(self) -> bool:
        """Whether `choose` and `skips` are asked."""
        return False

    @property
    def decide(self) -> Baseline:
        """The samples whose outcomes decide that a group has no signal."""
        return "all_samples"

    def off_policy_samples(self, n: int) -> int:
        """Return how many of the ``n`` samples of a group start with a target, in a group with any; they come first."""
        return 0

    def keeps(self, *, solved: bool, off_policy: bool) -> bool:
        """Return whether a group of one outcome teaches nevertheless.

        Args:
            solved: one of its samples that decide is right.
            off_policy: some of its samples start with a target.
        """
        return False

    def losses(self) -> Mapping[str, Loss]:
        """Return the losses of its updates, by the name that a `Signal` gives."""
        raise NotImplementedError

    def fields(self) -> list[str]:
        """Return the fields of the samples that `signal` reads besides those of every method."""
        return []

    def plan(self, prompt: Prompt, n: int) -> list[Start]:
        """Return how each of the ``n`` samples of ``prompt`` starts."""
        return [Start()] * n

    def signal(self, samples: Samples, rewards: Tensor, step: int) -> Signal:
        """Return what the update of ``step``, counted from 0, learns from ``samples``.

        Args:
            rewards: ``[batch, length]``: those of the samples, less a penalty for drift where there is one.
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
