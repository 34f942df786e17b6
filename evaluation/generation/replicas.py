"""Generate on several engines of one or more GPUs, each a Ray actor, on this node or a whole cluster.

Ray places, starts and watches the actors. A sample does not depend on the replica that draws it. ``RAY_ADDRESS``, which
every job of a Ray cluster has, names a running cluster; without it, one of this node starts and ends with this process.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.machine.loopback import single_node_environment
from core.machine.processor import computes_on_cpu
from core.machine.temporary_folder import shorten_temporary_folder
from core.model.weights import bfloat16_bytes
from core.plugins.user_code import python_path
from evaluation.generation.engine import Engine, EngineOptions, EngineRequest, attention_heads
from evaluation.generation.episodes import EpisodeEngine
from evaluation.generation.requests import Completion

WEIGHTS_SHARE = 0.6  # share of a GPU's memory; the rest is for keys and values, activations and graphs
GPU_SECONDS = 1800.0  # how long a GPU of a cluster may take to become free, or its node to start
# Of the processes that Ray starts for us; in a job of a cluster, ray.init may not say again what the job has said.
ENVIRONMENT = {"env_vars": {"PYTHONPATH": python_path(), "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}}


@dataclass(frozen=True)
class Replicas:
    """How many engines draw the samples, and how many GPUs each of them has."""

    count: int
    tensor_parallel: int


class SharedGroups:
    """The groups of requests that no engine has taken yet; every engine iterates over it."""

    def __init__(self, groups: Sequence[Sequence[EngineRequest]]) -> None:
        from ray.util.queue import Queue

        self._queue = Queue(actor_options={"num_cpus": 0, "runtime_env": ENVIRONMENT})
        self._queue.put_nowait_batch(groups)

    def __iter__(self) -> Iterator[Sequence[EngineRequest]]:
        from ray.util.queue import Empty

        while True:
            try:
                yield self._queue.get_nowait()
            except Empty:
                return


def plan_replicas(
    model: str, count: int | None, tensor_parallel: int | None, *, trust_remote_code: bool = False
) -> Replicas:
    """Start engines for ``model`` on the GPUs here. None: as few GPUs per engine as the weights need, and all GPUs.

    Raises InputError for a number that the machine, or the cluster, or the model does not allow.
    """
    if wrong := [
        name for name, n in (("replicas", count), ("tensor_parallel", tensor_parallel)) if n is not None and n < 1
    ]:
        raise InputError(f"{wrong[0]}: expected 1 or more")
    if computes_on_cpu():
        if (tensor_parallel or 1) > 1:
            raise InputError(
                f"tensor_parallel: {tensor_parallel} GPUs per engine, and torch here is a CPU build: leave it out"
            )
        return Replicas(count or 1, 1)
    memory = _memory_of_a_gpu()
    nodes = _gpus_per_node()
    heads = attention_heads(model, trust_remote_code=trust_remote_code)
    parallel = tensor_parallel or fewest_gpus(bfloat16_bytes(Path(model)), heads, memory, max(nodes))
    if heads % parallel:
        raise InputError(f"tensor_parallel: {parallel} does not divide the {heads} attention heads of {model}")
    return Replicas(count or max(1, sum(gpus // parallel for gpus in nodes)), parallel)  # an engine stays on a node


def _on_cluster() -> bool:
    return bool(os.environ.get("RAY_ADDRESS"))


def _memory_of_a_gpu() -> int:
    """Return the memory of the smallest GPU here, or of a free one of the cluster, for which it waits, in bytes."""

    def smallest() -> int:
        import torch

        numbers = range(torch.cuda.device_count())
        return min((torch.cuda.get_device_properties(number).total_memory for number in numbers), default=0)

    if not _on_cluster():
        if not (memory := smallest()):
            raise InputError("no GPU is here (torch sees none): set interpreter.backend, or use the CPU environment")
        return memory
    import ray

    _connect()
    memory = ray.remote(num_gpus=1, num_cpus=0, runtime_env=ENVIRONMENT)(smallest).remote()
    try:
        return ray.get(memory, timeout=GPU_SECONDS)
    except ray.exceptions.GetTimeoutError:
        raise InputError(
            f"RAY_ADDRESS={os.environ['RAY_ADDRESS']}: no GPU of the cluster became free in {GPU_SECONDS / 60:.0f} "
            "minutes: see `ray status` there"
        ) from None


def _gpus_per_node() -> list[int]:
    if not _on_cluster():
        import torch

        return [torch.cuda.device_count()]
    import ray

    return [int(node["Resources"].get("GPU", 0)) for node in ray.nodes() if node["Alive"]]


def _connect(replicas: int = 1) -> None:
    shorten_temporary_folder()
    import ray

    if ray.is_initialized():
        return
    os.environ.update(single_node_environment())
    start: dict[str, Any] = {}
    if not _on_cluster():
        cpus = max(replicas, os.cpu_count() or 1) if computes_on_cpu() else None
        start = {"num_cpus": cpus, "include_dashboard": False}
    ray.init(log_to_driver=False, **start)


def fewest_gpus(weights: int, heads: int, memory: int, gpus: int) -> int:
    """Return the smallest number of GPUs, of ``memory`` bytes each, with ``weights`` bytes in their `WEIGHTS_SHARE`.

    >>> fewest_gpus(65 << 30, heads=40, memory=80 << 30, gpus=8)
    2

    Raises InputError if even all of them are too few.
    """
    for parallel in range(1, gpus + 1):
        if heads % parallel == 0 and weights <= WEIGHTS_SHARE * memory * parallel:
            return parallel
    raise InputError(
        f"the weights take {weights / 2**30:.0f} GiB in bfloat16, and {gpus} GPUs of {memory / 2**30:.0f} GiB are "
        f"too few: at most {WEIGHTS_SHARE:.0%} of their memory is for weights; use more GPUs or a smaller model"
    )


def complete_all(
    options: EngineOptions, groups: Sequence[Sequence[EngineRequest]], replicas: int
) -> Iterator[tuple[int, Completion]]:
    """Yield (number, completion) of each request as it finishes; outside a cluster, one replica runs in this process.

    ``groups`` hold the requests of a prompt, which share its computation. An engine takes the next group when it has
    room, so that a long response holds up nothing but itself. Raises InputError if Ray has too few GPUs.
    """
    engine_type = EpisodeEngine if options.tools else Engine
    if replicas == 1 and not _on_cluster():
        yield from engine_type(options).complete(groups)
        return
    import ray

    started = not ray.is_initialized()
    _connect(replicas)
    try:
        device, needed = ("CPU", 1) if computes_on_cpu() else ("GPU", options.tensor_parallel)
        if (available := int(ray.cluster_resources().get(device, 0))) < replicas * needed:  # Ray would wait forever
            raise InputError(
                f"replicas: {replicas} engines need {needed} {device} each, and Ray has {available}; ask for fewer"
            )
        gpus = 0 if computes_on_cpu() else needed
        actor = ray.remote(num_cpus=1, num_gpus=gpus, runtime_env=ENVIRONMENT)(engine_type)
        # Half of an equal share at a time: the other half goes to whichever engine is done first.
        share = max(1, sum(map(len, groups)) // (2 * replicas))
        engines = [actor.remote(replace(options, fair_share=share)) for _ in range(replicas)]
        remaining = SharedGroups(groups)
        streams = [engine.complete.options(num_returns="streaming").remote(remaining) for engine in engines]
        while streams:
            ready, _ = ray.wait(streams, num_returns=1)
            for stream in ready:
                try:
                    yield ray.get(next(stream))
                except StopIteration:
                    streams.remove(stream)
    finally:
        if started:
            ray.shutdown()
