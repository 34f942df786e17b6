"""The supervised steps of ReLIFT between updates by RL: the targets, and the batch that is learned from."""

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase
from verl.utils import tensordict_utils as tu

from core.model.prompts import Example, Template, encode_example
from training.verl_hooks.derived_seeds import prompt_key


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
        """The row of a problem."""
        return self._dataset[self._rows[prompt]]

    def has_target(self, prompt: int) -> bool:
        return prompt in self._with_target

    def example(self, prompt: int) -> Example:
        """Prompt and target as tokens."""
        record = self.record(prompt)
        return encode_example(record["raw_prompt"], record["target"][0]["content"], self._tokenizer, self._template)


def sft_update_batch(examples: Sequence[Example], ranks: int, temperature: float, entropy_coeff: float) -> TensorDict:
    """A batch of one update on ``examples``, for which `training.verl_hooks.loss` has the loss of ReLIFT.

    Rows without a token that counts fill it up to a multiple of the data-parallel ``ranks``.
    """
    rows = [*examples, *([examples[0]] * (-len(examples) % ranks))]
    masks = [torch.full((len(row.response),), float(n < len(examples))) for n, row in enumerate(rows)]
    sequences = [torch.tensor(row.prompt + row.response) for row in rows]
    fields = {
        "prompts": [torch.tensor(row.prompt) for row in rows],
        "responses": [torch.tensor(row.response) for row in rows],
        "input_ids": sequences,
        "position_ids": [torch.arange(len(ids)) for ids in sequences],
        "response_mask": masks,
        "loss_mask": masks,
    }
    nested = {name: torch.nested.as_nested_tensor(values, layout=torch.jagged) for name, values in fields.items()}
    return tu.get_tensordict(
        nested,
        {
            "sft_update": True,
            "calculate_entropy": entropy_coeff != 0,
            "entropy_coeff": entropy_coeff,
            "global_batch_size": len(rows),
            "mini_batch_size": len(rows),
            "temperature": temperature,
        },
    )
