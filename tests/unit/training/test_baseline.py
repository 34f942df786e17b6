"""The audit of the baselines: supervised updates do not depend on their cut, and each published fault is noticed."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM
from verl.utils import tensordict_utils as tu

from core.files import write_json
from core.model.base_model import SHIPPED
from core.model.episodes import Example
from research.baseline.audit import Difference, difference
from research.baseline.plain import share, train
from research.baseline.setting import Cut, Request, Setting, write_targets
from training.methods import method_of, method_path
from training.verl_hooks.loss import supervised_loss

SETTING = Setting(steps=4, batch=16)
Share = Callable[[Any, list[Example], int], Tensor]


def ours(model: Any, rows: list[Example], tokens: int) -> Tensor:
    """The share of a micro-batch by the loss of the workers, packed as verl's engine packs it."""
    log_probs = []
    for row in rows:
        ids = torch.tensor([[*row.prompt, *row.response]])
        values = model(input_ids=ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None]).squeeze(-1)
        log_probs.append(torch.cat([values, values.new_zeros(1)]))
    masks = [torch.tensor([0] * len(row.prompt) + [1] * len(row.response)) for row in rows]
    jagged = partial(torch.nested.as_nested_tensor, layout=torch.jagged)
    columns = {"loss_mask": jagged(masks), "row": jagged([torch.tensor([0]) for _ in rows])}
    data = tu.get_tensordict(columns, {"dp_size": 1, "batch_num_tokens": tokens})
    method = method_of({"type": "sft"})
    loss, _ = supervised_loss(method_path("sft"), method.model_dump_json(), {"log_probs": jagged(log_probs)}, data)
    return loss


def mean_of_means(model: Any, rows: list[Example], tokens: int) -> Tensor:
    return share(model, rows, sum(len(row.response) for row in rows)) / 4


def not_divided(model: Any, rows: list[Example], tokens: int) -> Tensor:
    return share(model, rows, sum(len(row.response) for row in rows))


def padding_counted(model: Any, rows: list[Example], tokens: int) -> Tensor:
    return share(model, rows, 4 * len(rows) * max(len(row.response) for row in rows))


class LastDropped:
    """Every fourth micro-batch has no loss."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, model: Any, rows: list[Example], tokens: int) -> Tensor:
        self.seen += 1
        return share(model, rows, tokens) * (self.seen % 4 != 0)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> list[Example]:
    folder = tmp_path_factory.mktemp("audit")
    targets = write_targets(folder / "targets.parquet")
    return Request(str(targets), str(SHIPPED), str(folder), Cut(), SETTING).examples()


def trained(folder: Path, examples: list[Example], accumulation: int, share: Share) -> Path:
    model = AutoModelForCausalLM.from_pretrained(SHIPPED, dtype=torch.float32)
    updates = train(model.train(), SETTING.batches(examples), accumulation, SETTING, share)
    model.save_pretrained(folder / "policy")
    write_json(updates, folder / "updates.json")
    return folder


@pytest.fixture(scope="module")
def reference(examples: list[Example], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("reference"), examples, 1, share)


@pytest.mark.parametrize("accumulation", [1, 4, 16])
def test_our_updates_are_those_of_plain_torch(
    accumulation: int, reference: Path, examples: list[Example], tmp_path: Path
) -> None:
    apart = difference(reference, trained(tmp_path, examples, accumulation, ours), SHIPPED)
    assert apart.loss < 1e-5 and apart.grad_norm < 1e-5 and apart.weights < 1e-3, apart


@pytest.mark.parametrize("fault", [mean_of_means, not_divided, padding_counted, LastDropped()])
def test_each_published_fault_of_accumulation_is_noticed(
    fault: Share, reference: Path, examples: list[Example], tmp_path: Path
) -> None:
    apart: Difference = difference(reference, trained(tmp_path, examples, 4, fault), SHIPPED)
    assert apart.loss > 1e-2 and apart.grad_norm > 1e-2, apart
