"""verl's trainer with a choice of the prompts of a batch, and with additional rows for its workers.

Those rows are the targets from which ReLIFT learns, and the trajectories that ExGRPO compares.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast
from uuid import uuid4

import numpy as np
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.rl_dataset import collate_fn
from verl.utils.metric import reduce_metrics
from verl.workers.utils.padding import no_padding_2_padding

from core.model.prompts import Example, Template, encode_example, encode_prompt
from training.algorithms.methods.exgrpo import Trajectory
from training.job.configuration import chat_template, method_of, mixed_options
from training.job.derived_seeds import Messages, prompt_id, prompt_key, stable_hash
from training.job.records.metrics_log import require_finite
from training.methods.mixed import SUPERVISED
from training.verl_hooks.prompts.prompt_sampler import PromptMemory


class Problems:
    """The rows of a run's dataset by their `prompt_key`: of a problem with several rows the first."""

    def __init__(
        self, dataset: Dataset[dict[str, Any]], tokenizer: PreTrainedTokenizerBase, template: Template
    ) -> None:
        self._dataset, self._tokenizer, self._template = dataset, tokenizer, template
        self._rows: dict[int, int] = {}
        self._with_target: set[int] = set()
        for row in range(len(dataset)):  # pyright: ignore[reportArgumentType]
            record = dataset[row]
            if (prompt := prompt_key(record["raw_prompt"])) not in self._rows:
                self._rows[prompt] = row
                if record.get("target"):
                    self._with_target.add(prompt)

    def __len__(self) -> int:
        return len(self._rows)

    def record(self, prompt: int) -> dict[str, Any]:
        """Return the row of a problem."""
        return self._dataset[self._rows[prompt]]

    def has_target(self, prompt: int) -> bool:
        return prompt in self._with_target

    def target(self, prompt: int) -> tuple[str, str]:
        """Return the id of the target of a problem, and its source."""
        record = self.record(prompt)
        return prompt_id(record), record["data_source"]

    def example(self, prompt: int) -> Example:
        """Return prompt and target as tokens."""
        record = self.record(prompt)
        return encode_example(record["raw_prompt"], record["target"][0]["content"], self._tokenizer, self._template)

    def answered(self, prompt: int, response: Sequence[int]) -> Example:
        """Return the prompt and a ``response`` as tokens."""
        conversation = self.record(prompt)["raw_prompt"]
        return Example(encode_prompt(conversation, self._tokenizer, self._template), list(response))


class PromptTrainer(PPOTrainer):
    """What ``mixed.off_policy_schedule``, ``mixed.relift`` and ``mixed.replay`` need of the trainer."""

    dispatched = 0  # prompts that came from the dataset, with asynchronous rollouts and with mixed.replay

    def __init__(self, config: Any):
        self.options, self.method = mixed_options(config), method_of(config)
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

    @cached_property
    def _ranks(self) -> int:
        """Data-parallel ranks of the actor, which the workers tell at any time: also before they have worked."""
        return max(self.actor_rollout_wg._query_dispatch_info("actor")) + 1

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


def with_replay(batch: TensorDict, trajectory: Trajectory | None) -> TensorDict:
    """Return ``batch`` of one prompt with ``trajectory`` as its first sample; None: it is generated as usual."""
    content = {} if trajectory is None else {"tokens": trajectory.tokens, "log_probs": trajectory.log_probs}
    batch["replay"] = NonTensorStack.from_list([NonTensorData(content)])
    return batch


def prompt_batch(record: dict[str, Any]) -> TensorDict:
    """Return a record of verl's dataset as a batch of one prompt, as its dataloader makes it."""
    uid: Any = np.array([str(uuid4())], dtype=object)  # a field, as the arrays of the dataloader are
    return tu.get_tensordict(collate_fn([record]) | {"uid": uid})


def sft_update_batch(examples: Sequence[Example], ranks: int, temperature: float, entropy_coeff: float) -> TensorDict:
    """Return a batch of one update on ``examples``, for which `training.verl_hooks.loss` has the loss of ReLIFT."""
    batch = example_batch(examples, ranks, temperature)
    tu.assign_non_tensor(
        batch,
        sft_update=True,
        loss=SUPERVISED,
        coefficients={"sft_loss": 1.0, "entropy_loss": -entropy_coeff},
        counts={"valid": (0.0, len(examples))},
        calculate_entropy=entropy_coeff != 0,
        global_batch_size=len(batch),
        mini_batch_size=len(batch),
    )
    return batch


def entropy_batch(examples: Sequence[Example], ranks: int, temperature: float) -> TensorDict:
    """Return a batch of which a worker computes the entropies without a loss; `mean_entropies` reads them."""
    batch = example_batch(examples, ranks, temperature)
    tu.assign_non_tensor(batch, calculate_entropy=True, compute_loss=False)
    return batch


def mean_entropies(entropy: torch.Tensor, batch: TensorDict, examples: int) -> list[float]:
    """Return the mean entropy over the response of each of the first ``examples`` rows of an `entropy_batch`, in nats.

    Args:
        entropy: Entropy of the next token at each token of a row, as a worker returns it.
    """
    responses = no_padding_2_padding(entropy, batch)
    mask = batch["response_mask"].to_padded_tensor(0.0)
    return ((responses * mask).sum(-1)[:examples] / mask.sum(-1)[:examples]).tolist()


def example_batch(examples: Sequence[Example], ranks: int, temperature: float) -> TensorDict:
    """Return ``examples`` as a worker takes them.

    Rows without a token that counts fill the batch up to a multiple of the data-parallel ``ranks``.
    """
    rows = [*examples, *([examples[0]] * (-len(examples) % ranks))]
    masks = [torch.full((len(row.response),), float(n < len(examples))) for n, row in enumerate(rows)]
    sequences = [torch.tensor(row.prompt + row.response) for row in rows]
    fields: dict[str, list[torch.Tensor]] = {
        "prompts": [torch.tensor(row.prompt) for row in rows],
        "responses": [torch.tensor(row.response) for row in rows],
        "input_ids": sequences,
        "position_ids": [torch.arange(len(ids)) for ids in sequences],
        "response_mask": masks,
        "loss_mask": masks,
    }
    nested: dict[str, Any] = {
        name: torch.nested.as_nested_tensor(values, layout=torch.jagged) for name, values in fields.items()
    }
    return tu.get_tensordict(nested, {"temperature": temperature})
