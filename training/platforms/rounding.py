"""What quantisation leaves of a weight: it is rounded and scaled back, and computed with as before."""

import torch
from torch import Tensor

ROUNDED = ("fp8", "int4")
BLOCK = 128  # rows and columns that share a scale in fp8, as in vLLM's block-wise fp8


def round_weight(weight: Tensor, precision: str) -> Tensor:
    """Round ``weight`` as ``fp8`` (e4m3, one scale per block) or ``int4`` (symmetric, one scale per row) does.

    ``weight`` is a matrix of any size, and stays as it is; the result has its type.

    >>> round_weight(torch.tensor([[7.0, -3.4, 0.4]]), "int4")
    tensor([[ 7., -3.,  0.]])
    >>> round_weight(torch.tensor([[448.0, 17.0, 0.0]]), "fp8")  # e4m3 has 16 and 18, and nothing between them
    tensor([[448.,  16.,   0.]])
    """
    if precision not in ROUNDED:
        raise ValueError(f"precision {precision!r}: expected one of {', '.join(ROUNDED)}")
    exact = weight.detach().float()
    if precision == "int4":
        scale = _scale(exact.abs().amax(dim=1, keepdim=True), 7.0)
        return ((exact / scale).round() * scale).to(weight.dtype)
    rounded = torch.empty_like(exact)
    for top in range(0, exact.shape[0], BLOCK):
        for left in range(0, exact.shape[1], BLOCK):
            block = exact[top : top + BLOCK, left : left + BLOCK]
            scale = _scale(block.abs().amax(), torch.finfo(torch.float8_e4m3fn).max)
            kept = (block / scale).to(torch.float8_e4m3fn).float()
            rounded[top : top + BLOCK, left : left + BLOCK] = kept * scale
    return rounded.to(weight.dtype)


def _scale(largest: Tensor, top: float) -> Tensor:
    """Return the factor that maps ``largest`` to ``top``; 1 for weights that are all zero."""
    return torch.where(largest > 0, largest / top, 1.0)
