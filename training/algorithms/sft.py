"""Supervised loss: alone, and as the second task beside the policy loss (seed 004, ``compute_sft_pure_loss``)."""

import torch

from training.algorithms.checks import as_mask, require_floating, require_shape, working_precision


def compute_sft_pure_loss(log_prob: torch.Tensor, eos_mask: torch.Tensor) -> torch.Tensor:
    """Return the mean negative log-likelihood of the valid tokens.

    Args:
        log_prob: ``[batch, response_length]``, floating point.
        eos_mask: the same shape, bool or 0/1: valid tokens.

    Returns:
        A scalar; 0 with a zero gradient when no token is valid (the reference gives nan).

    Raises:
        TypeError: ``log_prob`` is not floating point.
        ValueError: the shapes differ.
    """
    log_prob = working_precision(require_floating("log_prob", log_prob))
    mask = as_mask("eos_mask", eos_mask)
    require_shape("eos_mask", mask, log_prob.shape, "log_prob")
    return -torch.where(mask, log_prob, 0.0).sum() / mask.sum().clamp(min=1)


def add_sft_multitask_loss(
    losses: torch.Tensor, log_prob: torch.Tensor, eos_mask: torch.Tensor, prefix_mask: torch.Tensor, coef: float
) -> torch.Tensor:
    """Add ``-coef log_prob`` to the token losses of teacher tokens (recipe ``rl_sft_loss``).

    Token losses, so that the caller normalises both tasks together and globally.

    Args:
        losses: ``[batch, response_length]``, from ``mixed_policy_token_loss``.
        log_prob, eos_mask, prefix_mask: the same shape.

    Raises:
        ValueError: the shapes differ.
    """
    teacher = as_mask("eos_mask", eos_mask) & as_mask("prefix_mask", prefix_mask)
    for name, tensor in (("log_prob", log_prob), ("eos_mask", teacher)):
        require_shape(name, tensor, losses.shape, "losses")
    return losses - coef * torch.where(teacher, working_precision(log_prob), 0.0)
