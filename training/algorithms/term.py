"""The terms of a loss: the losses of tokens, before their weights and before any averaging.

A loss is the sum over its terms of ``coefficient x reduce(weight x losses)``. The weights come with the batch, where
they depend on its samples alone; what depends on the policy as it is being updated, a term computes by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from jaxtyping import Bool, Float
from pydantic import SerializeAsAny

from training.algorithms.correction import keeps_negative
from training.algorithms.imitation import Weight, sft_token_loss
from training.algorithms.off_policy import OffPolicyRatio
from training.algorithms.on_policy import OnPolicyLoss
from training.algorithms.options import Options
from training.algorithms.policy import mixed_policy_token_loss
from training.algorithms.srft import row_entropy
from training.later import Tensor, torch


@dataclass(frozen=True, eq=False)
class LossInputs:
    """The tensors of a micro-batch; the first two are of the policy that is being updated.

    Args:
        tokens: the tokens that have the term.
        valid: the tokens that count at all.
        phi: the probability of each off-policy token under what wrote it; negative where unknown.
        rollout_log_prob: of the rollout engine, when it sampled the tokens.
        from_logits: what `Term.on_logits` returned, by the names of the terms.
    """

    log_prob: Float[Tensor, "batch length"]
    entropy: Float[Tensor, "batch length"] | None
    old_log_prob: Float[Tensor, "batch length"]
    advantages: Float[Tensor, "batch length"]
    ref_log_prob: Float[Tensor, "batch length"] | None
    phi: Float[Tensor, "batch length"] | None
    tokens: Bool[Tensor, "batch length"]
    valid: Bool[Tensor, "batch length"]
    off_policy: Bool[Tensor, "batch length"]
    rollout_log_prob: Float[Tensor, "batch length"] | None = None
    from_logits: Mapping[str, Float[Tensor, "batch length"]] = field(default_factory=dict)

    def row_entropy(self) -> Float[Tensor, "batch 1"]:
        """Return the mean entropy of each row.

        Raises:
            ValueError: the model gave no entropy.
        """
        if self.entropy is None:
            raise ValueError("the term needs the entropy: actor_rollout_ref.actor.calculate_entropy must be true")
        return row_entropy(self.entropy, self.valid)


@dataclass(frozen=True, eq=False)
class LossOutputs:
    """The losses of the tokens, and (sum, count) of the means that a term reports."""

    losses: Float[Tensor, "batch length"]
    stats: Mapping[str, tuple[Tensor, Tensor]] = field(default_factory=dict)


class Term(Options):
    """A term of a loss. ``name``: of its metric; ``stream``: of its weights in the batch."""

    name: ClassVar[str]
    stream: ClassVar[str]
    reads_logits: ClassVar[bool] = False

    def on_logits(self, logits: Tensor, ids: Tensor, log_probs: Tensor) -> Tensor:
        """Return a number for each token, which `losses` then finds in `LossInputs.from_logits`, if it reads logits.

        Args:
            logits: ``[tokens, vocabulary]``, of the policy that is being updated.
            ids: ``[tokens, k]``: the likeliest tokens of the teacher.
            log_probs: ``[tokens, k]``: what the teacher says of them; NaN where it had nothing to see.
        """
        raise NotImplementedError

    def losses(self, x: LossInputs) -> LossOutputs:
        """Return the losses of the tokens."""
        raise NotImplementedError

    def off_policy_weights(self, x: LossInputs) -> Float[Tensor, "batch length"] | None:
        """Return what multiplies the advantage of an off-policy token; None where the term has no advantage."""
        return None


class Policy(Term):
    """The policy loss: ``on`` for on-policy tokens, and ``off`` for off-policy ones, which have none without it."""

    name: ClassVar[str] = "pg_loss"
    stream: ClassVar[str] = "policy"
    on: SerializeAsAny[OnPolicyLoss]
    off: SerializeAsAny[OffPolicyRatio] | None = None
    all_max_clip: float | None = None
    negative_kl: float | None = None  # of `keeps_negative`

    def advantages(self, x: LossInputs) -> Tensor:
        """Return the advantages of the tokens."""
        return x.advantages

    def losses(self, x: LossInputs) -> LossOutputs:
        rollout, advantages = x.rollout_log_prob, self.advantages(x)
        old = rollout if self.on.from_rollout and rollout is not None else x.old_log_prob
        tensors = old, x.log_prob, advantages, x.valid, x.off_policy
        losses, stats = mixed_policy_token_loss(*tensors, self.on, self.off, x.phi, self.all_max_clip)
        if self.negative_kl is not None and rollout is not None:
            kept = keeps_negative(x.log_prob, rollout, advantages, x.valid & ~x.off_policy, self.negative_kl)
            losses = torch.where(kept, losses, 0.0)
        return LossOutputs(losses, stats)

    def off_policy_weights(self, x: LossInputs) -> Tensor:
        return (self.off or OffPolicyRatio()).ratio(x.log_prob, x.phi, x.off_policy)


class EntropyBonus(Term):
    """The entropy of each token, with a negative coefficient."""

    name: ClassVar[str] = "entropy_loss"
    stream: ClassVar[str] = "regular"

    def losses(self, x: LossInputs) -> LossOutputs:
        assert x.entropy is not None
        return LossOutputs(x.entropy)


class Reference(Term):
    """The divergence of each token from a reference policy, by verl's estimator ``type``."""

    name: ClassVar[str] = "kl_loss"
    stream: ClassVar[str] = "regular"
    type: str

    def losses(self, x: LossInputs) -> LossOutputs:
        from verl.trainer.ppo.core_algos import kl_penalty

        assert x.ref_log_prob is not None
        divergence = kl_penalty(x.log_prob, x.ref_log_prob, self.type)  # pyright: ignore[reportArgumentType]
        return LossOutputs(divergence)


class Imitation(Term):
    """The likelihood of the tokens of targets, by `sft_token_loss`."""

    name: ClassVar[str] = "sft_loss"
    stream: ClassVar[str] = "imitation"
    weight: Weight = "one"

    def losses(self, x: LossInputs) -> LossOutputs:
        return LossOutputs(sft_token_loss(x.log_prob, x.tokens, self.weight))


class Loss(NamedTuple):
    """The terms of one kind of update, and how their token losses are reduced to numbers."""

    terms: tuple[Term, ...]
    reduce: str
