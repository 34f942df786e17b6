"""The example's method, and the recipe that names it, by path and as an installed package."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RECIPE = HERE / "tempered" / "tempered.yaml"
SHOW = """
import sys
from pathlib import Path
from training.config.method_keys import of_run
from training.config.to_verl import compose_run
config = compose_run(sys.argv[1], "cpu", ["method.power=0.25"], run=Path("run"))
print(config.method.type, of_run(config).power, config.method.prefix.n)
"""


def test_the_method_weighs_target_tokens_by_a_power_of_their_probability() -> None:
    torch = pytest.importorskip("torch", reason="a method needs torch, which the training environment has")
    from examples.method.tempered.method import Tempered
    from training.algorithms.term import LossInputs

    log_prob = torch.tensor([[0.25, 0.5], [0.25, 0.5]]).log().requires_grad_()
    old, advantages = log_prob.detach() - torch.log(torch.tensor(2.0)), torch.tensor([[2.0, 2.0], [-1.0, -1.0]])
    valid = torch.tensor([[True, True], [True, False]])
    target = torch.tensor([[True, True], [False, False]])
    method = Tempered(power=0.5)
    policy, *_ = method.losses()["policy"].terms
    outputs = policy.losses(LossInputs(log_prob, None, old, advantages, None, None, valid, valid, target))
    torch.testing.assert_close(outputs.losses, torch.tensor([[-2 * 0.25**0.5, -2 * 0.5**0.5], [2.0, 0.0]]))
    total, count = outputs.stats["target_weight"]
    assert (total.item(), count.item()) == (pytest.approx(0.25**0.5 + 0.5**0.5), 2)


@pytest.mark.parametrize("installed", [False, True])
def test_the_recipe_is_found_by_its_path_and_by_its_name(
    installed: bool, install: Callable[[str], dict[str, str]], python: Callable[..., str], tmp_path: Path
) -> None:
    pytest.importorskip("omegaconf", reason="a configuration is composed in the training environment")
    environment = install("method") if installed else {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
    recipe, folder = ("tempered", tmp_path / "installed") if installed else (str(RECIPE), HERE)
    shown = python("-c", SHOW, recipe, env=environment)
    assert shown.split() == [
        f"{folder}/tempered/method.py:Tempered",
        "0.25",
        "1",
    ]
