"""SRFT: both losses weighed by the policy's entropy."""

from collections.abc import Mapping
from typing import Any, ClassVar

from training.algorithms.aggregate import Reduce
from training.algorithms.imitation import ImitationLoss
from training.algorithms.on_policy import Reinforce
from training.algorithms.options import Positive, contradiction
from training.algorithms.samples import Samples
from training.algorithms.srft import Sign, entropy_advantage, outcome_advantage, supervised_scale
from training.algorithms.term import Imitation, LossInputs, LossOutputs, Policy
from training.later import Tensor, torch
from training.methods.given import RunValues
from training.methods.luffy import Luffy


class EntropyPolicy(Policy):
    """The advantages of right on-policy samples are multiplied by ``e^H``."""

    def advantages(self, x: LossInputs) -> Tensor:
        return entropy_advantage(x.advantages, x.off_policy, x.row_entropy())


class EntropyImitation(Imitation):
    """The likelihood of each row is multiplied by ``e^-H``, or by ``e^H``."""

    sign: Sign = "minus"

    def losses(self, x: LossInputs) -> LossOutputs:
        return LossOutputs(super().losses(x).losses * supervised_scale(x.row_entropy(), self.sign))


class Srft(Luffy):
    """SRFT (arXiv 2506.19767): LUFFY's loss and likelihood of the target; on-policy samples by their outcome."""

    # It weighs the losses, whatever its bonus is.
    needs: ClassVar[Mapping[str, Any]] = {"actor_rollout_ref.actor.calculate_entropy": True}

    on_policy: Reinforce = Reinforce()  # pyright: ignore[reportIncompatibleVariableOverride]
    reduce: Reduce = Reduce(type="seq64-mean-token-sum-norm-occupied")
    imitation: ImitationLoss = ImitationLoss(coef=0.5)  # pyright: ignore[reportIncompatibleVariableOverride]
    sign: Sign = "minus"  # of the entropy in the factor of the supervised loss
    solved_weight: Positive = 0.1  # times exp(H): the advantage of a right sample; that of a wrong one is -1

    def check(self, run: RunValues) -> None:
        super().check(run)
        unread = {"teacher": self.teacher, "length_penalty": self.length_penalty, "beta": self.beta != 1 and self.beta}
        for name, value in unread.items():
            if value:
                why = "an on-policy sample's advantage is its outcome"
                raise contradiction("method.type", "srft", f"method.{name}", value, why)

    def policy(self) -> Policy:
        return EntropyPolicy(**dict(super().policy()))

    def imitates(self, imitation: ImitationLoss) -> Imitation:
        return EntropyImitation(weight=imitation.weight, sign=self.sign)

    def outcomes(self, samples: Samples, scores: Tensor) -> Tensor:
        outcomes = outcome_advantage(samples.solved, self.solved_weight).unsqueeze(-1) * samples.mask
        return torch.where(samples.off_policy_mask, super().outcomes(samples, scores), outcomes)
