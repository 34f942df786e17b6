"""The loss of on-policy tokens (``method.on_policy``): PPO and what other papers put in its place.

Each class takes what `training.algorithms.policy` has prepared: log-probabilities that are 0 at invalid tokens, and
``loss_per_ratio``, which is ``-A`` there and 0 at invalid tokens.
"""

from typing import Annotated, ClassVar, Literal

from jaxtyping import Bool, Float
from pydantic import Field

from training.algorithms.off_policy import AnyReshape, NoReshape, bounded_exp
from training.algorithms.options import Options, Positive
from training.later import Tensor, torch

LARGEST_RATIO = 20.0  # bound of DPPO: section 5.4 of its paper
LOG_RATIOS = -18.4, 20.0  # bounds of VESPO

Losses = tuple[Float[Tensor, "batch length"], Bool[Tensor, "batch length"] | None]


class Clip(Options):
    """The band of a ratio, from ``1 - low`` to ``1 + high``.

    >>> Clip(low=1.0, high=0.28).band
    (0.0, 1.28)
    """

    low: Positive = 0.2
    high: Positive = 0.2

    @property
    def band(self) -> tuple[float, float]:
        return 1.0 - self.low, 1.0 + self.high


class OnPolicyLoss(Options):
    """A loss of on-policy tokens, with ``d = log_prob - old_log_prob`` and the band of ``clip``.

    =============  ==========================================================================================
    ``ppo``        ``max(-A r, -A clamp(r))`` with ``r`` for the reshaped ``e^d`` (arXiv 1707.06347, equation 7)
    ``cispo``      ``-A sg(clamp(e^d)) log_prob``: a clipped token keeps its gradient (arXiv 2506.13585, equation 4)
    ``gspo``       ``max(-A s, -A clamp(s))`` with ``s = exp(mean of d over the row's on-policy tokens)``; the
                   gradient goes to each token alike (arXiv 2507.18071, equations 7 and 14)
    ``gmpo``       ``-A g`` with ``g = exp(mean of d over the row's on-policy tokens)``, each ``d`` held above
                   ``-clip.low`` where A < 0 and below ``clip.high`` where A > 0 (arXiv 2507.20673)
    ``sapo``       ``-A (4 / tau) sigmoid(tau (e^d - 1))`` with ``tau_pos`` where A > 0, else ``tau_neg``:
                   a gate that closes softly (arXiv 2511.20347)
    ``dppo``       ``-A sg(min(e^d, 20)) log_prob``; no loss where A > 0 and ``p - p0`` is above the band's upper end
                   - 1, or A <= 0 and ``p - p0`` below the lower end - 1: DPPO-Binary-TV (arXiv 2602.04879)
    ``dppo_kl``    the same with ``KL(p0 || p)`` of the token against all others in the place of ``|p - p0|``
    ``vespo``      ``-A sg(phi(W)) log_prob`` with ``W = prod(p / p_rollout)`` over the row's on-policy tokens, ``phi =
                   W^k e^(l (1 - W))``, and ``k, l`` by the sign of A: VESPO (FloyedShen/VESPO, recipe/vespo)
    ``reinforce``  ``-A log_prob``, without the policy that sampled
    =============  ==========================================================================================

    ``sg`` stops the gradient. Without a clip (``clip=null``), ``ppo`` is ``-A r``, ``gspo`` is ``-A s``, and ``gmpo``
    holds no ``d``.

    >>> old, new = torch.tensor([[0.5, 0.2]]).log(), torch.tensor([[0.5, 0.8]]).log()  # ratios 1 and 4, A = 1
    >>> tensors = new, old, -torch.ones(1, 2), torch.ones(1, 2, dtype=torch.bool)
    >>> Ppo().losses(*tensors)[0]
    tensor([[-1.0000, -1.2000]])
    >>> Cispo(clip=Clip()).losses(*tensors)[0]  # log 0.5, 1.2 log 0.8
    tensor([[0.6931, 0.2678]])
    >>> Gspo().losses(*tensors)[0]  # sqrt(1 x 4) = 2 is clipped, too
    tensor([[-1.2000, -1.2000]])
    >>> Gmpo(clip=Clip(high=0.4)).losses(*tensors)[0]  # exp((0 + 0.4) / 2)
    tensor([[-1.2214, -1.2214]])
    >>> Sapo().losses(*tensors)[0]  # 4 sigmoid(0) and 4 sigmoid(3)
    tensor([[-2.0000, -3.8103]])
    >>> Dppo().losses(*tensors)[0]  # 0.8 is more than 0.2 above 0.2
    tensor([[0.6931, 0.0000]])
    >>> Reinforce().losses(*tensors)[0]
    tensor([[0.6931, 0.2231]])
    """

    from_rollout: ClassVar[bool] = False  # old_log_prob is the rollout engine's, and not the actor's before the step

    def losses(
        self,
        log_prob: Float[Tensor, "batch length"],
        old_log_prob: Float[Tensor, "batch length"],
        loss_per_ratio: Float[Tensor, "batch length"],
        on_policy: Bool[Tensor, "batch length"],
    ) -> Losses:
        """Losses of all tokens as if they were on-policy, and which of them are clipped (None without a clip).

        Args:
            on_policy: valid tokens that are not off-policy; a row's make up the mean of GSPO and GMPO.
        """
        raise NotImplementedError


