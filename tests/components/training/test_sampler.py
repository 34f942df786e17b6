"""Which sampler vLLM takes on a GPU: one that nothing has to be compiled for."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from vllm.v1.sample.ops import topk_topp_sampler as sampler

from evaluation.generation.engine import prepare_environment
from training.config.to_verl import compose_run

SWITCH = "VLLM_USE_FLASHINFER_SAMPLER"
GPU = SimpleNamespace(is_cuda=lambda: True, is_cpu=lambda: False, get_device_capability=lambda: (9, 0))


def test_engines_of_an_evaluation_and_of_a_training_use_vllms_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (SWITCH, "HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK", "VLLM_HOST_IP"):
        monkeypatch.setenv(name, "1")
    monkeypatch.delenv(SWITCH)
    monkeypatch.setattr(sampler, "current_platform", GPU)
    prepare_environment()
    layer = sampler.TopKTopPSampler("raw_logprobs")
    assert layer.forward == layer.forward_native
    assert compose_run("luffy", "gpu", [], run=Path("run")).environment[SWITCH] == "0"
