"""Additional rows for a worker: ReLIFT's targets, and the trajectories that ExGRPO compares."""

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase
from verl.utils import tensordict_utils as tu
from verl.workers.utils.padding import no_padding_2_padding

from core.model.prompts import Example, Template, encode_example, encode_prompt
from training.job.derived_seeds import prompt_id, prompt_key


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


def sft_update_batch(examples: Sequence[Example], ranks: int, temperature: float, entropy_coeff: float) -> TensorDict:
    """Return a batch of one update on ``examples``, for which `training.verl_hooks.loss` has the loss of ReLIFT."""
    batch = example_batch(examples, ranks, temperature)
    tu.assign_non_tensor(
        batch,
        sft_update=True,
        calculate_entropy=entropy_coeff != 0,
        entropy_coeff=entropy_coeff,
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