class Ppo(OnPolicyLoss):
    type: Literal["ppo"] = "ppo"
    clip: Clip | None = Clip()
    reshape: AnyReshape = NoReshape()

    def losses(self, log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor) -> Losses:
        return _clipped(self.reshape.shape_ratio(log_prob, old_log_prob), loss_per_ratio, self.clip)


class Cispo(OnPolicyLoss):
    type: Literal["cispo"] = "cispo"
    clip: Clip = Clip(low=1.0, high=4.0)  # no lower clip; the upper one is that of ScaleRL (arXiv 2510.13786)

    def losses(self, log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor) -> Losses:
        with torch.no_grad():
            ratio = bounded_exp(log_prob - old_log_prob)
            weight = ratio.clamp(*self.clip.band)
        return loss_per_ratio * weight * log_prob, weight != ratio


class Gspo(OnPolicyLoss):
    type: Literal["gspo"] = "gspo"
    clip: Clip | None = Clip()

    def losses(self, log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor) -> Losses:
        with torch.no_grad():
            difference = torch.where(on_policy, log_prob - old_log_prob, 0.0).sum(dim=-1, keepdim=True)
            log_ratio = difference / on_policy.sum(dim=-1, keepdim=True).clamp(min=1)
        return _clipped(bounded_exp(log_prob - log_prob.detach() + log_ratio), loss_per_ratio, self.clip)


class Gmpo(OnPolicyLoss):
    type: Literal["gmpo"] = "gmpo"
    clip: Clip | None = Clip()

    def losses(self, log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor) -> Losses:
        difference = torch.where(on_policy, log_prob - old_log_prob, 0.0)
        clipped = None
        if self.clip is not None:
            with torch.no_grad():
                held = difference.clamp(-self.clip.low, self.clip.high)
                clipped = loss_per_ratio * held > loss_per_ratio * difference
            difference = torch.where(clipped, held, difference)
        tokens = on_policy.sum(dim=-1, keepdim=True).clamp(min=1)
        return loss_per_ratio * bounded_exp(difference.sum(dim=-1, keepdim=True) / tokens), clipped


class Sapo(OnPolicyLoss):
    type: Literal["sapo"] = "sapo"
    tau_pos: Positive = 1.0  # steepness of the gate where A > 0
    tau_neg: Positive = 1.05  # the same where A <= 0

    def losses(self, log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor) -> Losses:
        tau = torch.full_like(loss_per_ratio, self.tau_neg).masked_fill_(loss_per_ratio < 0, self.tau_pos)
        gate = torch.sigmoid(tau * (bounded_exp(log_prob - old_log_prob) - 1.0)) * (4.0 / tau)
        return loss_per_ratio * gate, None


