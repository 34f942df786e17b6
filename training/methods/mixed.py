"""Any method that the options of the section ``mixed`` describe."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pydantic import PrivateAttr
from torch import Tensor

from core.files import read_json, write_json, write_table
from training.algorithms.advantage import apply_prefix_weights, group_advantage, length_penalty
from training.algorithms.correction import rollout_correction
from training.algorithms.derived_seeds import stable_hash
from training.algorithms.methods.distillation import teacher_advantage
from training.algorithms.methods.exgrpo import ReplayStore, Trajectory
from training.algorithms.methods.gate import group_gate
from training.algorithms.methods.relift import UnsolvedPrompts
from training.algorithms.methods.sft import policy_weight, sft_coefficient
from training.algorithms.methods.srft import outcome_advantage
from training.algorithms.off_policy_schedule import OffPolicySchedule
from training.algorithms.options import MixedPolicyOptions
from training.algorithms.samples import Samples, Signal
from training.algorithms.schedules.prefix import prefix_ratio
from training.algorithms.tensors import fit_width
from training.algorithms.term import EntropyBonus, Imitation, Loss, Policy, Reference
from training.methods.method import Method, Metrics, Prompt, Start, Tools

SUPERVISED = "supervised"  # the loss of an update on targets alone
STATE, PATHS = "method.json", "replay.parquet"  # files in the folder of a checkpoint
REPLAY = pa.schema(
    {
        "prompt": pa.int64(),
        "successes": pa.int32(),
        "tokens": pa.list_(pa.int32()),
        "log_probs": pa.list_(pa.float32()),
    }
)


class Mixed(Method):
    """The method that the section ``mixed`` describes."""

    _schedule: OffPolicySchedule = PrivateAttr()
    _unsolved: UnsolvedPrompts = PrivateAttr()
    _store: ReplayStore = PrivateAttr()
    _replayed: Mapping[int, Trajectory] = PrivateAttr(default_factory=dict)  # by the next batch's prompts with one

    def model_post_init(self, context: Any) -> None:
        self._schedule = OffPolicySchedule(self.options.off_policy_schedule)
        self._unsolved = UnsolvedPrompts(self.options.relift.buffer)
        self._store = ReplayStore(self.options.replay, self.run.n)

    @property
    def options(self) -> MixedPolicyOptions:
        return self.run.mixed

    @property
    def schedule(self) -> OffPolicySchedule:
        return self._schedule

    @property
    def by_prompt(self) -> bool:
        return self._schedule.depends or self.options.relift.use or self.options.replay.use

    @property
    def chooses(self) -> bool:
        return self.options.replay.use

    def losses(self) -> dict[str, Loss]:
        options = self.options
        losses = {"policy": Loss((self.policy(), *self._others()), self._reduce)}
        if options.replay.use:
            early = options.before_replay
            losses["clipped"] = Loss((Policy(options=early, by_entropy=False), *self._others()), self._reduce)
        if options.relift.use:
            losses[SUPERVISED] = Loss((Imitation(), EntropyBonus()), "token-mean")
        return losses

    def policy(self) -> Policy:
        """Return the policy loss."""
        return Policy(options=self.options, by_entropy=self.options.srft.use)

    @property
    def _reduce(self) -> str:
        return self.options.loss_agg_mode

    def _others(self) -> list[EntropyBonus | Reference | Imitation]:
        """Return the terms besides the policy loss."""
        supervised, srft = self.options.sft_multitask, self.options.srft
        terms: list[EntropyBonus | Reference | Imitation] = [EntropyBonus()]
        if self.run.kl_loss:
            terms.append(Reference(type=self.run.kl_loss[1]))
        if supervised.use:
            terms.append(Imitation(weight=supervised.weight, srft=srft if srft.use else None))
        return terms

    def fields(self) -> list[str]:
        options = self.options
        optional = {
            "off_policy_log_probs": options.has_teacher_log_probs,
            "responses": options.replay.use,
            "guided": options.shows_prefix,
            "teacher_log_probs": options.distillation.use,
        }
        return [name for name, needed in optional.items() if needed]

    def signal(self, samples: Samples, rewards: Tensor, step: int) -> Signal:
        metrics: dict[str, float] = {}
        advantages = self.advantages(samples, self.scores(samples, rewards, metrics), metrics)
        rows = samples.rows
        ratio_weights, _, measured = rollout_correction(
            rows["old_log_probs"],
            rows["rollout_log_probs"],
            samples.mask,
            samples.off_policy_mask,
            self.options.rollout_correction,
        )
        metrics |= {f"rollout_correction/{name}": value for name, value in measured.items()}
        weights = self.weights(samples, metrics)
        loss = "clipped" if self.options.replay.use and not self._store.started else "policy"
        return Signal(advantages, ratio_weights, weights, self.coefficients(step), metrics, loss)

    def plan(self, prompt: Prompt, n: int) -> list[Start]:
        prefix, replayed = self.options.prefix, self._replayed.get(prompt.key)
        if replayed:
            return [Start(tokens=replayed.tokens, log_probs=replayed.log_probs), *[Start()] * (n - 1)]
        if not prompt.has_target or not self._schedule.applies(prompt.key, prompt.pass_rate):
            return [Start()] * n
        draw = {"n": n, "seed": prompt.seed, "prompt_id": prompt.name}
        ratios = [prefix_ratio(prefix, prompt.step, sample_id=sample, **draw) for sample in range(n)]
        return [Start(ratio, shown=self.options.shows_prefix) for ratio in ratios]

    def begin_epoch(self, prompts: int, batch: int) -> None:
        self._store.start_epoch(prompts, batch)

    def choose(self, tools: Tools, prompts: int) -> list[int]:
        drawn = self._store.draw(prompts, stable_hash(tools.seed, tools.global_steps, "replay"))
        kept = {prompt: self._store.experiences[prompt] for prompt in drawn}
        answers = [(prompt, path.tokens) for prompt, one in kept.items() for path in one.trajectories]
        values = iter(tools.entropies(answers) if answers else ())
        self._replayed = {prompt: one.choose([next(values) for _ in one.trajectories]) for prompt, one in kept.items()}
        return drawn

    def skips(self, prompt: int, prompts: int) -> bool:
        others = len(self._replayed) < prompts - len(self._store.absent)
        return prompt in self._store.absent or (others and prompt in self._replayed)

    def note(self, samples: Samples, tools: Tools) -> Metrics:
        rows, sampled, solved, on_policy = samples.rows, samples.sampled, samples.solved, samples.on_policy
        if self._schedule.depends:
            self._schedule.solve(rows["prompt_key"].tolist(), solved.tolist(), on_policy.tolist())
        if self.options.relift.use:
            able = sampled & torch.tensor(list(map(tools.has_target, rows["prompt_key"].tolist())))
            self._unsolved.add(solved[able].tolist(), rows["prompt_key"][able].tolist(), on_policy[able].tolist())
        if not self.options.replay.use:
            return {}
        for members in samples.groups():
            right = [row for row in members if solved[row]]
            paths = [Trajectory(*samples.trajectory(row)) for row in right if rows["prefix_length"][row] == 0]
            self._store.add(int(rows["prompt_key"][members[0]]), len(right), len(members), paths)
        own = solved[sampled & on_policy].float()
        # The batch after this one is the first that is kept.
        self._store.note_success(float(own.mean()) if len(own) else 0.0)
        return {
            "replay/stored": float(len(self._store.experiences)),
            "replay/retired": float(len(self._store.retired)),
        }

    def after_update(self, tools: Tools) -> Metrics:
        if not self.options.relift.use:
            return {}
        metrics: Metrics = {}
        if prompts := self._unsolved.take():
            figures = tools.supervised_update(prompts, SUPERVISED) | {"targets": float(len(prompts))}
            metrics = {f"relift/{name}": value for name, value in figures.items()}
        return metrics | {"relift/waiting": float(len(self._unsolved.prompts))}

    def save(self, folder: Path) -> None:
        state: dict[str, Any] = {"solved": sorted(self._schedule.solved), "unsolved": self._unsolved.prompts}
        store = self._store
        state |= {"retired": sorted(store.retired), "absent": sorted(store.absent), "replaying": store.started}
        write_json(state, folder / STATE)
        if self.options.replay.use:
            write_table(pa.Table.from_pylist(store.rows(), schema=REPLAY), folder / PATHS)

    def load(self, folder: Path) -> None:
        state, store = read_json(folder / STATE), self._store
        self._schedule.solved.update(state["solved"])
        self._unsolved.prompts = list(state["unsolved"])
        store.retired, store.absent, store.started = set(state["retired"]), set(state["absent"]), state["replaying"]
        if self.options.replay.use:
            store.take(pq.read_table(folder / PATHS, schema=REPLAY).to_pylist())

    def coefficients(self, step: int) -> dict[str, float]:
        """Return the coefficients of the terms in ``step``."""
        supervised, coefficients = self.options.sft_multitask, {"pg_loss": 1.0, "entropy_loss": -self.run.entropy_coeff}
        if self.run.kl_loss:
            coefficients["kl_loss"] = self.run.kl_loss[0]
        if supervised.use:
            coefficients["sft_loss"] = sft_coefficient(supervised, step)
            coefficients["pg_loss"] = policy_weight(supervised, coefficients["sft_loss"])
        return coefficients

    def scores(self, samples: Samples, rewards: Tensor, metrics: dict[str, float]) -> Tensor:
        """Return the score of each sample, less the penalty on long responses."""
        scores = rewards.sum(-1)
        if self.options.length_penalty.use:
            penalty = length_penalty(samples.mask.sum(-1), self.run.limit, self.options.length_penalty)
            generated = (samples.mask & ~samples.off_policy_mask).any(-1)  # nobody could have sampled a shorter target
            scores = scores + penalty * generated
            counted = penalty[samples.sampled & generated]
            metrics["reward/length_penalty"] = float(counted.mean()) if generated.any() else 0.0
        return scores

    def advantages(self, samples: Samples, scores: Tensor, metrics: dict[str, float]) -> Tensor:
        options, rows, mask, off_policy = self.options, samples.rows, samples.mask, samples.off_policy_mask
        advantages = group_advantage(scores, samples.baselines, samples.on_policy, options).unsqueeze(-1) * mask
        advantages = apply_prefix_weights(advantages, off_policy, options.prefix)
        if options.srft.use:
            outcomes = outcome_advantage(samples.solved, options.srft)
            advantages = torch.where(off_policy, advantages, outcomes.unsqueeze(-1) * mask)
        if options.distillation.use:
            teacher, scored = fit_width(rows["teacher_log_probs"], mask.shape[1]), mask & ~off_policy
            if not options.distillation.task_rewards:
                advantages = advantages * off_policy
            advantages = advantages + teacher_advantage(rows["old_log_probs"], teacher, scored, options.distillation)
            if scored.any():
                metrics["distillation/kl"] = float((rows["old_log_probs"] - teacher)[scored].mean())
        return advantages

    def weights(self, samples: Samples, metrics: dict[str, float]) -> dict[str, Tensor]:
        """Return the weights of the tokens by stream."""
        gate = None
        if self.options.gate.type != "none":
            outcomes = samples.solved.tolist(), samples.index.tolist(), samples.on_policy.tolist()
            policy, supervised = torch.tensor(group_gate(*outcomes, self.options.gate)).unsqueeze(-1).unbind(1)
            gate = torch.where(samples.off_policy_mask, supervised, policy)
            metrics["groups/supervised"] = float(1.0 - policy[samples.sampled].mean())
        return stream_weights(self.options, samples.mask, samples.off_policy_mask, gate)


def stream_weights(
    options: MixedPolicyOptions, mask: Tensor, off_policy: Tensor, gate: Tensor | None = None
) -> dict[str, Tensor]:
    """Return the weights of the tokens by stream (`Signal.weights`).

    Args:
        gate: what a token's loss is multiplied by; None without a gate.
    """
    kept = mask if gate is None else mask & (gate > 0)
    factor: Tensor | float = 1.0 if gate is None else gate
    weights = {} if gate is None else {"kept": kept.float()}
    if not options.use_off_policy_loss:
        weights["policy"] = (mask & ~off_policy) * factor
    elif gate is not None:
        weights["policy"] = mask * gate
    if options.sft_multitask.use:
        weights["imitation"] = (mask & off_policy) * factor
    if options.regularize_on == "on_policy":
        weights["regular"] = (kept & ~off_policy).float()
    return weights
