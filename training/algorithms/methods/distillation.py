"""On-policy distillation: the policy samples, and a teacher scores its tokens (arXiv 2306.13649).

The teacher may be another model (OPD), or the policy itself with the target in its prompt (OPSD, arXiv 2601.18734).
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from training.algorithms.options import DistillationOptions
from training.algorithms.tensors import require_bool, require_floating, require_shape


def teacher_advantage(
    log_prob: Float[Tensor, "batch length"],
    teacher_log_prob: Float[Tensor, "batch length"],
    scored: Bool[Tensor, "batch length"],
    options: DistillationOptions,
) -> Float[Tensor, "batch length"]:
    """Return ``coef (log q - log p)`` at the ``scored`` tokens and 0 elsewhere, for policy ``p`` and teacher ``q``.

    Its mean over the policy's own samples is ``-coef KL(policy || teacher)``, token by token, so the policy gradient
    with it as the advantage lowers the reverse KL (https://thinkingmachines.ai/blog/on-policy-distillation). No token
    answers for those after it. ``max_advantage`` bounds ``|log q - log p|``.

    >>> log_prob, teacher = torch.tensor([[0.5, 0.8, 0.9]]).log(), torch.tensor([[0.5, 0.2, 0.1]]).log()
    >>> scored = torch.tensor([[True, True, False]])
    >>> teacher_advantage(log_prob, teacher, scored, DistillationOptions(use=True))
    tensor([[ 0.0000, -1.3863,  0.0000]])
    >>> teacher_advantage(log_prob, teacher, scored, DistillationOptions(use=True, coef=0.5, max_advantage=1.0))
    tensor([[ 0.0000, -0.5000,  0.0000]])

    Args:
        log_prob: Log-probabilities of the policy at the start of the step.
        scored: the tokens that the policy sampled.

    Raises:
        TypeError: ``scored`` is not bool; log-probabilities that are not floating point.
        ValueError: another shape.
    """
    shape = require_floating("log_prob", log_prob).shape
    require_shape("teacher_log_prob", require_floating("teacher_log_prob", teacher_log_prob), shape, "log_prob")
    require_shape("scored", require_bool("scored", scored), shape, "log_prob")
    difference = torch.where(scored, teacher_log_prob - log_prob, 0.0)
    if options.max_advantage is not None:
        difference = difference.clamp(-options.max_advantage, options.max_advantage)
    return options.coef * difference
