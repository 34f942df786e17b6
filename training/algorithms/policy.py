"""The mixed-policy loss of a training: PPO on on-policy tokens, shaped importance sampling on off-policy tokens.

The formulas are equations 4 and 5 of arXiv 2504.14945, token by token. The trainer multiplies the losses by the
weights of the rollout correction and aggregates them over the whole batch.
"""

import math

from jaxtyping import Bool, Float, Shaped

from training.algorithms.off_policy import OffPolicyRatio
from training.algorithms.on_policy import OnPolicyLoss
from training.algorithms.tensors import working_precision
from training.later import Tensor, torch

Stats = dict[str, tuple[Tensor, Tensor]]
"""Metric name -> (sum, count), scalars: add them over micro-batches and ranks, then divide."""


def mixed_policy_token_loss(
    old_log_prob: Float[Tensor, "batch length"],
    log_prob: Float[Tensor, "batch length"],
    advantages: Float[Tensor, "batch length"],
    response_mask: Shaped[Tensor, "batch length"],
    off_policy_mask: Bool[Tensor, "batch length"],
    on: OnPolicyLoss,
    off: OffPolicyRatio | None,
    phi: Float[Tensor, "batch length"] | None = None,
    all_max_clip: float | None = None,
) -> tuple[Float[Tensor, "batch length"], Stats]:
    """Return each token's loss before any averaging: ``L_off`` where ``off_policy_mask``, ``L_on`` elsewhere.

    On-policy tokens (arXiv 2504.14945, equation 4, second sum) have the loss ``on``: with `Ppo` and ``r`` for the
    shaped ``exp(log_prob - old_log_prob)``, ``max(-A r, -A clamp(r, 1 - clip.low, 1 + clip.high))``; only ``-A r``
    without a clip (section 2.4). Off-policy tokens (equation 5): ``-A f``, with the ratio ``f`` of ``off``, the shaped
    ``exp(log_prob)`` held between its bounds; there is no old policy and no clip. Without ``off`` they have no loss.
    With ``phi`` (the teacher's) ``f`` is the shaped ``p / (phi + epsilon)``.

    >>> log_prob = torch.tensor([[0.5, 0.2], [0.1, 0.4]]).log()  # the first row is off-policy, A = 1
    >>> old_log_prob = torch.tensor([[1.0, 1.0], [0.1, 0.2]]).log()  # the second is on-policy, A = -1
    >>> advantages, mask = torch.tensor([[1.0, 1.0], [-1.0, -1.0]]), torch.ones(2, 2)
    >>> off_policy_mask = torch.tensor([[True, True], [False, False]])
    >>> from training.methods.luffy import Luffy
    >>> method, tensors = Luffy(), (old_log_prob, log_prob, advantages, mask, off_policy_mask)
    >>> mixed_policy_token_loss(*tensors, method.on_policy, method.off_policy)[0]
    tensor([[-0.8333, -0.6667],
            [ 1.0000,  2.0000]])

    Losses and gradients are finite for log-probabilities in [-1e4, 0], also in tokens of the branch not taken. What
    stands at invalid tokens has no influence, even when it is not finite. Half precisions are computed in float32.

    Args:
        response_mask: bool or 0/1, valid tokens.
        phi: negative where unknown, which means 1; None for the paper's phi = 1.
        all_max_clip: tokens with a higher probability have no loss; None for no such bound.

    Returns:
        ``losses``, 0 at invalid tokens, and ``stats`` without gradient: (sum, count) of ``pg_loss``, less what
        ``all_max_clip`` drops, and of means over on-policy or off-policy tokens. A ratio that reaches a bound counts
        in ``off_ratio_max_clip_frac`` or ``off_ratio_min_clip_frac``.
    """
    valid = response_mask.bool()
    on_policy = valid & ~off_policy_mask
    off_policy = valid & off_policy_mask
    # 0 where a token has no part, so that nothing there reaches a sum or a gradient.
    log_prob = torch.where(valid, working_precision(log_prob), 0.0)
    old_log_prob = torch.where(on_policy, working_precision(old_log_prob), 0.0)
    loss_per_ratio = torch.where(valid, -working_precision(advantages), 0.0)

    on_losses, clipped = on.losses(log_prob, old_log_prob, loss_per_ratio, on_policy)
    measured = off or OffPolicyRatio()  # tokens that have another loss are measured, too
    off_ratio = measured.ratio(log_prob, phi, off_policy)
    off_losses = 0.0 if off is None else loss_per_ratio * off_ratio
    losses = torch.where(off_policy_mask, off_losses, on_losses)

    with torch.no_grad():
        highest = math.inf if measured.max is None else measured.max
        lowest = -math.inf if measured.min is None else measured.min
        stats = {
            "off_pg_loss": _sum_over(off_policy, losses),
            "on_pg_loss": _sum_over(on_policy, losses),
            "on_pg_clipfrac": _sum_over(on_policy, torch.zeros_like(valid) if clipped is None else clipped),
            "ppo_kl": _sum_over(on_policy, old_log_prob - log_prob),
            "off_policy_prob": _sum_over(off_policy, log_prob.exp()),
            # Of the policy that sampled the tokens, as the original implementation defines it.
            "on_policy_prob": _sum_over(on_policy, old_log_prob.exp()),
            "off_ratio_mean": _sum_over(off_policy, off_ratio),
            "off_ratio_max_clip_frac": _sum_over(off_policy, off_ratio >= highest),
            "off_ratio_min_clip_frac": _sum_over(off_policy, off_ratio <= lowest),
        }
        kept = valid if all_max_clip is None else valid & (log_prob.exp() <= all_max_clip)
    if all_max_clip is not None:
        losses = torch.where(kept, losses, 0.0)
    return losses, {"pg_loss": _sum_over(kept, losses.detach()), **stats}


def surest(
    entropy: Float[Tensor, "batch length"], tokens: Bool[Tensor, "batch length"], share: float
) -> Bool[Tensor, "batch length"]:
    """Return the ``int(share N)`` of the ``N`` tokens of each row that have the lowest entropy.

    >>> entropy, tokens = torch.tensor([[0.3, 0.1, 0.2, 9.0]]), torch.tensor([[True, True, True, False]])
    >>> surest(entropy, tokens, 0.7)
    tensor([[False,  True,  True, False]])
    """
    rank = entropy.detach().masked_fill(~tokens, torch.inf).argsort(dim=-1, stable=True).argsort(dim=-1)
    return tokens & (rank < (share * tokens.sum(dim=-1, keepdim=True).double()).long())


def _sum_over(tokens: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of ``values`` over ``tokens``, and their number."""
    return torch.where(tokens, values, 0.0).sum(), tokens.sum()
