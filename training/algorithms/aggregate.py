"""From token losses to one number that does not depend on how a batch was split.

The original implementation averages each micro-batch by itself, so its loss and gradient change with the size of the
micro-batches, the number of ranks and the padding. Here every divisor is a count over the whole batch of an update (all
micro-batches of all ranks), which the caller gives.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from training.algorithms.registry import LOSS_AGG_MODES
from training.algorithms.tensors import as_mask, require_shape

Count = int | float | Tensor


@dataclass(frozen=True)
class BatchSize:
    """Counts over the whole batch of an update; a mode says which of them it needs.

    Args:
        tokens: valid tokens.
        sequences: rows with a valid token.
        response_length: the configured limit, not the padded width of a micro-batch.
        ranks: data-parallel ranks whose gradients are averaged afterwards; the loss is multiplied by it.
    """

    tokens: Count | None = None
    sequences: Count | None = None
    response_length: int | None = None
    ranks: int = 1

    def __getitem__(self, name: str) -> Count:
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"{name}: the loss_agg_mode needs it; give its value over the whole batch")
        if not isinstance(value, Tensor) and value <= 0:  # comparing a tensor would wait for the device
            raise ValueError(f"{name}: expected a positive number, got {value}")
        return value


def agg_loss(
    losses: Float[Tensor, "batch length"],
    response_mask: Shaped[Tensor, "batch length"],
    loss_agg_mode: str,
    size: BatchSize,
) -> Float[Tensor, ""]:
    """Reduce the token losses of a micro-batch to its share of the loss of the batch: the shares of any split add up.

    ======================= ==================================================================
    ``token-mean``          sum of all token losses / tokens (Z of arXiv 2504.14945, equation 5)
    ``seq-mean-token-mean`` sum over rows of the row's token mean / sequences
    ``seq-mean-token-sum``  sum of all token losses / sequences
    ``constant``            sum of all token losses / (response_length x sequences), which the
                            published run approximates
    ======================= ==================================================================

    >>> losses, mask = torch.tensor([[1.0, 3.0], [8.0, 0.0]]), torch.tensor([[1, 1], [1, 0]])
    >>> size = BatchSize(tokens=3, sequences=2, response_length=2)
    >>> [agg_loss(losses, mask, mode, size).item() for mode in ("token-mean", "seq-mean-token-mean", "constant")]
    [4.0, 5.0, 3.0]

    Args:
        response_mask: bool or 0/1, valid tokens. Tokens whose loss another option removed stay in it, and so in every
            count.

    Returns:
        A scalar. A micro-batch without a valid token gives 0 with a zero gradient.

    Raises:
        ValueError: unknown ``loss_agg_mode``, a count that it needs is missing or not positive, the shapes differ.
    """
    reduce = LOSS_AGG_MODES.function(loss_agg_mode)
    require_shape("response_mask", response_mask, losses.shape, "losses")
    mask = as_mask("response_mask", response_mask)
    total, divisor = reduce(torch.where(mask, losses, 0.0), mask, size)
    return total * (size.ranks / divisor)


def token_mean(losses: Tensor, mask: Tensor, size: BatchSize) -> tuple[Tensor, Count]:
    return losses.sum(), size["tokens"]


def seq_mean_token_mean(losses: Tensor, mask: Tensor, size: BatchSize) -> tuple[Tensor, Count]:
    return (losses.sum(dim=-1) / mask.sum(dim=-1).clamp(min=1)).sum(), size["sequences"]


def seq_mean_token_sum(losses: Tensor, mask: Tensor, size: BatchSize) -> tuple[Tensor, Count]:
    return losses.sum(), size["sequences"]


def constant(losses: Tensor, mask: Tensor, size: BatchSize) -> tuple[Tensor, Count]:
    return losses.sum(), size["sequences"] * size["response_length"]
