"""The vLLM worker extension for the CPU, named by ``rollout.engine_kwargs.vllm.worker_extension_cls``."""

import os
from typing import Any

import torch
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension

from training.platforms import quirks
from training.platforms.rounding import ROUNDED, round_weight

PRECISION = "TRAINING_ROLLOUT_PRECISION"  # variable that the hardware profile cpu sets


class CPUWorkerExtension(vLLMColocateWorkerExtension):
    """verl's extension, which applies the workarounds for vLLM on a CPU.

    vLLM's fp8 does not start there, so ``rollout.precision`` rounds the weights instead.
    """

    def __new__(cls, **kwargs: Any) -> "CPUWorkerExtension":
        quirks.apply(quirks.CPU_VLLM)
        return super().__new__(cls, **kwargs)

    def _update_weights(self, weights: list[tuple[str, torch.Tensor]], *args: Any, **options: Any) -> None:
        if (precision := os.environ[PRECISION]) in ROUNDED:
            # As in verl's fp8: the linear layers of the blocks, not the embedding, the norms and the head.
            weights = [
                (name, round_weight(weight, precision) if ".layers." in name and weight.ndim == 2 else weight)
                for name, weight in weights
            ]
        super()._update_weights(weights, *args, **options)
