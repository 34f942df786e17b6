"""Which precision of rollouts a run gets, and what bfloat16 costs the log-probabilities of the actor."""

from pathlib import Path

import pytest
import torch
from verl.utils.experimental.torch_functional import FusedLinearForPPO

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


def test_the_noise_of_the_fused_head_is_far_below_the_alarm() -> None:
    """The alarm of rollout_correction/abs_log_ratio_mean is at 0.05; the hidden states and the head are bfloat16."""
    torch.manual_seed(0)
    states, head = torch.randn(1024, 256).bfloat16(), (torch.randn(2048, 256) / 4).bfloat16()
    ids = torch.distributions.Categorical(logits=states.float() @ head.float().T).sample()
    noisy, exact = (FusedLinearForPPO()(states.to(k), head.to(k), ids)[0] for k in (torch.bfloat16, torch.float32))
    assert 0.005 < (noisy.float() - exact).abs().mean() < 0.025
