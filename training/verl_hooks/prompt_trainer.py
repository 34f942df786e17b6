"""verl's trainer as the tools of a method: which prompts a batch has, how samples start, and rows of its own.

Those rows are targets for supervised updates, and responses with entropies to compare.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
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

from core.model.episodes import Example, encode_episode
from core.model.prompts import Template, encode_prompt
from training.algorithms.derived_seeds import HASHES, prompt_id, prompt_key, stable_hash
from training.algorithms.replay import Trajectory
from training.config.method_keys import of_run
from training.config.to_verl import chat_template
from training.job.records.metrics_log import require_finite
from training.methods.given import Prompt
from training.verl_hooks.batch import OTHERS, PLAN, TARGET_ID


class Problems:
    """The rows of a run's dataset by their `prompt_key`."""

    def __init__(
        self, dataset: Dataset[dict[str, Any]], tokenizer: PreTrainedTokenizerBase, template: Template
    ) -> None:
        self._dataset = dataset
        self._tokenizer = tokenizer
        self._template = template
        self._rows: dict[int, list[int]] = {}
        self._with_target: set[int] = set()  # problems, by their first rows
        for row in range(len(dataset)):  # pyright: ignore[reportArgumentType]
            record = dataset[row]
            rows = self._rows.setdefault(prompt_key(record["raw_prompt"]), [])
            rows.append(row)
            if len(rows) == 1 and record.get("target"):
                self._with_target.add(prompt_key(record["raw_prompt"]))

    def __len__(self) -> int:
        return len(self._rows)

    def keys(self) -> list[int]:
        return list(self._rows)

    def record(self, prompt: int) -> dict[str, Any]:
        """Return the first row of a problem."""
        return self._dataset[self._rows[prompt][0]]

    def other_targets(self, prompt: int, name: str, source: str) -> list[dict[str, Any]]:
        """Return what other rows of a problem have in the place of the target of the row ``name``.

        They come in the order of the rows, from that one on; those of another ``source`` may have another verifier.
        """
        records = [self._dataset[row] for row in self._rows[prompt]]
        own = [prompt_id(record) for record in records].index(name)
        return [
            {column: record.get(column) for column in ("target", "target_log_probs")} | {TARGET_ID: prompt_id(record)}
            for record in records[own + 1 :] + records[:own]
            if record.get("target") and record["data_source"] == source
        ]

    def has_target(self, prompt: int) -> bool:
        return prompt in self._with_target

    def target(self, prompt: int) -> tuple[str, str]:
        """Return the id of the target of a problem, and its source."""
        record = self.record(prompt)
        return prompt_id(record), record["data_source"]

    def example(self, prompt: int) -> Example:
        """Return prompt and target as tokens."""
        record = self.record(prompt)
        return encode_episode(record["raw_prompt"], record["target"], self._tokenizer, self._template)

    def answered(self, prompt: int, path: Trajectory) -> Example:
        """Return the prompt and an earlier response as tokens."""
        conversation = self.record(prompt)["raw_prompt"]
        ids = encode_prompt(conversation, self._tokenizer, self._template)
        return Example(ids, list(path.tokens), list(path.mask))


