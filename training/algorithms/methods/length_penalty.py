"""DAPO's soft punishment of long responses (arXiv 2503.14476, equation 13)."""

from jaxtyping import Float, Int
from torch import Tensor

from training.algorithms.options import LengthPenaltyOptions


def length_penalty(
    lengths: Int[Tensor, " batch"], limit: int, options: LengthPenaltyOptions
) -> Float[Tensor, " batch"]:
    """Return the penalty on a reward: 0 up to the last ``buffer`` of the limit, then linear to ``-factor``.

    >>> import torch
    >>> length_penalty(torch.tensor([80, 90, 100]), 100, LengthPenaltyOptions(use=True, buffer=0.2))
    tensor([ 0.0000, -0.2500, -0.5000])

    Args:
        lengths: tokens of each response.
        limit: the most tokens that a response can have.
        options: ``buffer`` is a share of the limit; published are 4096 of 20480 tokens. ``factor`` is in units of the
            reward, of which a right and a wrong answer are 1 apart.
    """
    buffer = options.buffer * limit
    return options.factor * ((limit - buffer - lengths.float()) / buffer).clamp(-1.0, 0.0)
