"""SRFT's weights of both losses by the policy's entropy, and its advantages by outcome (arXiv 2506.19767)."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from training.algorithms.options import SRFTOptions


def supervised_scale(entropy: float, options: SRFTOptions) -> float:
    """The factor of the supervised loss: ``e^-H``, or ``e^H`` with ``sign: plus``.

    A policy that is unsure of the targets (a high H) imitates them less, so that they do not push it far at once.

    >>> round(supervised_scale(0.5, SRFTOptions(use=True)), 4)
    0.6065
    >>> round(supervised_scale(0.5, SRFTOptions(use=True, sign="plus")), 4)
    1.6487

    Args:
        entropy: ``H``, the mean entropy at the off-policy tokens in nats.
    """
    return math.exp(entropy if options.sign == "plus" else -entropy)


def outcome_advantage(solved: Bool[Tensor, " batch"], entropy: float, options: SRFTOptions) -> Float[Tensor, " batch"]:
    """The advantage of the on-policy tokens of each row: ``solved_weight e^H`` if it is right, else -1.

    With the loss ``-A log p`` (``on_policy_loss: reinforce``) right samples become likelier and wrong ones less likely,
    whatever the other samples of the group are. A policy that is sure (a low H) learns less from being right, which
    keeps it from collapsing.

    >>> outcome_advantage(torch.tensor([True, False]), 0.5, SRFTOptions(use=True))
    tensor([ 0.1649, -1.0000])

    Args:
        solved: whether the row's answer is right.
        entropy: ``H``, the mean entropy at the on-policy tokens in nats.
    """
    return torch.where(solved, options.solved_weight * math.exp(entropy), -1.0)
