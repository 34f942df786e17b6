"""SRFT: weights of both losses by the policy's entropy, and advantages by outcome (arXiv 2506.19767).

``H`` is the mean entropy over the tokens of a row under the policy that is being updated, without gradient.
"""

from typing import Literal

from jaxtyping import Bool, Float, Shaped

from training.later import Tensor, torch

Sign = Literal["minus", "plus"]


def row_entropy(
    entropy: Float[Tensor, "batch length"], mask: Shaped[Tensor, "batch length"]
) -> Float[Tensor, "batch 1"]:
    """Return ``H`` of each row in nats, 0 for a row without a valid token.

    >>> row_entropy(torch.tensor([[1.0, 3.0], [4.0, 9.0]]), torch.tensor([[1, 1], [1, 0]]))
    tensor([[2.],
            [4.]])
    """
    mask = mask.bool()
    total = torch.where(mask, entropy.detach(), 0.0).sum(dim=-1, keepdim=True)
    return total / mask.sum(dim=-1, keepdim=True).clamp(min=1)


def supervised_scale(entropy: Float[Tensor, "batch 1"], sign: Sign = "minus") -> Float[Tensor, "batch 1"]:
    """Return the factor of a row's supervised loss: ``e^-H``, or ``e^H`` with ``sign=plus``.

    A policy that is unsure of a target (a high H) imitates it less, so that the target does not push it far at once.

    >>> supervised_scale(torch.tensor([[0.0], [0.5]]))
    tensor([[1.0000],
            [0.6065]])
    """
    return torch.exp(entropy if sign == "plus" else -entropy)


def outcome_advantage(solved: Bool[Tensor, " batch"], solved_weight: float) -> Float[Tensor, " batch"]:
    """Return the advantage of each row's on-policy tokens before `entropy_advantage`: ``solved_weight`` or -1.

    With the loss ``-A log p`` (``reinforce``) right samples become likelier and wrong ones less likely,
    whatever the other samples of the group are.

    >>> outcome_advantage(torch.tensor([True, False]), 0.1)
    tensor([ 0.1000, -1.0000])

    Args:
        solved: whether the row's answer is right.
    """
    return torch.where(solved, solved_weight, -1.0)


def entropy_advantage(
    advantages: Float[Tensor, "batch length"],
    off_policy_mask: Bool[Tensor, "batch length"],
    entropy: Float[Tensor, "batch 1"],
) -> Float[Tensor, "batch length"]:
    """Return ``advantages``, with right on-policy samples times ``e^H``.

    A policy that is sure (a low H) learns less from being right, which keeps it from collapsing.

    >>> advantages, off_policy_mask = torch.tensor([[0.1], [-1.0], [0.5]]), torch.tensor([[False], [False], [True]])
    >>> entropy_advantage(advantages, off_policy_mask, torch.full((3, 1), 0.5))
    tensor([[ 0.1649],
            [-1.0000],
            [ 0.5000]])
    """
    return torch.where(~off_policy_mask & (advantages > 0), advantages * torch.exp(entropy), advantages)
