"""What a method is given: the run that it is checked against, a prompt, and the trainer as its tools."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from training.algorithms.replay import Trajectory

Metrics = dict[str, float]


class RunValues(NamedTuple):
    """What a method is checked against.

    Args:
        n: samples of a prompt.
        rollouts: sync, colocate_async or separate_async.
        temperature: of the samples.
        target_ratio: share of the prompts that use their target.
        hides_logits: the key because of which no logits reach a loss; "" without any.
    """

    n: int
    rollouts: str = "sync"
    temperature: float = 1.0
    target_ratio: float = 1.0
    hides_logits: str = ""


class Prompt(NamedTuple):
    """A prompt that is about to be drawn.

    Args:
        key: equal for targets of one problem.
        name: what names the row in every epoch and after a resume.
        step: the step that it is drawn for, from 0.
        has_target: whether samples may use its target.
        pass_rate: share of the base model's samples that solve it; None where the targets have no such column.
        targets: that its problem has, where the method asks for all of them, the row's own first; 1 otherwise.
    """

    key: int
    name: str
    step: int
    seed: int
    has_target: bool
    pass_rate: float | None = None
    targets: int = 1


class Group(NamedTuple):
    """The samples of a prompt that are graded.

    Args:
        solved: whether each is right, by its number.
        draws: how many were drawn, also those that others replaced.
    """

    solved: Mapping[int, bool]
    draws: int


class Start(NamedTuple):
    """The beginning of a sample.

    Args:
        ratio: share of the target that it starts with.
        shown: the share is part of the prompt, and not of the response.
        of_answer: the share is of what follows the thoughts of the target, in characters.
        tokens, log_probs, mask: an earlier response that the sample repeats (`training.algorithms.replay.Trajectory`).
        target: which of the `Prompt.targets`.
    """

    ratio: float = 0.0
    shown: bool = False
    of_answer: bool = False
    tokens: Sequence[int] = ()
    log_probs: Sequence[float] = ()
    mask: Sequence[int] = ()
    target: int = 0


class Tools(Protocol):
    """What a method can ask of the trainer. ``global_steps`` is the step, from 1; ``n`` are the samples of a prompt."""

    seed: int
    global_steps: int
    n: int

    def prompts(self) -> list[int]:
        """Return the keys of all prompts."""
        ...

    def has_target(self, prompt: int) -> bool:
        """Return whether a prompt, by its key, has a target."""
        ...

    def entropies(self, answers: Sequence[tuple[int, Trajectory]]) -> list[float]:
        """Return the mean entropy of each answer, a response to a prompt, under the present policy."""
        ...

    def supervised_update(
        self, prompts: Sequence[int], loss: str, coefficients: Mapping[str, float], clip_grad: float
    ) -> Metrics:
        """Make an update with its own optimizer on the targets of ``prompts``, with a loss of the method's.

        Args:
            clip_grad: the largest gradient norm; a larger gradient is scaled to it.
        """
        ...
