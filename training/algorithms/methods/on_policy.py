"""The loss of on-policy tokens (``mixed.on_policy_loss``): PPO and what other papers put in its place.

Each function takes what `training.algorithms.mixed_loss` has prepared: log-probabilities that are 0 at invalid tokens,
and ``loss_per_ratio``, which is ``-A`` there and 0 at invalid tokens.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from training.algorithms.options import LossOptions
from training.algorithms.registry import ON_POLICY_LOSSES
from training.algorithms.reshape import bounded_exp, shape_on_policy

LARGEST_RATIO = 20.0  # bound of DPPO: section 5.4 of its paper

Losses = tuple[Float[Tensor, "batch length"], Bool[Tensor, "batch length"] | None]


def on_policy_loss(
    log_prob: Float[Tensor, "batch length"],
    old_log_prob: Float[Tensor, "batch length"],
    loss_per_ratio: Float[Tensor, "batch length"],
    on_policy: Bool[Tensor, "batch length"],
    options: LossOptions,
) -> Losses:
    """Losses of all tokens as if they were on-policy, and which of them are clipped (None without a clip).

    With ``d = log_prob - old_log_prob``, and a band from ``1 - clip_ratio`` to ``max(clip_upper_bound, 1 +
    clip_ratio)``, or to ``clip_upper_bound`` for ``cispo`` if it is given:

    =============  ==========================================================================================
    ``ppo``        ``max(-A r, -A clamp(r))`` with ``r`` for the reshaped ``e^d`` (arXiv 1707.06347, equation 7)
    ``cispo``      ``-A sg(clamp(e^d)) log_prob``: a clipped token keeps its gradient (arXiv 2506.13585, equation 4)
    ``gspo``       ``max(-A s, -A clamp(s))`` with ``s = exp(mean of d over the row's on-policy tokens)``, whose
                   gradient goes to each token alike (arXiv 2507.18071, equations 7 and 14)
    ``gmpo``       ``-A g`` with ``g = exp(mean of d over the row's on-policy tokens)``, each ``d`` held above
                   ``-clip_ratio`` where A < 0 and below ``max(clip_ratio, log clip_upper_bound)`` where A > 0
                   (arXiv 2507.20673)
    ``sapo``       ``-A (4 / tau) sigmoid(tau (e^d - 1))`` with ``sapo_tau_pos`` where A > 0, else ``sapo_tau_neg``:
                   a gate that closes softly (arXiv 2511.20347)
    ``dppo``       ``-A sg(min(e^d, 20)) log_prob``; no loss where A > 0 and ``p - p0`` is above the band's upper end
                   - 1, or A <= 0 and ``p - p0`` below the lower end - 1: DPPO-Binary-TV (arXiv 2602.04879)
    ``dppo_kl``    the same with ``KL(p0 || p)`` of the token against all others in the place of ``|p - p0|``
    ``reinforce``  ``-A log_prob``, without the policy that sampled
    =============  ==========================================================================================

    ``sg`` stops the gradient. Without a clip (``loss_remove_clip``), ``ppo`` is ``-A r``, ``gspo`` is ``-A s``, and
    ``gmpo`` holds no ``d``.

    >>> old, new = torch.tensor([[0.5, 0.2]]).log(), torch.tensor([[0.5, 0.8]]).log()  # ratios 1 and 4, A = 1
    >>> tensors = new, old, -torch.ones(1, 2), torch.ones(1, 2, dtype=torch.bool)
    >>> on_policy_loss(*tensors, LossOptions())[0]
    tensor([[-1.0000, -1.2000]])
    >>> on_policy_loss(*tensors, LossOptions(on_policy_loss="cispo"))[0]  # log 0.5, 1.2 log 0.8
    tensor([[0.6931, 0.2678]])
    >>> on_policy_loss(*tensors, LossOptions(on_policy_loss="gspo"))[0]  # sqrt(1 x 4) = 2 is clipped, too
    tensor([[-1.2000, -1.2000]])
    >>> on_policy_loss(*tensors, LossOptions(on_policy_loss="gmpo", clip_ratio=0.4))[0]  # exp((0 + 0.4) / 2)
    tensor([[-1.2214, -1.2214]])
    >>> sapo_options = LossOptions(on_policy_loss="sapo", loss_remove_clip=True)
    >>> on_policy_loss(*tensors, sapo_options)[0]  # 4 sigmoid(0) and 4 sigmoid(3)
    tensor([[-2.0000, -3.8103]])
    >>> on_policy_loss(*tensors, LossOptions(on_policy_loss="dppo"))[0]  # 0.8 is more than 0.2 above 0.2
    tensor([[0.6931, 0.0000]])
    >>> on_policy_loss(*tensors, LossOptions(on_policy_loss="reinforce"))[0]
    tensor([[0.6931, 0.2231]])

    Args:
        on_policy: valid tokens that are not off-policy; those of a row make up the mean of GSPO and GMPO.
    """
    return ON_POLICY_LOSSES.function(options.on_policy_loss)(log_prob, old_log_prob, loss_per_ratio, on_policy, options)


def ppo(
    log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor, options: LossOptions
) -> Losses:
    return _clipped(shape_on_policy(log_prob, old_log_prob, options), loss_per_ratio, options)


def cispo(
    log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor, options: LossOptions
) -> Losses:
    with torch.no_grad():
        ratio = bounded_exp(log_prob - old_log_prob)
        weight = ratio.clamp(*clip_band(options))
    return loss_per_ratio * weight * log_prob, weight != ratio


def gspo(
    log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor, options: LossOptions
) -> Losses:
    with torch.no_grad():
        difference = torch.where(on_policy, log_prob - old_log_prob, 0.0).sum(dim=-1, keepdim=True)
        log_ratio = difference / on_policy.sum(dim=-1, keepdim=True).clamp(min=1)
    return _clipped(bounded_exp(log_prob - log_prob.detach() + log_ratio), loss_per_ratio, options)


def gmpo(
    log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor, options: LossOptions
) -> Losses:
    difference, clipped = torch.where(on_policy, log_prob - old_log_prob, 0.0), None
    if not options.loss_remove_clip:
        upper = max(options.clip_ratio, math.log(options.clip_upper_bound or 1.0))
        with torch.no_grad():
            held = difference.clamp(-options.clip_ratio, upper)
            clipped = loss_per_ratio * held > loss_per_ratio * difference
        difference = torch.where(clipped, held, difference)
    tokens = on_policy.sum(dim=-1, keepdim=True).clamp(min=1)
    return loss_per_ratio * bounded_exp(difference.sum(dim=-1, keepdim=True) / tokens), clipped


def sapo(
    log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor, options: LossOptions
) -> Losses:
    tau = torch.full_like(loss_per_ratio, options.sapo_tau_neg).masked_fill_(loss_per_ratio < 0, options.sapo_tau_pos)
    gate = torch.sigmoid(tau * (bounded_exp(log_prob - old_log_prob) - 1.0)) * (4.0 / tau)
    return loss_per_ratio * gate, None


def dppo(
    log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor, options: LossOptions
) -> Losses:
    with torch.no_grad():
        distance = (log_prob.exp() - old_log_prob.exp()).abs()
    return _trust_region(log_prob, old_log_prob, loss_per_ratio, distance, options)


def dppo_kl(
    log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor, options: LossOptions
) -> Losses:
    with torch.no_grad():
        p, p0, least = log_prob.exp(), old_log_prob.exp(), 1e-8
        distance = p0 * (old_log_prob - log_prob) + (1 - p0) * torch.log((1 - p0 + least) / (1 - p + least))
    return _trust_region(log_prob, old_log_prob, loss_per_ratio, distance, options)


def _trust_region(
    log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, distance: Tensor, options: LossOptions
) -> Losses:
    """DPPO's loss: none for a token that is already too far from the policy that sampled it and would go on."""
    with torch.no_grad():
        lower, upper = clip_band(options)
        raised, gains = log_prob > old_log_prob, loss_per_ratio < 0
        limit = torch.where(gains, upper - 1.0, 1.0 - lower)
        clipped = (distance > limit) & (raised == gains)
        ratio = bounded_exp(log_prob - old_log_prob).clamp(max=LARGEST_RATIO)
    return torch.where(clipped, 0.0, loss_per_ratio * ratio * log_prob), clipped


def reinforce(
    log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor, options: LossOptions
) -> Losses:
    return loss_per_ratio * log_prob, None


def clip_band(options: LossOptions) -> tuple[float, float]:
    """Return the lowest and the highest ratio.

    The two ends of CISPO are apart, because its lower one is usually off.

    >>> clip_band(LossOptions(on_policy_loss="cispo", clip_ratio=1.0, clip_upper_bound=1.2))
    (0.0, 1.2)
    """
    lower, upper = 1.0 - options.clip_ratio, 1.0 + options.clip_ratio
    if options.clip_upper_bound is None:
        return lower, upper
    if options.on_policy_loss == "cispo":
        return lower, options.clip_upper_bound
    return lower, max(options.clip_upper_bound, upper)


def _clipped(ratio: Tensor, loss_per_ratio: Tensor, options: LossOptions) -> Losses:
    losses = loss_per_ratio * ratio
    if options.loss_remove_clip:
        return losses, None
    # Where the clipped loss is the larger one, the ratio is outside the band and the clamp passes no gradient on.
    with torch.no_grad():
        clip_losses = loss_per_ratio * ratio.clamp(*clip_band(options))
        clipped = clip_losses > losses
    return torch.where(clipped, clip_losses, losses), clipped
