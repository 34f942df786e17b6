"""The questions that the trainer, its workers and the ledger ask a method."""

from collections.abc import Mapping

from torch import Tensor

from training.algorithms.samples import Samples, Signal
from training.algorithms.term import Loss


class Method:
    """Answers with the formulas of training.algorithms; whoever asks knows no method."""

    def losses(self) -> Mapping[str, Loss]:
        """Return the losses of its updates, by the name that a `Signal` gives."""
        raise NotImplementedError

    def fields(self) -> list[str]:
        """Return the fields of the samples that `signal` reads besides those of every method."""
        return []

    def signal(self, samples: Samples, rewards: Tensor, step: int) -> Signal:
        """Return what the update of ``step``, counted from 0, learns from ``samples``.

        Args:
            rewards: ``[batch, length]``: those of the samples, less a penalty for drift where there is one.
        """
        raise NotImplementedError
