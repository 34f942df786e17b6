"""What each worker differentiates: the losses of the trainer's method, which it makes again from its fields."""

import math
from pathlib import Path

import pytest
import torch
from verl.utils import tensordict_utils as tu
from verl.workers.utils.losses import sft_loss

from core.plugins.config_files import RECIPES, config_names
from training.config.method_keys import of_run
from training.config.to_verl import compose_run
from training.methods import method_path
from training.methods.sft import Sft
from training.verl_hooks.loss import losses_of, supervised_loss

MINE = Path(__file__).resolve().parents[3] / "examples/method/tempered/tempered.yaml"


def nested(*rows: list[float]) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)


def test_the_supervised_loss_is_verls() -> None:
    counts = {"batch_num_tokens": 5, "dp_size": 2}
    masks = nested([0, 1, 1], [0, 0, 1, 1])
    data = tu.get_tensordict({"loss_mask": masks, "row": nested([7], [3])}, counts)
    output = {"log_probs": nested([-1.0, -2.0, -4.0], [-8.0, -16.0, -32.0, -64.0])}
    ours, metrics = supervised_loss(method_path("sft"), Sft().model_dump_json(), output, data)
    theirs, _ = sft_loss(None, output, data)
    assert ours.item() == pytest.approx(theirs.item()) == pytest.approx(2 * (1 + 2 + 16 + 32) / 5)
    first, second = [math.exp(-1), math.exp(-2)], [math.exp(-16), math.exp(-32)]
    low = [min(probs) + 0.1 * (max(probs) - min(probs)) for probs in (first, second)]
    expected = [[7, 2, sum(first) / 2, low[0], 3.0], [3, 2, sum(second) / 2, low[1], 48.0]]
    assert [pytest.approx(figures) for figures in expected] == metrics["uses"]


@pytest.mark.parametrize("recipe", [*config_names(RECIPES), str(MINE)])
def test_a_worker_has_the_losses_of_the_trainer(recipe: str) -> None:
    config = compose_run(recipe, "cpu", [], run=Path("run"))
    method = of_run(config)
    assert losses_of(method_path(config.method.type), method.model_dump_json()) == method.losses()
