"""ReLIFT's buffer of prompts that the policy does not solve (arXiv 2506.07527). No torch."""

from collections.abc import Sequence

from training.algorithms.group_rejection import outcomes_by_group


class UnsolvedPrompts:
    """Collects the prompts without a right on-policy sample, and hands them out as whole batches, newest first.

    >>> buffer = UnsolvedPrompts(size=2)
    >>> buffer.add([False, False, False, True, False], [7, 7, 8, 8, 9], [True] * 5)  # 8 was solved
    >>> buffer.prompts
    [7, 9]
    >>> buffer.add([False], [5], [True])
    >>> buffer.take(), buffer.prompts, buffer.take()
    ([5, 7], [9], [])

    A prompt that is drawn again before its turn is in it twice, as in the published implementation. ``prompts`` is the
    state of a run.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.prompts: list[int] = []

    def add(self, solved: Sequence[bool], prompts: Sequence[int], on_policy: Sequence[bool]) -> None:
        """Add the prompts of which no on-policy sample is right.

        Args:
            solved: for each sample, whether its answer is right.
            prompts: of each sample.
            on_policy: whether the policy sampled all of it.
        """
        _, sampled = outcomes_by_group(solved, prompts, on_policy)
        self.prompts[:0] = [prompt for prompt, outcomes in sampled.items() if outcomes and not any(outcomes)]

    def take(self) -> list[int]:
        """Remove a batch of ``size`` prompts; [] while there are fewer."""
        if len(self.prompts) < self.size:
            return []
        batch, self.prompts = self.prompts[: self.size], self.prompts[self.size :]
        return batch