class PromptTrainer(PPOTrainer):
    """verl's trainer; the method plans the samples of each prompt and chooses prompts. It has most of its tools."""

    dispatched = 0  # prompts that came from the dataset, where rollouts are asynchronous or the method chooses prompts

    def __init__(self, config: Any):
        self.method = of_run(config)
        self.seed = config.seed
        self.n = config.actor_rollout_ref.rollout.n
        self._chosen: list[int] = []  # prompts of the next batch that are not in it yet
        super().__init__(config)

    @cached_property
    def problems(self) -> Problems:
        return Problems(self.train_dataset, self.tokenizer, chat_template(self.config))

    def prompts(self) -> list[int]:
        return self.problems.keys()

    def has_target(self, prompt: int) -> bool:
        return self.problems.has_target(prompt)

    def _next_train_batch(self, num_prompts: int | None = None) -> TensorDict:
        """verl's; each prompt with the plan of its samples, and with its key where the method needs it."""
        if self.method.chooses:
            self._chosen = list(self.method.choose(self, num_prompts or self.config.data.train_batch_size))
        batch = super()._next_train_batch(num_prompts)
        numbers = self._batch_numbers(len(batch))
        prompts = [self._prompt(batch, row, number - 1) for row, number in enumerate(numbers)]
        others = [self._others(prompt, _entry(batch, "data_source", row)) for row, prompt in enumerate(prompts)]
        prompts = [prompt._replace(targets=1 + len(of)) for prompt, of in zip(prompts, others, strict=True)]
        plans = [
            {"starts": [start._asdict() for start in self.method.plan(prompt, self.n)], "prompt": prompt._asdict()}
            | ({OTHERS: of} if of else {})
            for prompt, of in zip(prompts, others, strict=True)
        ]
        batch[PLAN] = NonTensorStack.from_list([NonTensorData(plan) for plan in plans])
        if self.method.by_prompt:
            batch["prompt_key"] = torch.tensor([prompt.key for prompt in prompts])
        return batch

    def _batch_numbers(self, prompts: int) -> list[int]:
        """Return the number of the batch, from 1, that each of the next ``prompts`` is drawn for."""
        return [self.global_steps] * prompts

    def _prompt(self, batch: TensorDict, row: int, step: int) -> Prompt:
        record = {name: _entry(batch, name, row) for name in ("raw_prompt", "extra_info", "target", "pass_rate")}
        target, name = record["target"], prompt_id(record)
        share = self.config.data.sample_target_ratio * HASHES
        used = target is not None and len(target) > 0 and stable_hash(self.seed, name) < share
        rate = record["pass_rate"]
        key = prompt_key(record["raw_prompt"])
        return Prompt(key, name, step, self.seed, used, None if rate is None else float(rate))

    def _others(self, prompt: Prompt, source: str) -> list[dict[str, Any]]:
        """Return the other targets of the problem of ``prompt``, where the method asks for them."""
        return self.problems.other_targets(prompt.key, prompt.name, source) if self.method.all_targets else []

    def _fetch_one_gen_batch(self) -> TensorDict:
        """verl's; a prompt at a time where the method chooses prompts, and those first."""
        if not self.method.chooses:
            return super()._fetch_one_gen_batch()
        if self._chosen:
            return prompt_batch(self.problems.record(self._chosen.pop(0)))
        batch = self._next_prompt()
        # A prompt is in a batch once, as long as there is another one.
        while self.method.skips(prompt_key(batch["raw_prompt"][0]), len(self.problems)):
            batch = self._next_prompt()
        return batch

    def _next_prompt(self) -> TensorDict:
        """Return the dataset's next prompt."""
        if self.dispatched % len(self.train_dataloader) == 0:
            self.method.begin_epoch(len(self.problems), self.config.data.train_batch_size)
        self.dispatched += 1
        return super()._fetch_one_gen_batch()

    @cached_property
    def _ranks(self) -> int:
        """Data-parallel ranks of the actor, which the workers tell at any time: also before they have worked."""
        return max(self.actor_rollout_wg._query_dispatch_info("actor")) + 1

    def entropies(self, answers: Sequence[tuple[int, Trajectory]]) -> list[float]:
        examples = [self.problems.answered(prompt, path) for prompt, path in answers]
        batch = entropy_batch(examples, self._ranks, self.config.actor_rollout_ref.rollout.temperature)
        output = self.actor_rollout_wg.compute_log_prob(batch)
        return mean_entropies(output["entropy"], batch, len(examples))

    def supervised_update(
        self, prompts: Sequence[int], loss: str, coefficients: Mapping[str, float], clip_grad: float
    ) -> dict[str, float]:
        """Make one supervised update on the targets of ``prompts``; its loss and gradient norm."""
        examples = [self.problems.example(prompt) for prompt in prompts]
        temperature = self.config.actor_rollout_ref.rollout.temperature
        batch = sft_update_batch(examples, self._ranks, temperature, loss, coefficients, clip_grad)
        output = reduce_metrics(dict(self.actor_rollout_wg.update_actor(batch)["metrics"]))
        metrics = {name: float(output[name]) for name in ("sft_loss", "grad_norm")}
        require_finite(self.global_steps, metrics, (*metrics,))
        return metrics


def _entry(batch: TensorDict, name: str, row: int) -> Any:
    """Return what a prompt has in a column of the targets; None without such a column."""
    if (column := batch.get(name)) is None:
        return None
    value = column[row]
    return getattr(value, "data", value) if not isinstance(value, torch.Tensor) else value


def prompt_batch(record: dict[str, Any]) -> TensorDict:
    """Return a record of verl's dataset as a batch of one prompt, as its dataloader makes it."""
    uid: Any = np.array([str(uuid4())], dtype=object)  # a field, as the arrays of the dataloader are
    return tu.get_tensordict(collate_fn([record]) | {"uid": uid})


def sft_update_batch(
    examples: Sequence[Example],
    ranks: int,
    temperature: float,
    loss: str,
    coefficients: Mapping[str, float],
    clip_grad: float,
) -> TensorDict:
    """Return a batch of one update on ``examples``, with the ``loss`` of that name."""
    batch = example_batch(examples, ranks, temperature)
    tu.assign_non_tensor(
        batch,
        sft_clip_grad=clip_grad,
        loss=loss,
        coefficients=dict(coefficients),
        counts={"valid": (0.0, len(examples))},
        calculate_entropy=coefficients.get("entropy_loss", 0.0) != 0,
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
    responses = no_padding_2_padding(entropy, batch).float()  # the fused kernel returns bfloat16
    mask = batch["response_mask"].to_padded_tensor(0.0)
    return (torch.where(mask > 0, responses, 0.0).sum(-1)[:examples] / mask.sum(-1)[:examples]).tolist()


def example_batch(examples: Sequence[Example], ranks: int, temperature: float) -> TensorDict:
    """Return ``examples`` as a worker takes them.

    Rows without a token that counts fill the batch up to a multiple of the data-parallel ``ranks``.
    """
    rows = [*examples, *([examples[0]] * (-len(examples) % ranks))]
    masks = [torch.tensor(row.mask) * float(n < len(examples)) for n, row in enumerate(rows)]
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
