"""Reduce token losses to one number.

The original implementation reduces each micro-batch by itself, so its loss and gradient change with the size of the
micro-batches and the number of ranks. That is the mode ``published``. In every other mode a divisor is a count over the
whole batch of an update (all micro-batches of all ranks), which the caller gives, and neither matters.

`agg_loss` reduces the policy loss. `agg_mean` reduces what the original averages over tokens: entropy, KL and
supervised loss. Only the published modes tell the two apart; ``docs/algorithm.md`` derives their scale.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float, Shaped

from training.algorithms.options import Options
from training.algorithms.tensors import as_mask, require_shape
from training.later import Tensor, torch

Count = int | float | Tensor

Reduction = Callable[[Tensor, Tensor, "BatchSize"], tuple[Tensor, Count]]

# Sizes of the published run, whose gradient ``seq64-mean-token-sum-norm`` has: 64 prompts x 8 samples per update on 8
# ranks, and micro-batches of 32,768 tokens for responses of at most 8,192.
RANKS = 8
SEQUENCES_PER_RANK = 64
RESPONSES_PER_MICRO_BATCH = 4


class Reduce(Options):
    """How the losses of tokens become one number: a mode of `agg_loss`."""

    type: Literal[
        "token-mean",
        "seq-mean-token-mean",
        "seq-mean-token-sum",
        "constant",
        "seq64-mean-token-sum-norm",
        "seq64-mean-token-sum-norm-occupied",
        "published",
    ] = "token-mean"


@dataclass(frozen=True)
class BatchSize:
    """Counts over the whole batch of an update; each mode uses the ones that it needs.

    Args:
        tokens: tokens that have the loss.
        sequences: rows with such a token.
        batch_tokens: all valid tokens, whether they have the loss or not.
        batch_sequences: rows with a valid token.
        response_length: the configured limit, not the padded width of a micro-batch.
        ranks: data-parallel ranks whose gradients are averaged afterwards; the loss is multiplied by it.
    """

    tokens: Count | None = None
    sequences: Count | None = None
    batch_tokens: Count | None = None
    batch_sequences: Count | None = None
    response_length: int | None = None
    ranks: int = 1

    def __getitem__(self, name: str) -> Count:
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"{name}: the loss_agg_mode needs it; give its value over the whole batch")
        if not isinstance(value, torch.Tensor) and value <= 0:  # comparing a tensor would wait for the device
            raise ValueError(f"{name}: expected a positive number, got {value}")
        return value


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
        response_mask: bool or 0/1, valid tokens. Tokens whose loss another option removed stay in it, and so in every
            count.

    Returns:
        A scalar. A micro-batch without a valid token gives 0 with a zero gradient.

    Raises:
        ValueError: unknown ``loss_agg_mode``, a count that it needs is missing or not positive, the shapes differ.
    """
    return _share(_mode(loss_agg_mode), losses, response_mask, size)


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

    Returns, Raises: as `agg_loss`.
    """
    if loss_agg_mode in MEAN_AGG_MODES:
        return _share(MEAN_AGG_MODES[loss_agg_mode], values, mask, size)
    return agg_loss(values, mask, loss_agg_mode, size)


def _share(reduce: Reduction, values: Tensor, mask: Tensor, size: BatchSize) -> Tensor:
    require_shape("response_mask", mask, values.shape, "losses")
    mask = as_mask("response_mask", mask)
    total, divisor = reduce(torch.where(mask, values, 0.0), mask, size)
    return total * (size.ranks / divisor)


def token_mean(losses: Tensor, mask: Tensor, size: BatchSize) -> tuple[Tensor, Count]:
    return losses.sum(), size["tokens"]


def seq_mean_token_mean(losses: Tensor, mask: Tensor, size: BatchSize) -> tuple[Tensor, Count]:
    return (losses.sum(dim=-1) / mask.sum(dim=-1).clamp(min=1)).sum(), size["sequences"]


def seq_mean_token_sum(losses: Tensor, mask: Tensor, size: BatchSize) -> tuple[Tensor, Count]:
    return losses.sum(), size["sequences"]


def constant(losses: Tensor, mask: Tensor, size: BatchSize) -> tuple[Tensor, Count]:
    return losses.sum(), size["sequences"] * size["response_length"]


def seq64_mean_token_sum_norm(losses: Tensor, mask: Tensor, size: BatchSize) -> tuple[Tensor, Count]:
    return losses.sum(), size["response_length"] * size["batch_sequences"] / SEQUENCES_PER_RANK


def seq64_token_mean(values: Tensor, mask: Tensor, size: BatchSize) -> tuple[Tensor, Count]:
    budget = RESPONSES_PER_MICRO_BATCH * size["response_length"] * size["batch_sequences"] / SEQUENCES_PER_RANK
    return values.sum(), size["tokens"] * budget / size["batch_tokens"]


def seq64_occupied_mean(values: Tensor, mask: Tensor, size: BatchSize) -> tuple[Tensor, Count]:
    """Like `seq64_token_mean`, but a micro-batch without any of the averaged rows adds nothing.

    A published rank has ``K = ceil(tokens / 32768)`` micro-batches. Of the ``M = 8 K`` of an update, ``r`` rows are in
    ``M (1 - (1 - 1 / M)^r)`` in expectation, and each of those adds its mean.
    """
    ranks = size["batch_sequences"] / SEQUENCES_PER_RANK  # those that would share the batch: 8 in the published run
    limit = RESPONSES_PER_MICRO_BATCH * size["response_length"]
    micro_batches = math.ceil(size["batch_tokens"] / (limit * ranks))
    rows, updates = size["sequences"] * RANKS / ranks, RANKS * micro_batches
    occupied = micro_batches * (1.0 - (1.0 - 1.0 / updates) ** rows)
    return values.sum(), size["tokens"] / occupied


def published(losses: Tensor, mask: Tensor, size: BatchSize) -> tuple[Tensor, Count]:
    return losses.sum(), size["response_length"] * size.ranks


def published_mean(values: Tensor, mask: Tensor, size: BatchSize) -> tuple[Tensor, Count]:
    return values.sum(), mask.sum().clamp(min=1) * size.ranks


# The policy loss, by mode.
LOSS_AGG_MODES: Mapping[str, Reduction] = {
    "token-mean": token_mean,
    "seq-mean-token-mean": seq_mean_token_mean,
    "seq-mean-token-sum": seq_mean_token_sum,
    "constant": constant,
    "seq64-mean-token-sum-norm": seq64_mean_token_sum_norm,
    "seq64-mean-token-sum-norm-occupied": seq64_mean_token_sum_norm,
    "published": published,
}
# The modes that reduce means over tokens (entropy, KL, supervised loss) in another way.
MEAN_AGG_MODES: Mapping[str, Reduction] = {
    "seq64-mean-token-sum-norm": seq64_token_mean,
    "seq64-mean-token-sum-norm-occupied": seq64_occupied_mean,
    "published": published_mean,
}


def _mode(name: str) -> Reduction:
    if name not in LOSS_AGG_MODES:
        raise ValueError(f"got {name!r}, expected one of {', '.join(LOSS_AGG_MODES)}")
    return LOSS_AGG_MODES[name]
