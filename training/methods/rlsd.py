"""RLSD: a teacher that sees the answer says which tokens a reward is about."""

from training.algorithms.advantage import GroupAdvantage
from training.algorithms.aggregate import Reduce
from training.algorithms.options import contradiction
from training.algorithms.regularize import AnyEntropy, ConstantEntropy
from training.algorithms.teacher import Scale, Teacher, scaled_advantage
from training.later import Tensor, torch
from training.methods.given import RunValues
from training.methods.on_policy import OnPolicy


class Rlsd(OnPolicy):
    """RLSD (arXiv 2604.03128): GRPO, and the policy with the answer in its prompt scales the advantage of each token.

    `scaled_advantage` has the equation; after ``scale.steps`` it is GRPO.
    """

    advantage: GroupAdvantage = GroupAdvantage(use_std=True)
    entropy: AnyEntropy = ConstantEntropy(coef=0.0)
    reduce: Reduce = Reduce(type="token-mean")
    teacher: Teacher = Teacher(model="self", sees="answer")  # pyright: ignore[reportIncompatibleVariableOverride]
    scale: Scale = Scale()

    def check(self, run: RunValues) -> None:
        super().check(run)
        why = "the teacher scales the advantage of the group"
        if self.divergence is not None:
            raise contradiction("method.divergence", "set", "method.type", "rlsd", why)
        for name, unread in {"coef": 1.0, "max_advantage": None, "task_rewards": True}.items():
            if (value := getattr(self.teacher, name)) != unread:
                raise contradiction(f"method.teacher.{name}", value, "method.type", "rlsd", why)

    @property
    def by_group(self) -> bool:
        return True

    def taught(self, advantages: Tensor, log_prob: Tensor, teacher: Tensor, scored: Tensor, step: int) -> Tensor:
        scaled = scaled_advantage(advantages, log_prob, torch.where(scored, teacher, log_prob), self.scale, step)
        return torch.where(scored, scaled, advantages)
