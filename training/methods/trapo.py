"""TRAPO: the fewer samples of a group are right, the more of the target the next ones start with."""

from itertools import accumulate
from typing import Annotated, Self

from pydantic import Field, model_validator

from training.algorithms.off_policy import OffPolicyRatio, TrustRegion
from training.algorithms.on_policy import AnyOnPolicyLoss, Ppo
from training.algorithms.options import Share, contradiction
from training.algorithms.samples import Samples
from training.later import Tensor, torch
from training.methods.given import Group, Prompt, RunValues, Start
from training.methods.off_policy import OffPolicy

Counts = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(strict=False)]  # a configuration has lists
Shares = Annotated[tuple[Share, ...], Field(strict=False)]


class Trapo(OffPolicy):
    """TRAPO (arXiv 2512.17636): 4 samples of the policy; then 2 after a quarter of the target where fewer than 2 are
    right, 1 after its half where fewer than 4 are, and the whole target where fewer than 7 are.

    The policy's tokens have ``-(r - mean) p / p0`` over all samples of the group; the target has the likelihood of
    `TrustRegion`, whatever the outcome. The first of the samples with the shortest part has no loss on it. The source
    is Su-my/TRAPO, ``trapo_src``.

    >>> method, prompt = Trapo(), Prompt(key=1, name="p", step=0, seed=0, has_target=True)
    >>> one_right = Group({0: True, 1: False, 2: False, 3: False}, draws=4)
    >>> [start.ratio for start in method.plan(prompt, 8)], method.draw_more(prompt, one_right, 8)[5].ratio
    ([0.0, 0.0, 0.0, 0.0], 0.25)
    """

    on_policy: AnyOnPolicyLoss = Ppo(clip=None)
    off_policy: OffPolicyRatio = OffPolicyRatio(reshape=TrustRegion())
    # Of each stage: its samples, and, after the first, their part of the target, if fewer are right than below.
    stages: Counts = (4, 2, 1, 1)
    ratios: Shares = (0.25, 0.5, 1.0)
    below: Counts = (2, 4, 7)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not len(self.stages) - 1 == len(self.ratios) == len(self.below):
            raise ValueError(f"stages: got {len(self.stages)}, expected one more than of ratios and of below")
        return self

    def check(self, run: RunValues) -> None:
        super().check(run)
        if sum(self.stages) != run.n:
            why = "they are the samples of a group"
            raise contradiction("method.stages", list(self.stages), "rollout.n", run.n, why)

    @property
    def draws_more(self) -> bool:
        return True

    def plan(self, prompt: Prompt, n: int) -> list[Start]:
        return [Start()] * (self.stages[0] if prompt.has_target else n)

    def draw_more(self, prompt: Prompt, group: Group, n: int) -> dict[int, Start]:
        drawn = len(group.solved)
        if drawn == n:
            return {}
        stage = list(accumulate(self.stages)).index(drawn)
        ratio = self.ratios[stage] if sum(group.solved.values()) < self.below[stage] else 0.0
        return {drawn + number: Start(ratio) for number in range(self.stages[stage + 1])}

    def outcomes(self, samples: Samples, scores: Tensor) -> Tensor:
        first = torch.tensor([number == self.stages[0] for number in samples.numbers]).unsqueeze(-1)
        of_target = torch.where(first, 0.0, samples.mask.float())
        return torch.where(samples.off_policy_mask, of_target, super().outcomes(samples, scores))
