"""verl's trainer with a choice of the prompts of a batch, and with supervised updates on the targets of some."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import torch
from tensordict import TensorDict
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.metric import reduce_metrics

from training.algorithms.methods.exgrpo import Trajectory
from training.job.configuration import chat_template, mixed_options
from training.job.derived_seeds import Messages, prompt_key, stable_hash
from training.job.records.metrics_log import require_finite
from training.verl_hooks.prompts.experience_replay import prompt_batch, with_replay
from training.verl_hooks.prompts.prompt_sampler import PromptMemory
from training.verl_hooks.prompts.sft_update import Problems, entropy_batch, mean_entropies, sft_update_batch


class PromptTrainer(PPOTrainer):
    """What ``mixed.off_policy_schedule``, ``mixed.relift`` and ``mixed.replay`` need of the trainer."""

    dispatched = 0  # prompts that came from the dataset, with asynchronous rollouts and with mixed.replay

    def __init__(self, config: Any):
        self.options = mixed_options(config)
        self.memory = PromptMemory(self.options, config.actor_rollout_ref.rollout.n)
        super().__init__(config)

    @cached_property
    def problems(self) -> Problems:
        return Problems(self.train_dataset, self.tokenizer, chat_template(self.config))

    def _next_train_batch(self, num_prompts: int | None = None) -> TensorDict:
        """verl's; each prompt with its key and whether its group has off-policy samples, where that is needed."""
        if self.options.replay.use:
            seed = stable_hash(self.config.seed, self.global_steps, "replay")
            self.memory.choose_replayed(num_prompts or self.config.data.train_batch_size, seed, self._entropies)
        batch = super()._next_train_batch(num_prompts)
        if not self.memory.used:
            return batch
        prompts = [prompt_key(messages) for messages in cast("list[Messages]", batch["raw_prompt"])]
        batch["prompt_key"] = torch.tensor(prompts)
        if self.memory.schedule.depends:
            rates = None if self.memory.schedule.below is None else batch["pass_rate"]
            batch["has_off_policy"] = torch.tensor(self.memory.with_off_policy(prompts, rates))
        return batch

    def _fetch_one_gen_batch(self) -> TensorDict:
        """verl's; with replay a prompt at a time, first those that are replayed."""
        if not self.options.replay.use:
            return super()._fetch_one_gen_batch()
        if replayed := self.memory.next_replayed():
            prompt, trajectory = replayed
            return with_replay(prompt_batch(self.problems.record(prompt)), trajectory)
        batch = self._next_prompt()
        # A prompt is in a batch once, as long as there is another one.
        while self.memory.is_spent(prompt_key(batch["raw_prompt"][0]), len(self.problems)):
            batch = self._next_prompt()
        return with_replay(batch, None)

    def _next_prompt(self) -> TensorDict:
        """Return the dataset's next prompt."""
        if self.dispatched % len(self.train_dataloader) == 0:
            self.memory.replay.start_epoch(len(self.problems), self.config.data.train_batch_size)
        self.dispatched += 1
        return super()._fetch_one_gen_batch()

    @property
    def _ranks(self) -> int:
        """Data-parallel ranks of the actor."""
        return max(self.actor_rollout_wg._dispatch_info["actor"]) + 1

    def _entropies(self, trajectories: Sequence[tuple[int, Trajectory]]) -> list[float]:
        """Return the mean entropy of each trajectory under the current policy, with the prompt that it answers."""
        examples = [self.problems.answered(prompt, one.tokens) for prompt, one in trajectories]
        batch = entropy_batch(examples, self._ranks, self.config.actor_rollout_ref.rollout.temperature)
        output = self.actor_rollout_wg.compute_log_prob(batch)
        return mean_entropies(output["entropy"], batch, len(examples))

    def _sft_update(self, prompts: Sequence[int], entropy_coeff: float) -> dict[str, float]:
        """Make one supervised update on the targets of ``prompts``; its metrics."""
        examples = [self.problems.example(prompt) for prompt in prompts]
        temperature = self.config.actor_rollout_ref.rollout.temperature
        batch = sft_update_batch(examples, self._ranks, temperature, entropy_coeff)
        output = reduce_metrics(dict(self.actor_rollout_wg.update_actor(batch)["metrics"]))
        metrics = {f"relift/{name}": float(output[name]) for name in ("sft_loss", "grad_norm")}
        require_finite(self.global_steps, metrics, (*metrics,))
        return metrics | {"relift/targets": float(len(prompts))}
