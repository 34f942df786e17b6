"""The supervised loss of recipe ``sft``, of the second task beside the policy loss, and of the embedded model."""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from training.algorithms.methods.sft_weight import sft_weight
from training.algorithms.tensors import as_mask, require_floating, require_shape, working_precision


def sft_token_loss(
    log_prob: Float[Tensor, "batch length"], mask: Shaped[Tensor, "batch length"], weight: str = "one"
) -> Float[Tensor, "batch length"]:
    """Return ``-w log_prob`` at the tokens of ``mask``, 0 elsewhere, before any averaging; `sft_weight` has the ``w``.

    >>> sft_token_loss(torch.tensor([[-1.0, -2.0], [-6.0, -9.0]]), torch.tensor([[1, 1], [1, 0]]))
    tensor([[1., 2.],
            [6., 0.]])

    The trainer divides by the number of these tokens in the whole batch, with ``agg_loss(..., "token-mean", ...)``.

    Args:
        mask: bool or 0/1.

    Raises:
        TypeError: ``log_prob`` is not floating point.
        ValueError: the shapes differ.
    """
    log_prob = working_precision(require_floating("log_prob", log_prob))
    mask = as_mask("mask", mask)
    require_shape("mask", mask, log_prob.shape, "log_prob")
    losses = torch.where(mask, -log_prob, 0.0)
    return losses if weight == "one" else losses * sft_weight(torch.where(mask, log_prob, 0.0), weight)
