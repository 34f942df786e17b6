"""A policy loss for tokens that another policy wrote."""

from training.algorithms.advantage import apply_prefix_weights
from training.algorithms.off_policy import OffPolicyRatio
from training.algorithms.options import Baseline, NotNegative
from training.algorithms.samples import Samples
from training.algorithms.term import Policy
from training.later import Tensor
from training.methods.given import Metrics
from training.methods.on_policy import OnPolicy


class Regularized(OnPolicy):
    """Entropy and divergence are terms of all tokens, or of those that the policy sampled."""

    regularize_on: Baseline = "all_samples"

    def weights(self, samples: Samples, metrics: Metrics) -> dict[str, Tensor]:
        weights = super().weights(samples, metrics)
        if self.regularize_on == "on_policy":
            weights["regular"] = (samples.mask & ~samples.off_policy_mask).float()
        return weights


class OffPolicy(Regularized):
    """Off-policy tokens have a shaped policy loss, and no sampling policy (arXiv 2504.14945, equation 5)."""

    off_policy: OffPolicyRatio = OffPolicyRatio()
    alpha: NotNegative = 1.0  # weight of the advantage of off-policy tokens
    beta: NotNegative = 1.0  # that of on-policy tokens

    @property
    def has_outcomes(self) -> bool:
        return True

    def policy(self) -> Policy:
        return super().policy().model_copy(update={"off": self.off_policy})

    def fields(self) -> list[str]:
        return [*super().fields(), *(["off_policy_log_probs"] if self.off_policy.phi == "recorded" else [])]

    def outcomes(self, samples: Samples, scores: Tensor) -> Tensor:
        return apply_prefix_weights(super().outcomes(samples, scores), samples.off_policy_mask, self.alpha, self.beta)

    def weights(self, samples: Samples, metrics: Metrics) -> dict[str, Tensor]:
        return {name: weight for name, weight in super().weights(samples, metrics).items() if name != "policy"}
