"""On-policy distillation: a teacher scores what the policy samples."""

from training.algorithms.aggregate import Reduce
from training.algorithms.on_policy import AnyOnPolicyLoss, Ppo
from training.algorithms.regularize import AnyEntropy, ConstantEntropy
from training.algorithms.teacher import Teacher
from training.methods.on_policy import OnPolicy


class Opd(OnPolicy):
    """OPD (arXiv 2306.13649): log q - log p is the advantage of a token, without a reward, clip and entropy bonus."""

    on_policy: AnyOnPolicyLoss = Ppo(clip=None)
    entropy: AnyEntropy = ConstantEntropy(coef=0.0)
    reduce: Reduce = Reduce(type="token-mean")
    teacher: Teacher = Teacher(task_rewards=False)  # pyright: ignore[reportIncompatibleVariableOverride]
