"""CHORD: from imitation to RL along a schedule."""

from typing import Self

from pydantic import model_validator

from training.algorithms.advantage import GroupAdvantage
from training.algorithms.aggregate import Reduce
from training.algorithms.imitation import ImitationLoss
from training.algorithms.on_policy import AnyOnPolicyLoss, Ppo
from training.methods.multitask import Multitask


class Chord(Multitask):
    """CHORD (arXiv 2508.11408): mu times the likelihood of a target, and 1 - mu times the policy loss.

    The schedule of mu counts steps from 1, as in the published implementation.

    >>> chord = Chord()
    >>> [round(chord.coefficients(step)["pg_loss"], 5) for step in (0, 99, 199)]
    [0.10005, 0.525, 0.95]
    """

    on_policy: AnyOnPolicyLoss = Ppo()
    advantage: GroupAdvantage = GroupAdvantage(baseline="on_policy", use_std=True)
    reduce: Reduce = Reduce(type="token-mean")
    imitation: ImitationLoss = ImitationLoss(coef=0.9, decay_steps=200, valley=0.05)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, mu in {"coef": self.imitation.coef, "valley": self.imitation.valley}.items():
            if mu > 1:
                raise ValueError(
                    f"imitation.{name}: got {mu}, expected at most 1: the policy loss has the weight 1 - mu"
                )
        return self

    def coefficients(self, step: int) -> dict[str, float]:
        coefficients = super().coefficients(step + 1)
        return coefficients | {"pg_loss": 1.0 - coefficients["sft_loss"]}
