"""What quantisation leaves of weights, and which precision of rollouts a run gets."""

import doctest
from pathlib import Path

import pytest
import torch

from core.errors import InputError
from training.platforms import rounding
from training.platforms.rounding import round_weight
from training.run.configuration import compose_run


def test_the_examples_are_true():
    failed, tried = doctest.testmod(rounding, extraglobs={"torch": torch})
    assert tried and not failed


@pytest.mark.parametrize(("precision", "error"), [("fp8", 2**-4), ("int4", 1 / 14)])
def test_a_weight_is_rounded_to_values_that_the_precision_has(precision: str, error: float):
    weight = torch.randn(130, 300, generator=torch.Generator().manual_seed(0))  # blocks that are cut at the edges
    before = weight.clone()
    rounded = round_weight(weight, precision)
    assert torch.equal(weight, before) and not torch.equal(rounded, weight)
    # Half of the distance of two values: relative to the weight with a floating point, to the row's largest without.
    size = weight.abs() if precision == "fp8" else weight.abs().amax(dim=1, keepdim=True)
    assert ((rounded - weight).abs() <= size * error * 1.001 + 1e-4).all()
    assert torch.allclose(round_weight(rounded, precision), rounded)
    if precision == "int4":
        assert max(len(row.unique()) for row in rounded) <= 15


def test_zeros_stay_zero():
    assert not round_weight(torch.zeros(3, 4), "fp8").any() and not round_weight(torch.zeros(3, 4), "int4").any()


@pytest.mark.parametrize(
    ("hardware", "precision", "dtype", "quantization"),
    [
        ("cpu", "float32", "float32", None),
        ("cpu", "bfloat16", "bfloat16", None),
        ("cpu", "fp8", "float32", None),  # simulated
        ("gpu_single", None, "bfloat16", None),
        ("gpu_single", "float32", "float32", None),
        ("gpu_multinode", "fp8", "bfloat16", "fp8"),
    ],
)
def test_the_precision_of_rollouts_reaches_vllm(
    hardware: str, precision: str | None, dtype: str, quantization: str | None
):
    chosen = [f"rollout_precision={precision}"] if precision else []
    config = compose_run("luffy", hardware, chosen, run=Path("run"))
    rollout = config.actor_rollout_ref.rollout
    assert (rollout.dtype, rollout.quantization) == (dtype, quantization)
    if hardware == "cpu":
        said = config.environment.TRAINING_ROLLOUT_PRECISION
        assert said == precision


@pytest.mark.parametrize(
    ("hardware", "overrides", "said"),
    [
        ("gpu_single", ["rollout_precision=int4"], "only the CPU's simulation has it: set fp8 or bfloat16"),
        ("gpu_single", ["rollout_precision=fp16"], "expected 'auto', 'float32', 'bfloat16', 'fp8' or 'int4'"),
        ("gpu_single", ["rollout_precision=fp8", "actor_rollout_ref.rollout.quantization=torchao"], "contradict"),
        ("cpu", ["actor_rollout_ref.rollout.dtype=bfloat16"], "rollout_precision says in which precision"),
    ],
)
def test_a_precision_that_a_run_cannot_have_is_refused(hardware: str, overrides: list[str], said: str):
    with pytest.raises(InputError, match=said):
        compose_run("luffy", hardware, overrides, run=Path("run"))
