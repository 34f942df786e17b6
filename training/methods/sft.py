"""Supervised fine-tuning on the targets, without rollouts."""

from training.algorithms.imitation import Weight
from training.algorithms.term import Imitation, Loss
from training.methods.method import Method


class Sft(Method):
    """The likelihood of the targets; with the weight ``p`` of a token, DFT (arXiv 2508.05629)."""

    supervised = True

    weight: Weight = "one"  # of a token, by its probability

    def losses(self) -> dict[str, Loss]:
        return {"policy": Loss((Imitation(weight=self.weight),), "token-mean")}
