"""The questions that verl's hooks ask a method: the trainer, the agent loop, the workers and the ledger."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from torch import Tensor

from training.algorithms.off_policy_schedule import ALWAYS, OffPolicySchedule
from training.algorithms.options import MixedPolicyOptions, Options
from training.algorithms.samples import Samples, Signal
from training.algorithms.term import Loss

Metrics = dict[str, float]


class RunValues(Options):
    """What a method reads of the rest of a run.

    Args:
        mixed: the section ``mixed``.
        limit: of the tokens of a response.
        n: samples of a prompt.
        entropy_coeff: coefficient of the entropy bonus in the first step.
        kl_loss: coefficient and estimator of the divergence from the reference policy; None without a reference.
    """

    mixed: MixedPolicyOptions
    limit: int
    n: int = 1
    entropy_coeff: float = 0.0
    kl_loss: tuple[float, str] | None = None


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

    def supervised_update(self, prompts: Sequence[int], loss: str) -> Metrics:
        """Make an update with its own optimizer on the targets of ``prompts``, with a loss of the method's."""
        ...


class Method(Options):
    """Its fields are the keys of the section ``method`` of a run, its private attributes are its state.

    Answers with the formulas of training.algorithms; whoever asks knows no method. Its attributes are its state."""

    run: RunValues

    @property
    def schedule(self) -> OffPolicySchedule:
        """Which prompts have samples that start with a target."""
        return OffPolicySchedule(ALWAYS)

    @property
    def by_prompt(self) -> bool:
        """Whether samples carry the key of their prompt."""
        return False

    @property
    def chooses(self) -> bool:
        """Whether `choose` and `skips` are asked."""
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

    def after_update(self, tools: Tools) -> Metrics:
        """Do what follows the update of a step."""
        return {}

    def save(self, folder: Path) -> None:
        """Write the state into the folder of a checkpoint."""

    def load(self, folder: Path) -> None:
        """Take over the state that `save` wrote."""
