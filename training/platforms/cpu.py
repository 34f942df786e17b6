"""A CPU platform for verl, which the import registers; `training.platforms.every_process` imports it on a CPU."""

import os
import resource
from contextlib import nullcontext
from typing import Any

import psutil
import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry


class CpuDevice:
    """The functions of ``torch.cuda`` that verl calls, in terms of this process and its host."""

    get_rng_state = staticmethod(torch.get_rng_state)
    set_rng_state = staticmethod(torch.set_rng_state)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def get_device_name(self, *_: Any) -> str:
        return "CPU"

    def empty_cache(self) -> None:
        """A CPU keeps no allocator cache."""

    ipc_collect = reset_peak_memory_stats = reset_accumulated_memory_stats = empty_cache

    def memory_allocated(self, *_: Any) -> int:
        return psutil.Process().memory_info().rss

    memory_reserved = memory_allocated

    def max_memory_allocated(self, *_: Any) -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # ru_maxrss is in KiB

    max_memory_reserved = max_memory_allocated

    def mem_get_info(self, *_: Any) -> tuple[int, int]:
        memory = psutil.virtual_memory()
        return memory.available, memory.total


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    """verl's view of a machine without an accelerator; the hardware profile declares logical "GPU" slots to Ray."""

    device_module: Any = CpuDevice()

    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def vendor_name(self) -> str:
        return "cpu"

    def is_available(self) -> bool:
        return True

    def current_device(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]  callers give it to tensor.to()
        return "cpu"

    def device_count(self) -> int:
        return 1

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def empty_cache(self, *_: Any, **__: Any) -> None:
        """A CPU has no device to switch, no queue of kernels, no cache of memory, and no profiler of its own."""

    set_device = synchronize = set_allocator_settings = profiler_start = profiler_stop = cudart = empty_cache

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False  # weights reach the rollout server through shared memory

    def rollout_env_vars(self) -> dict[str, str]:
        return {
            "TORCHDYNAMO_DISABLE": "1",  # vLLM compiles kernels with g++ (about 25 s) even when eager
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the executor then lives in the engine's process
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        }

    def nvtx_range(self, msg: str) -> Any:
        return nullcontext()
