"""Supervised loss: alone, and as a second task beside the policy loss (seed 004, ``compute_sft_pure_loss``)."""

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
    return sft_token_loss(log_prob, eos_mask).sum() / as_mask("eos_mask", eos_mask).sum().clamp(min=1)


def sft_token_loss(log_prob: torch.Tensor, eos_mask: torch.Tensor) -> torch.Tensor:
    """Return ``-log_prob`` at valid tokens, 0 elsewhere, before any averaging.

    For the second task of ``rl_sft_loss`` the mask is that of teacher tokens, and the caller divides by their number
    in the
    whole step: ``normalise_loss(..., "token-mean", tokens=...)``. Arguments and errors as in ``compute_sft_pure_loss``.
    """
    log_prob = working_precision(require_floating("log_prob", log_prob))
    mask = as_mask("eos_mask", eos_mask)
    require_shape("eos_mask", mask, log_prob.shape, "log_prob")
    return torch.where(mask, -log_prob, 0.0)
