"""Which tokens of a response are the teacher's."""

import torch

from training.algorithms.checks import as_mask, require_matrix, require_shape, require_tensor


def off_policy_mask(prefix_length: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The ``prefix_mask`` of rows that start with ``prefix_length`` teacher tokens.

    Args:
        prefix_length: ``[batch]``, integers, 0 for an on-policy row.
        mask: ``[batch, response_length]``, bool or 0/1: valid tokens, left-aligned.

    Returns:
        ``[batch, response_length]``, bool: valid tokens at positions below ``prefix_length``.

    Raises:
        ValueError: another shape.
    """
    valid = as_mask("mask", mask)
    require_matrix("mask", valid)
    require_shape("prefix_length", require_tensor("prefix_length", prefix_length), valid.shape[:1], "a row of mask")
    return valid & (torch.arange(valid.shape[1], device=valid.device) < prefix_length.unsqueeze(-1))
