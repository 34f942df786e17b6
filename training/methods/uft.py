"""UFT: all samples of a group continue one hint."""

from training.algorithms.advantage import GroupAdvantage
from training.algorithms.aggregate import Reduce
from training.algorithms.imitation import ImitationLoss
from training.algorithms.options import Baseline
from training.algorithms.prefix import AnyPrefix, Binomial
from training.algorithms.regularize import ReferenceKL
from training.methods.guided import Imitating


class Uft(Imitating):
    """UFT (arXiv 2505.16984): GRPO on the continuations of a hint that gets shorter, and its likelihood.

    A hint is so many fifths of 0.8 of the target, each with a chance that falls over ``prefix.steps``.
    """

    advantage: GroupAdvantage = GroupAdvantage(use_std=True)
    reduce: Reduce = Reduce(type="token-mean")
    prefix: AnyPrefix = Binomial(n=-1, min=0.0, max=0.8, steps=300, share=True)
    imitation: ImitationLoss = ImitationLoss(coef=0.001)  # pyright: ignore[reportIncompatibleVariableOverride]
    reference: ReferenceKL | None = ReferenceKL()
    regularize_on: Baseline = "on_policy"
