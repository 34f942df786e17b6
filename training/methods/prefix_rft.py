"""Prefix-RFT: the beginning of a target is learned as the policy's own tokens are."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import Field

from training.algorithms.advantage import GroupAdvantage
from training.algorithms.aggregate import Reduce
from training.algorithms.policy import surest
from training.algorithms.prefix import AnyPrefix, Cosine
from training.algorithms.samples import Samples
from training.algorithms.term import LossInputs, LossOutputs, Policy
from training.later import Tensor, torch
from training.methods.given import Metrics
from training.methods.guided import Guided


class PrefixPolicy(Policy):
    """The loss of on-policy tokens for all; the prefix tokens of which the policy is surest have the advantage 0."""

    keep_entropy: float

    def losses(self, x: LossInputs) -> LossOutputs:
        assert x.entropy is not None
        dropped = surest(x.entropy, x.valid & x.off_policy, 1.0 - self.keep_entropy)
        advantages = torch.where(dropped, 0.0, x.advantages)
        return super().losses(replace(x, advantages=advantages, off_policy=torch.zeros_like(x.off_policy)))

    def off_policy_weights(self, x: LossInputs) -> Tensor:
        return torch.exp(x.log_prob - x.old_log_prob)


class PrefixRft(Guided):
    """Prefix-RFT (arXiv 2507.01679): one sample of a group continues a part of the target.

    The policy's own samples have the advantage ``r - mean(own)``. Of the sample with a prefix, the prefix has that,
    too, and the continuation, which is alone in its group, ``r``. The source is ZeroYuHuang/prefix_rft.
    """

    needs: ClassVar[Mapping[str, Any]] = {"actor_rollout_ref.actor.calculate_entropy": True}

    prefix: AnyPrefix = Cosine(n=1, min=0.05, max=0.95, steps=500)
    advantage: GroupAdvantage = GroupAdvantage(baseline="on_policy")
    reduce: Reduce = Reduce(type="token-mean")
    keep_entropy: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2  # share of a prefix that is learned: the least sure

    def policy(self) -> PrefixPolicy:
        return PrefixPolicy(**dict(super().policy()), keep_entropy=self.keep_entropy)

    def outcomes(self, samples: Samples, scores: Tensor) -> Tensor:
        continued = (samples.rows["prefix_length"] > 0).unsqueeze(-1) & samples.mask & ~samples.off_policy_mask
        return torch.where(continued, scores.unsqueeze(-1), super().outcomes(samples, scores))

    def weights(self, samples: Samples, metrics: Metrics) -> dict[str, Tensor]:
        return {name: weight for name, weight in super().weights(samples, metrics).items() if name != "policy"}
