"""What every method with rollouts has: a policy loss, the baseline of a group, and what holds the policy."""

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import PrivateAttr

from core.errors import InputError
from training.algorithms.advantage import (
    GroupAdvantage,
    LengthPenalty,
    decoupled_advantage,
    group_advantage,
    length_penalty,
)
from training.algorithms.aggregate import Reduce
from training.algorithms.correction import AnyCorrection, NegativeMask, Uncorrected, rollout_correction
from training.algorithms.groups import Filter
from training.algorithms.on_policy import AnyOnPolicyLoss, Ppo
from training.algorithms.options import Baseline, Positive, contradiction
from training.algorithms.regularize import (
    AdaptiveEntropy,
    AnyEntropy,
    AnyRewardKL,
    ConstantEntropy,
    ReferenceKL,
    next_entropy_coefficient,
)
from training.algorithms.samples import Samples, Signal
from training.algorithms.term import EntropyBonus, Loss, Policy, Reference, Term
from training.later import Tensor
from training.methods.given import Metrics, RunValues
from training.methods.method import Method


class Rollouts(Method):
    """A sample teaches by the distance of its score from the mean of its group."""

    on_policy: AnyOnPolicyLoss = Ppo()
    all_max_clip: Positive | None = None  # tokens with a higher probability have no policy loss
    advantage: GroupAdvantage = GroupAdvantage()
    correction: AnyCorrection = Uncorrected()
    length_penalty: LengthPenalty | None = None
    entropy: AnyEntropy = ConstantEntropy()
    reference: ReferenceKL | None = None
    reward_kl: AnyRewardKL | None = None
    filter: Filter | None = None
    reduce: Reduce = Reduce(type="seq64-mean-token-sum-norm")
    skip_grad_norm: Positive | None = None  # an update with a larger gradient norm is left out
    _entropy_coef: float = PrivateAttr(0.0)  # of this step

    def model_post_init(self, context: Any) -> None:
        self._entropy_coef = self.entropy.coef

    def check(self, run: RunValues) -> None:
        if run.n == 1 and self.by_group:
            raise InputError(
                "actor_rollout_ref.rollout.n=1: the advantage of a sample is its distance from the mean of its group, "
                "so a group of one teaches nothing: set it to 2 or more"
            )
        if run.target_ratio != 1 and not self.off_policy_samples(run.n):
            why = "no sample starts with a target"
            raise contradiction("data.sample_target_ratio", run.target_ratio, "method.prefix", "none", why)

        if self.advantage.rewards and self.length_penalty is not None:
            why = "the penalty is on the score, which is not compared"
            raise contradiction("method.advantage.rewards", "set", "method.length_penalty", "set", why)
        if self.on_policy.from_rollout and not isinstance(self.correction, Uncorrected):
            why = "the loss compares with the rollout engine itself"
            kinds = self.on_policy.type, self.correction.type
            raise contradiction("method.on_policy.type", kinds[0], "method.correction.type", kinds[1], why)

    @property
    def by_group(self) -> bool:
        """Whether a sample teaches by its difference from its group alone."""
        return True

    @property
    def rewards(self) -> Collection[str]:
        return self.advantage.rewards

    @property
    def decide(self) -> Baseline:
        return "all_samples" if self.filter is None else self.filter.by

    def losses(self) -> dict[str, Loss]:
        return {"policy": Loss(tuple(self.terms()), self.reduce.type)}

    def terms(self) -> list[Term]:
        """Return the terms of an update."""
        terms: list[Term] = [self.policy(), EntropyBonus()]
        return terms if self.reference is None else [*terms, Reference(type=self.reference.type)]

    def policy(self) -> Policy:
        """Return the policy loss."""
        mask = self.correction.negative_kl if isinstance(self.correction, NegativeMask) else None
        return Policy(on=self.on_policy, all_max_clip=self.all_max_clip, negative_kl=mask)

    def coefficients(self, step: int) -> dict[str, float]:
        """Return the coefficients of the terms in ``step``."""
        coefficients = {"pg_loss": 1.0, "entropy_loss": -self._entropy_coef}
        return coefficients if self.reference is None else coefficients | {"kl_loss": self.reference.coef}

    def signal(self, samples: Samples, rewards: Tensor, step: int) -> Signal:
        metrics: Metrics = {}
        advantages = self.advantages(samples, self.scores(samples, rewards, metrics), step, metrics)
        rows, masks = samples.rows, (samples.mask, samples.off_policy_mask)
        corrected = rollout_correction(rows["old_log_probs"], rows["rollout_log_probs"], *masks, self.correction)
        metrics |= {f"rollout_correction/{name}": value for name, value in corrected[2].items()}
        weights = self.weights(samples, metrics)
        coefficients, limit = self.coefficients(step), self.skip_grad_norm
        return Signal(advantages, corrected[0], weights, coefficients, metrics, skip_grad_norm=limit)

    def scores(self, samples: Samples, rewards: Tensor, metrics: Metrics) -> Tensor:
        """Return the score of each sample, less the penalty on long responses."""
        scores = rewards.sum(-1)
        metrics |= {f"reward/part/{name}": samples.mean_reward(name) for name in self.rewards}
        if self.length_penalty is None:
            return scores
        penalty = length_penalty(samples.mask.sum(-1), samples.limit, self.length_penalty)
        generated = (samples.mask & ~samples.off_policy_mask).any(-1)  # nobody could have sampled a shorter target
        counted = penalty[samples.sampled & generated]
        metrics["reward/length_penalty"] = float(counted.mean()) if generated.any() else 0.0
        return scores + penalty * generated

    def advantages(self, samples: Samples, scores: Tensor, step: int, metrics: Metrics) -> Tensor:
        """Return the advantage of each token in ``step``."""
        return self.outcomes(samples, scores)

    def outcomes(self, samples: Samples, scores: Tensor) -> Tensor:
        """Return the advantage of each token by the outcome of its sample."""
        groups = samples.baselines, samples.on_policy
        if self.rewards:
            of_rows = decoupled_advantage(samples.rewards, *groups, samples.sampled, self.advantage)
            return of_rows.unsqueeze(-1) * samples.mask
        return group_advantage(scores, *groups, self.advantage).unsqueeze(-1) * samples.mask

    def weights(self, samples: Samples, metrics: Metrics) -> dict[str, Tensor]:
        """Return the weights of the tokens by stream: off-policy tokens have no policy loss."""
        return {"policy": (samples.mask & ~samples.off_policy_mask) * 1.0}

    def end_step(self, metrics: Mapping[str, Any]) -> None:
        if isinstance(self.entropy, AdaptiveEntropy) and "actor/entropy" in metrics:  # a batch can be all off-policy
            self._entropy_coef = next_entropy_coefficient(self._entropy_coef, metrics["actor/entropy"], self.entropy)

    def state(self) -> dict[str, Any]:
        return {"entropy_coef": self._entropy_coef}

    def restore(self, state: dict[str, Any]) -> None:
        self._entropy_coef = float(state["entropy_coef"])
