"""Masks of tokens, and the precision in which losses are computed."""

from jaxtyping import Bool, Float, Int, Shaped

from training.later import Tensor, torch


def working_precision(tensor: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return ``tensor`` in float32 when it is in a half precision (gradients flow back in its own), else as it is."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def mask_of_prefix(
    prefix_length: Int[Tensor, " batch"], response_mask: Shaped[Tensor, "batch length"]
) -> Bool[Tensor, "batch length"]:
    """Return the valid tokens at positions below ``prefix_length``: the ``off_policy_mask`` of responses.

    >>> mask_of_prefix(torch.tensor([2, 0]), torch.tensor([[1, 1, 1], [1, 1, 0]])).int()
    tensor([[1, 1, 0],
            [0, 0, 0]], dtype=torch.int32)

    Args:
        prefix_length: off-policy tokens at the head of each row; 0 for an on-policy row.
        response_mask: bool or 0/1, valid tokens, left-aligned.
    """
    valid = response_mask.bool()
    return valid & (torch.arange(valid.shape[1], device=valid.device) < prefix_length.unsqueeze(-1))


def fit_width(values: Tensor, width: int) -> Tensor:
    """``values`` cut or filled with zeros to ``[batch, width]``: verl's padding rows copy fields of another length."""
    return torch.nn.functional.pad(values[:, :width], (0, max(width - values.shape[1], 0)))
