"""The terms of a loss: the losses of tokens, before their weights and before any averaging.

A loss is the sum over its terms of ``coefficient x reduce(weight x losses)``. The weights come with the batch, where
they depend on its samples alone; what depends on the policy as it is being updated, a term computes by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from training.algorithms.methods.sft import sft_token_loss
from training.algorithms.methods.srft import entropy_advantage, row_entropy, supervised_scale
from training.algorithms.mixed_loss import mixed_policy_token_loss, off_policy_ratio
from training.algorithms.options import LossOptions, Options, SRFTOptions


@dataclass(frozen=True, eq=False)
class LossInputs:
    """The tensors of a micro-batch; the first two are of the policy that is being updated.

    Args:
        tokens: the tokens that have the term.
        valid: the tokens that count at all.
        phi: the probability of each off-policy token under what wrote it; negative where unknown.
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

    def losses(self, x: LossInputs) -> LossOutputs:
        """Return the losses of the tokens."""
        raise NotImplementedError

    def off_policy_weights(self, x: LossInputs) -> Float[Tensor, "batch length"] | None:
        """Return what multiplies the advantage of an off-policy token; None where the term has no advantage."""
        return None


class Policy(Term):
    """The policy loss. ``by_entropy``: the advantages of right on-policy samples are multiplied by ``e^H`` (SRFT)."""

    name: ClassVar[str] = "pg_loss"
    stream: ClassVar[str] = "policy"
    options: LossOptions
    by_entropy: bool = False

    def losses(self, x: LossInputs) -> LossOutputs:
        advantages = entropy_advantage(x.advantages, x.off_policy, x.row_entropy()) if self.by_entropy else x.advantages
        tensors = x.old_log_prob, x.log_prob, advantages, x.valid, x.off_policy
        return LossOutputs(*mixed_policy_token_loss(*tensors, self.options, x.phi))

    def off_policy_weights(self, x: LossInputs) -> Tensor:
        return off_policy_ratio(x.log_prob, x.phi, x.off_policy, self.options)


class EntropyBonus(Term):
    """The entropy of each token, whose coefficient is negative."""

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
    """The likelihood of the tokens of targets, by `sft_token_loss`; ``srft``: with a factor by each row's entropy."""

    name: ClassVar[str] = "sft_loss"
    stream: ClassVar[str] = "imitation"
    weight: str = "one"
    srft: SRFTOptions | None = None

    def losses(self, x: LossInputs) -> LossOutputs:
        losses = sft_token_loss(x.log_prob, x.tokens, self.weight)
        return LossOutputs(losses if self.srft is None else losses * supervised_scale(x.row_entropy(), self.srft))


class Loss(NamedTuple):
    """The terms of one kind of update, and how their token losses are reduced to numbers."""

    terms: tuple[Term, ...]
    reduce: str
