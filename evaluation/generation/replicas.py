"""Data-parallel generation: one engine per GPU, each a Ray actor, on this node or a whole cluster.

Ray places, starts and watches the actors. A sample does not depend on the replica that draws it.
"""

import os
from collections.abc import Iterator, Sequence

from core.code import PROJECT
from core.errors import InputError
from core.loopback import single_node_environment
from evaluation.generation.engine import Engine, EngineOptions, EngineRequest, on_cpu
from evaluation.generation.requests import Completion


def gpu_count() -> int:
    """GPUs that this process may use; 0 where torch is a CPU build."""
    import torch

    return 0 if on_cpu() else torch.cuda.device_count()


def complete_all(
    options: EngineOptions, requests: Sequence[EngineRequest], replicas: int
) -> Iterator[tuple[int, Completion]]:
    """(number, completion) of each request as it finishes; one replica runs in this process, without Ray.

    Raises InputError if Ray has fewer GPUs than replicas.
    """
    if replicas == 1:
        yield from Engine(options).complete(requests)
        return
    os.environ.update(single_node_environment())
    import ray

    # RAY_ADDRESS names a running cluster; without it, one of this node starts and ends with this process.
    started = not ray.is_initialized()
    if started:
        environment = {
            "env_vars": {"PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        }
        cpus = None if os.environ.get("RAY_ADDRESS") or not on_cpu() else max(replicas, os.cpu_count() or 1)
        ray.init(runtime_env=environment, num_cpus=cpus, include_dashboard=False, log_to_driver=False)
    try:
        device = "CPU" if on_cpu() else "GPU"
        if (available := int(ray.cluster_resources().get(device, 0))) < replicas:  # Ray would wait forever for more
            raise InputError(
                f"replicas: {replicas} engines need a {device} each, and Ray has {available}; ask for fewer"
            )
        actor = ray.remote(num_cpus=1, num_gpus=0 if on_cpu() else 1)(Engine)
        engines = [actor.remote(options) for _ in range(replicas)]
        shares = [share for number in range(replicas) if (share := _share(requests, number, replicas))]
        streams = [
            engine.complete.options(num_returns="streaming").remote(share)
            for engine, share in zip(engines, shares, strict=False)
        ]
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


def _share(requests: Sequence[EngineRequest], number: int, replicas: int) -> list[EngineRequest]:
    """Every ``replicas``-th prompt with all of its samples, which share its computation."""
    order = {tokens: index for index, tokens in enumerate(dict.fromkeys(request.tokens for request in requests))}
    return [request for request in requests if order[request.tokens] % replicas == number]
