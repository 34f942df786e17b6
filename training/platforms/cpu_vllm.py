"""The vLLM worker extension for the CPU, named by ``rollout.engine_kwargs.vllm.worker_extension_cls``."""

import os
from typing import Any

import torch
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension
from vllm.model_executor.layers import utils as layers

from training.platforms.cpu_sampling import draw_less_noise
from training.platforms.rounding import ROUNDED, round_weight

PRECISION = "TRAINING_ROLLOUT_PRECISION"  # variable that the hardware profile cpu sets


class CPUWorkerExtension(vLLMColocateWorkerExtension):
    """verl's extension, with linear layers that keep their weight.

    On a CPU vLLM drops the weight once it is packed, but verl loads the next weights into it. Its fp8 does not start
    there, so ``rollout_precision`` rounds the weights instead.
    """

    def __new__(cls, **kwargs: Any) -> "CPUWorkerExtension":
        pack = layers.dispatch_cpu_unquantized_gemm
        layers.dispatch_cpu_unquantized_gemm = lambda layer, remove_weight: pack(layer, remove_weight=False)
        draw_less_noise()
        return super().__new__(cls, **kwargs)

    def _update_weights(self, weights: list[tuple[str, torch.Tensor]], *args: Any, **options: Any) -> None:
        if (precision := os.environ[PRECISION]) in ROUNDED:
            # As in verl's fp8: the linear layers of the blocks, not the embedding, the norms and the head.
            weights = [
                (name, round_weight(weight, precision) if ".layers." in name and weight.ndim == 2 else weight)
                for name, weight in weights
            ]
        super()._update_weights(weights, *args, **options)
