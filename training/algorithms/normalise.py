"""From token losses to one number that does not depend on how a step was split.

The reference averages each micro-batch by itself, so its loss and gradient change with the micro-batch size, the
number of ranks and the padding. Here every divisor is a count over the whole step (all micro-batches of all ranks),
given by the caller.
"""

import torch

from training.algorithms.checks import as_mask, require_shape
from training.algorithms.names import NORMALISERS, Normaliser, require_choice

Count = int | float | torch.Tensor


def normalise_loss(
    losses: torch.Tensor,
    mask: torch.Tensor,
    how: Normaliser,
    *,
    tokens: Count | None = None,
    sequences: Count | None = None,
    response_length: int | None = None,
    ranks: int = 1,
) -> torch.Tensor:
    """Reduce the token losses of a micro-batch to its share of the loss of the step: add the shares, in any split.

    ======================= ==================================================================
    ``token-mean``          sum of all token losses / ``tokens`` (paper eq. 4: Z)
    ``seq-mean-token-mean`` sum over rows of the row's token mean / ``sequences``
    ``seq-mean-token-sum``  sum of all token losses / ``sequences``
    ``constant``            sum of all token losses / (``response_length`` x ``sequences``): what the
                            published run approximates
    ======================= ==================================================================

    Args:
        losses: ``[batch, response_length]``, the micro-batch.
        mask: the same shape, valid tokens. Tokens whose loss another option removed stay in it, and so in every count.
        tokens: valid tokens in the step.
        sequences: rows with a valid token in the step.
        response_length: the configured limit, not the padded width of this micro-batch.
        ranks: data-parallel ranks whose gradients are averaged afterwards; the share is multiplied by it.

    Returns:
        A scalar. A micro-batch without a valid token gives 0 with a zero gradient.

    Raises:
        ValueError: unknown ``how``, a count that it needs is missing or not positive, the shapes differ.
    """
    require_choice("loss_normaliser", how, NORMALISERS)
    require_shape("mask", mask, losses.shape, "losses")
    mask = as_mask("mask", mask)
    losses = torch.where(mask, losses, 0.0)
    if how == "token-mean":
        return losses.sum() * (ranks / _count("tokens", tokens, how))
    divisor = _count("sequences", sequences, how)
    if how == "constant":
        divisor = divisor * _count("response_length", response_length, how)
    if how == "seq-mean-token-mean":
        losses = losses.sum(dim=-1) / mask.sum(dim=-1).clamp(min=1)
    return losses.sum() * (ranks / divisor)


def _count(name: str, value: Count | None, how: str) -> Count:
    if value is None:
        raise ValueError(f"{name}: needed by loss_normaliser {how!r}; give its value over the whole step")
    if not isinstance(value, torch.Tensor) and value <= 0:  # comparing a tensor would wait for the device
        raise ValueError(f"{name}: expected a positive number, got {value}")
    return value
