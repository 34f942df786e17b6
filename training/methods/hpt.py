"""HPT: RL or the target, prompt by prompt."""

from training.algorithms.aggregate import Reduce
from training.algorithms.gate import AnyGate, HardGate, group_gate
from training.algorithms.options import Positive, contradiction
from training.algorithms.samples import Samples
from training.later import Tensor, torch
from training.methods.given import Metrics, RunValues
from training.methods.multitask import Multitask


class Hpt(Multitask):
    """HPT (arXiv 2509.04419): RL on prompts that the policy solves, else the target's likelihood."""

    gate: AnyGate = HardGate()
    reduce: Reduce = Reduce(type="seq64-mean-token-sum-norm-occupied")
    skip_grad_norm: Positive | None = 80.0

    def check(self, run: RunValues) -> None:
        super().check(run)
        without = run.n - self.prefix.samples_of(run.n)
        if not without:
            why = "the gate counts successes of on-policy samples, and a group has none"
            raise contradiction("method.gate.type", self.gate.type, "method.prefix.n", self.prefix.n, why)
        if isinstance(self.gate, HardGate) and self.gate.gamma >= without:
            why = f"no group has more successes: {without} of its samples are on-policy"
            raise contradiction("method.gate.gamma", self.gate.gamma, "rollout.n", run.n, why)

    def weights(self, samples: Samples, metrics: Metrics) -> dict[str, Tensor]:
        outcomes = samples.solved.tolist(), samples.index.tolist(), samples.on_policy.tolist()
        policy, imitation = torch.tensor(group_gate(*outcomes, self.gate)).unsqueeze(-1).unbind(1)
        metrics["groups/supervised"] = float(1.0 - policy[samples.sampled].mean())
        gate = torch.where(samples.off_policy_mask, imitation, policy)
        weights = super().weights(samples, metrics)
        gated = {name: weights[name] * gate for name in ("policy", "imitation")}
        kept = {name: weight * (gate > 0) for name, weight in weights.items() if name not in gated}
        return gated | kept | {"kept": (samples.mask & (gate > 0)).float()}
