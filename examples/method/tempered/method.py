"""A method of your own: LUFFY whose target tokens weigh a power of their probability."""

import torch

from training.algorithms.term import LossInputs, LossOutputs, Policy
from training.methods.luffy import Luffy


class TemperedPolicy(Policy):
    """``-A p^power`` at tokens of a target, and ``-A p / p_old`` at tokens that the policy sampled."""

    power: float

    def losses(self, x: LossInputs) -> LossOutputs:
        weight = torch.exp(torch.where(x.off_policy, self.power * x.log_prob, x.log_prob - x.old_log_prob))
        target = x.valid & x.off_policy
        shown = {"target_weight": (torch.where(target, weight.detach(), 0.0).sum(), target.sum())}
        return LossOutputs(torch.where(x.valid, -x.advantages * weight, 0.0), shown)

    def off_policy_weights(self, x: LossInputs) -> torch.Tensor:
        return torch.exp(self.power * x.log_prob)


class Tempered(Luffy):
    """What `power` is, a recipe says in its section ``method``."""

    power: float = 0.5

    def policy(self) -> Policy:
        return TemperedPolicy(on=self.on_policy, off=self.off_policy, power=self.power)
