"""Which precision of rollouts a run gets."""

from pathlib import Path

import pytest

from core.errors import InputError
from training.config.to_verl import compose_run


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
    chosen = [f"rollout.precision={precision}"] if precision else []
    config = compose_run("luffy", hardware, chosen, run=Path("run"))
    rollout = config.actor_rollout_ref.rollout
    assert (rollout.dtype, rollout.quantization) == (dtype, quantization)
    if hardware == "cpu":
        said = config.environment.TRAINING_ROLLOUT_PRECISION
        assert said == precision


@pytest.mark.parametrize(
    ("hardware", "overrides", "said"),
    [
        ("gpu_single", ["rollout.precision=int4"], "only the CPU's simulation has it: set fp8 or bfloat16"),
        ("gpu_single", ["rollout.precision=fp8", "actor_rollout_ref.rollout.quantization=torchao"], "contradict"),
        ("cpu", ["actor_rollout_ref.rollout.dtype=bfloat16"], "use rollout.precision"),
    ],
)
def test_a_precision_that_a_run_cannot_have_is_refused(hardware: str, overrides: list[str], said: str):
    with pytest.raises(InputError, match=said):
        compose_run("luffy", hardware, overrides, run=Path("run"))
