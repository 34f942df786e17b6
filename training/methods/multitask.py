"""RL on the policy's own samples, and the likelihood of a target besides."""

from training.algorithms.advantage import GroupAdvantage
from training.algorithms.groups import Filter
from training.algorithms.imitation import ImitationLoss
from training.algorithms.on_policy import AnyOnPolicyLoss, Ppo
from training.algorithms.options import Baseline
from training.methods.guided import Imitating


class PolicyFilter(Filter):
    """A filter by the outcomes of the policy's own samples."""

    by: Baseline = "on_policy"


class Multitask(Imitating):
    """GRPO without a clip, and the likelihood of one whole target per group, which is no part of the group's mean."""

    on_policy: AnyOnPolicyLoss = Ppo(clip=None)
    advantage: GroupAdvantage = GroupAdvantage(baseline="on_policy")
    filter: PolicyFilter | None = None  # pyright: ignore[reportIncompatibleVariableOverride]
    imitation: ImitationLoss = ImitationLoss(coef=1.0)  # pyright: ignore[reportIncompatibleVariableOverride]
