"""The supervised loss: of recipe ``sft``, as a second task beside the policy loss, and of the embedded base model."""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from training.algorithms.methods.sft_weight import sft_weight
from training.algorithms.tensors import as_mask, require_floating, require_shape, working_precision


def compute_sft_pure_loss(
    log_prob: Float[Tensor, "batch length"], eos_mask: Shaped[Tensor, "batch length"]
) -> Float[Tensor, ""]:
    """Return the mean negative log-likelihood of the valid tokens.

    >>> compute_sft_pure_loss(torch.tensor([[-1.0, -2.0], [-6.0, -9.0]]), torch.tensor([[1, 1], [1, 0]]))
    tensor(3.)

    Args:
        eos_mask: bool or 0/1, valid tokens.

    Returns:
        A scalar; 0 with a zero gradient when no token is valid (nan in the original implementation).

    Raises:
        TypeError: ``log_prob`` is not floating point.
        ValueError: the shapes differ.
    """
    return sft_token_loss(log_prob, eos_mask).sum() / as_mask("eos_mask", eos_mask).sum().clamp(min=1)


def sft_token_loss(
    log_prob: Float[Tensor, "batch length"], mask: Shaped[Tensor, "batch length"], weight: str = "one"
) -> Float[Tensor, "batch length"]:
    """Return ``-w log_prob`` at the tokens of ``mask``, 0 elsewhere, before any averaging; `sft_weight` has the ``w``.

    >>> sft_token_loss(torch.tensor([[-1.0, -2.0], [-6.0, -9.0]]), torch.tensor([[1, 1], [1, 0]]))
    tensor([[1., 2.],
            [6., 0.]])

    The trainer divides by the number of these tokens in the whole batch, with ``agg_loss(..., "token-mean", ...)``.
    Errors are as in `compute_sft_pure_loss`.
    """
    log_prob = working_precision(require_floating("log_prob", log_prob))
    mask = as_mask("eos_mask", mask)
    require_shape("eos_mask", mask, log_prob.shape, "log_prob")
    losses = torch.where(mask, -log_prob, 0.0)
    return losses if weight == "one" else losses * sft_weight(torch.where(mask, log_prob, 0.0), weight)
