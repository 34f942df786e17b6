"""What each worker differentiates, and that a new loss and a new recipe take one entry and one file each."""

import math
from pathlib import Path

import pytest
import torch
from updates import update_loss
from verl.utils import tensordict_utils as tu
from verl.workers.utils.losses import sft_loss

from training.algorithms import registry
from training.algorithms.options import LossOptions, MixedPolicyOptions
from training.algorithms.registry import LOSSES, Registry
from training.job import configuration
from training.verl_hooks.loss import supervised_loss


def reinforce_token_loss(old_log_prob, log_prob, advantages, response_mask, off_policy_mask, options: LossOptions):
    """-A log p at every valid token."""
    losses = torch.where(response_mask, -advantages * log_prob, 0.0)
    return losses, {"pg_loss": (losses.detach().sum(), response_mask.sum())}


@pytest.fixture
def reinforce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOSSES, "reinforce", f"{__name__}:reinforce_token_loss")


def nested(*rows: list[float]) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)


def batch() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Two responses, of two tokens (the first off-policy) and of one, after prompts of one and two tokens."""
    data = {
        "prompts": nested([5], [5, 6]),
        "responses": nested([7, 8], [9]),
        "response_mask": nested([1, 1], [1]),
        "old_log_probs": nested([-1.0, -1.0], [-2.0]),
        "advantages": nested([0.5, 0.5], [-1.0]),
        "rollout_is_weights": nested([1.0, 1.0], [2.0]),
        "prefix_length": torch.tensor([1, 0]),
    }
    # Of each token under the model: that of a response's token stands one before it.
    return {"log_probs": nested([-1.0, -3.0, 0.0], [0.0, -2.0, 0.0])}, data


def test_a_registered_loss_is_what_the_worker_differentiates(reinforce: None) -> None:
    output, data = batch()
    options = MixedPolicyOptions(loss="reinforce", prefix={"n_prefix": 1}, sft_multitask={"use": True, "coef": 0.5})
    loss, metrics = update_loss(options, output, data, [2, 1], [1, 0], limit=4)
    policy, supervised = (0.5 * 1 + 0.5 * 3 + 2 * -1.0 * 2) / 3, 1.0
    assert loss.item() == pytest.approx(policy + 0.5 * supervised)
    assert metrics["pg_loss"].aggregate() == pytest.approx(policy)
    assert metrics["sft_loss"].aggregate() == pytest.approx(supervised)


def test_a_recipe_is_one_file(reinforce: None, tmp_path: Path) -> None:
    recipe = tmp_path / "reinforcement.yaml"
    recipe.write_text("defaults:\n  - on_policy\n\nmixed:\n  loss: reinforce\n")
    config = configuration.compose_run(str(recipe), "cpu", [], run=tmp_path)
    options = configuration.mixed_options(config)
    assert (options.loss, options.use_off_policy_loss) == ("reinforce", False)


TABLES = [value for value in vars(registry).values() if isinstance(value, Registry) and value is not registry.TRACKERS]


@pytest.mark.parametrize("table", TABLES)
def test_every_registered_name_has_a_function(table: Registry) -> None:
    assert table and all(callable(table.function(name)) for name in table)
    with pytest.raises(ValueError, match="got 'none of these', expected one of"):
        table.function("none of these")


def test_the_supervised_loss_is_verls() -> None:
    counts = {"batch_num_tokens": 5, "dp_size": 2}
    masks = nested([0, 1, 1], [0, 0, 1, 1])
    data = tu.get_tensordict({"loss_mask": masks, "row": nested([7], [3])}, counts)
    output = {"log_probs": nested([-1.0, -2.0, -4.0], [-8.0, -16.0, -32.0, -64.0])}
    ours, metrics = supervised_loss("one", output, data)
    theirs, _ = sft_loss(None, output, data)
    assert ours.item() == pytest.approx(theirs.item()) == pytest.approx(2 * (1 + 2 + 16 + 32) / 5)
    first, second = [math.exp(-1), math.exp(-2)], [math.exp(-16), math.exp(-32)]
    low = [min(probs) + 0.1 * (max(probs) - min(probs)) for probs in (first, second)]
    expected = [[7, 2, sum(first) / 2, low[0], 3.0], [3, 2, sum(second) / 2, low[1], 48.0]]
    assert [pytest.approx(figures) for figures in expected] == metrics["uses"]
