"""Reduce token losses to one number.

The original implementation reduces each micro-batch by itself, so its loss and gradient change with the size of the
micro-batches and the number of ranks. That is the mode ``published``. In every other mode a divisor is a count over the
whole batch of an update (all micro-batches of all ranks), which the caller gives, and neither matters.

`agg_loss` reduces the policy loss. `agg_mean` reduces what the original averages over tokens: entropy, KL and
supervised loss. Only the published modes tell the two apart; ``docs/results/fidelity.md`` derives their scale.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from jaxtyping import Float, Shaped

from training.algorithms.options import Options
from training.later import Tensor, torch

Count = int | float | Tensor
Mode = Literal[
    "token-mean",
    "seq-mean-token-mean",
    "seq-mean-token-sum",
    "constant",
    "seq64-mean-token-sum-norm",
    "seq64-mean-token-sum-norm-occupied",
    "published",
]
LOSS_AGG_MODES: tuple[Mode, ...] = get_args(Mode)
MEAN_AGG_MODES = LOSS_AGG_MODES[-3:]  # those that reduce means over tokens (entropy, KL, SFT) in another way

# Sizes of the published run, whose gradient ``seq64-mean-token-sum-norm`` has: 64 prompts x 8 samples per update on 8
# ranks, and micro-batches of 32,768 tokens for responses of at most 8,192.
RANKS = 8
SEQUENCES_PER_RANK = 64
RESPONSES_PER_MICRO_BATCH = 4


class Reduce(Options):
    """How the losses of tokens become one number: a mode of `agg_loss`."""

    type: Mode = "token-mean"


@dataclass(frozen=True)
class BatchSize:
    """Counts over the whole batch of an update; each mode uses the ones that it needs.

    Args:
        tokens: tokens that have the loss.
        sequences: rows with such a token.
        batch_tokens: all valid tokens, whether they have the loss or not.
        batch_sequences: rows with a valid token.
        response_length: the configured limit, not the padded width of a micro-batch.
        ranks: data-parallel ranks; their gradients are averaged afterwards; the loss is multiplied by it.
    """

    tokens: Count = 0
    sequences: Count = 0
    batch_tokens: Count = 0
    batch_sequences: Count = 0
    response_length: int = 0
    ranks: int = 1


def agg_loss(
    losses: Float[Tensor, "batch length"],
    response_mask: Shaped[Tensor, "batch length"],
    loss_agg_mode: str,
    size: BatchSize,
) -> Float[Tensor, ""]:
    """Reduce the token losses of a micro-batch to its share of the policy loss of the batch.

    ====================================== ============================================================================
    ``token-mean``                         sum of all token losses / tokens (Z of arXiv 2504.14945, equation 5)
    ``seq-mean-token-mean``                sum over rows of the row's token mean / sequences
    ``seq-mean-token-sum``                 sum of all token losses / sequences
    ``constant``                           sum of all token losses / (response_length x sequences)
    ``seq64-mean-token-sum-norm``          sum of all token losses / (response_length x batch_sequences / 64)
    ``seq64-mean-token-sum-norm-occupied`` the same
    ``published``                          mean over the ranks of sum of the rank's token losses / response_length
    ====================================== ============================================================================

    The shares of any split add up, except that ``published`` depends on the number of ranks.

    >>> losses, mask = torch.tensor([[1.0, 3.0], [8.0, 0.0]]), torch.tensor([[1, 1], [1, 0]])
    >>> size = BatchSize(tokens=3, sequences=2, response_length=2)
    >>> [agg_loss(losses, mask, mode, size).item() for mode in ("token-mean", "seq-mean-token-mean", "constant")]
    [4.0, 5.0, 3.0]

    Args:
        response_mask: bool or 0/1, valid tokens. Tokens without a loss, by another option, stay in it, and so in every
            count.

    Returns:
        A scalar. A micro-batch without a valid token gives 0 with a zero gradient.
    """
    mask = response_mask.bool()
    losses = torch.where(mask, losses, 0.0)
    total = losses.sum()
    match loss_agg_mode:
        case "token-mean":
            divisor = size.tokens
        case "seq-mean-token-mean":
            total, divisor = (losses.sum(dim=-1) / mask.sum(dim=-1).clamp(min=1)).sum(), size.sequences
        case "seq-mean-token-sum":
            divisor = size.sequences
        case "constant":
            divisor = size.sequences * size.response_length
        case "published":
            divisor = size.response_length * size.ranks
        case _:
            divisor = size.response_length * size.batch_sequences / SEQUENCES_PER_RANK
    return total * (size.ranks / divisor)


def agg_mean(
    values: Float[Tensor, "batch length"],
    mask: Shaped[Tensor, "batch length"],
    loss_agg_mode: str,
    size: BatchSize,
) -> Float[Tensor, ""]:
    """Reduce token entropies, KL or supervised losses of a micro-batch to its share of the batch's.

    ====================================== ============================================================================
    ``seq64-mean-token-sum-norm``          sum / tokens x micro-batches of a rank, if the published run had this batch:
                                           64 batch_tokens / (4 response_length x batch_sequences)
    ``seq64-mean-token-sum-norm-occupied`` sum / tokens x those of them that hold one of ``sequences``, in expectation
    ``published``                          the micro-batch's mean; a rank has the sum over its micro-batches
    any other                              as `agg_loss`
    ====================================== ============================================================================

    >>> values, mask = torch.tensor([[1.0, 3.0], [8.0, 0.0]]), torch.tensor([[1, 1], [1, 0]])
    >>> size = BatchSize(tokens=3, batch_tokens=3, batch_sequences=2, response_length=2)
    >>> [agg_mean(values, mask, mode, size).item() for mode in ("token-mean", "seq64-mean-token-sum-norm", "published")]
    [4.0, 48.0, 4.0]

    Args:
        mask: bool or 0/1, the tokens that are averaged; ``size.tokens`` counts them over the whole batch.

    Returns: as `agg_loss`.
    """
    match loss_agg_mode:
        case "seq64-mean-token-sum-norm":
            budget = RESPONSES_PER_MICRO_BATCH * size.response_length * size.batch_sequences / SEQUENCES_PER_RANK
            divisor = size.tokens * budget / size.batch_tokens
        case "seq64-mean-token-sum-norm-occupied":
            divisor = size.tokens / occupied_micro_batches(size)
        case "published":
            divisor = mask.bool().sum().clamp(min=1) * size.ranks
        case _:
            return agg_loss(values, mask, loss_agg_mode, size)
    return torch.where(mask.bool(), values, 0.0).sum() * (size.ranks / divisor)


def occupied_micro_batches(size: BatchSize) -> Count:
    """Return how many of a published rank's micro-batches hold one of the averaged rows, in expectation.

    A rank has ``K = ceil(tokens / 32768)`` micro-batches. Of the ``M = 8 K`` of an update, ``r`` rows are in
    ``M (1 - (1 - 1 / M)^r)`` in expectation, and each of those adds its mean.
    """
    ranks = size.batch_sequences / SEQUENCES_PER_RANK  # those that would share the batch: 8 in the published run
    limit = RESPONSES_PER_MICRO_BATCH * size.response_length
    micro_batches = math.ceil(size.batch_tokens / (limit * ranks))
    rows, updates = size.sequences * RANKS / ranks, RANKS * micro_batches
    return micro_batches * (1.0 - (1.0 - 1.0 / updates) ** rows)
