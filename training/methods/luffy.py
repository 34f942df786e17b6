"""LUFFY: whole targets among the samples of a group."""

from training.algorithms.off_policy import OffPolicyRatio, PDivP
from training.algorithms.on_policy import AnyOnPolicyLoss, Ppo
from training.methods.guided import Imitating
from training.methods.off_policy import OffPolicy


class Luffy(Imitating, OffPolicy):
    """LUFFY (arXiv 2504.14945): a whole target in each group, its ratio shaped to p / (p + gamma)."""

    on_policy: AnyOnPolicyLoss = Ppo(clip=None)
    off_policy: OffPolicyRatio = OffPolicyRatio(reshape=PDivP())

    @property
    def reads_target_probs(self) -> bool:
        return self.off_policy.phi == "recorded"
