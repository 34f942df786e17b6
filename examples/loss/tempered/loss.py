"""A loss of your own: targets weigh by a power of their probability."""

import torch


def tempered_loss(old_log_prob, log_prob, advantages, response_mask, off_policy_mask, options):
    """``-A p^power`` at tokens of a target, and ``-A p / p_old`` at tokens that the policy sampled.

    The tensors have the shape (batch, length). What a recipe sets below ``mixed.kwargs`` is in ``options.kwargs``.
    Returns the losses, and pairs (sum, count) of what the curves ``actor/NAME`` show.
    """
    power = options.kwargs.get("power", 0.5)
    weight = torch.exp(torch.where(off_policy_mask, power * log_prob, log_prob - old_log_prob))
    losses = torch.where(response_mask, -advantages * weight, 0.0)
    target = response_mask & off_policy_mask
    return losses, {"target_weight": (torch.where(target, weight.detach(), 0.0).sum(), target.sum())}