class Dppo(OnPolicyLoss):
    """There is no loss for a token that is already too far from the policy that sampled it and would go on."""

    type: Literal["dppo", "dppo_kl"] = "dppo"
    clip: Clip = Clip()

    def losses(self, log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor) -> Losses:
        with torch.no_grad():
            p = log_prob.exp()
            p0 = old_log_prob.exp()
            least = 1e-8
            distance = (p - p0).abs()
            if self.type == "dppo_kl":
                distance = p0 * (old_log_prob - log_prob) + (1 - p0) * torch.log((1 - p0 + least) / (1 - p + least))
            lower, upper = self.clip.band
            raised = log_prob > old_log_prob
            gains = loss_per_ratio < 0
            limit = torch.where(gains, upper - 1.0, 1.0 - lower)
            clipped = (distance > limit) & (raised == gains)
            ratio = bounded_exp(log_prob - old_log_prob).clamp(max=LARGEST_RATIO)
        return torch.where(clipped, 0.0, loss_per_ratio * ratio * log_prob), clipped


class Reinforce(OnPolicyLoss):
    type: Literal["reinforce"] = "reinforce"

    def losses(self, log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor) -> Losses:
        return loss_per_ratio * log_prob, None


class Vespo(OnPolicyLoss):
    """A weight of whole responses, which is 1 where the policy has not moved, and falls on both sides.

    >>> half, one, two = (torch.tensor([[ratio]]).log() for ratio in (0.5, 1.0, 2.0))
    >>> [round(Vespo().weight(log_ratio, torch.tensor([[-1.0]])).item(), 4) for log_ratio in (half, one, two)]
    [1.1204, 1.0, 0.1991]
    >>> [round(Vespo().weight(log_ratio, torch.tensor([[1.0]])).item(), 4) for log_ratio in (half, one, two)]
    [0.3398, 1.0, 1.0827]
    """

    from_rollout: ClassVar[bool] = True
    type: Literal["vespo"] = "vespo"
    k_pos: Positive = 2.0  # where A >= 0
    l_pos: Positive = 3.0
    k_neg: Positive = 3.0  # where A < 0
    l_neg: Positive = 2.0

    def weight(self, log_ratio: Float[Tensor, "batch 1"], loss_per_ratio: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return ``phi`` of ``log W``, which is held between -18.4 and 20."""
        log_ratio = log_ratio.clamp(*LOG_RATIOS)
        gains = loss_per_ratio <= 0
        power = torch.where(gains, self.k_pos, self.k_neg)
        decay = torch.where(gains, self.l_pos, self.l_neg)
        return torch.exp(power * log_ratio + decay * (1.0 - log_ratio.exp()))

    def losses(self, log_prob: Tensor, old_log_prob: Tensor, loss_per_ratio: Tensor, on_policy: Tensor) -> Losses:
        with torch.no_grad():
            log_ratio = torch.where(on_policy, log_prob - old_log_prob, 0.0).sum(dim=-1, keepdim=True)
            weight = self.weight(log_ratio, loss_per_ratio)
        return loss_per_ratio * weight * log_prob, None


AnyOnPolicyLoss = Annotated[Ppo | Cispo | Gspo | Gmpo | Sapo | Dppo | Vespo | Reinforce, Field(discriminator="type")]


def _clipped(ratio: Tensor, loss_per_ratio: Tensor, clip: Clip | None) -> Losses:
    losses = loss_per_ratio * ratio
    if clip is None:
        return losses, None
    # Where the clipped loss is the larger one, the ratio is outside the band and the clamp passes no gradient on.
    with torch.no_grad():
        clip_losses = loss_per_ratio * ratio.clamp(*clip.band)
        clipped = clip_losses > losses
    return torch.where(clipped, clip_losses, losses), clipped
