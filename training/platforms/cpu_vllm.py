"""The vLLM worker extension for the CPU, named by ``rollout.engine_kwargs.vllm.worker_extension_cls``."""

from typing import Any

from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension
from vllm.model_executor.layers import utils as layers


class CPUWorkerExtension(vLLMColocateWorkerExtension):
    """verl's extension, with linear layers that keep their weight.

    On a CPU vLLM drops the weight once it is packed, but verl loads the next weights into it.
    """

    def __new__(cls, **kwargs: Any) -> "CPUWorkerExtension":
        pack = layers.dispatch_cpu_unquantized_gemm
        layers.dispatch_cpu_unquantized_gemm = lambda layer, remove_weight: pack(layer, remove_weight=False)
        return super().__new__(cls, **kwargs)
