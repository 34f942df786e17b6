"""Data parallel generation: one engine a GPU, each a Ray actor, on this node or a whole cluster.

Ray places, starts and watches the actors; a sample does not depend on the replica that drew it.
"""

import os
from collections.abc import Iterator, Sequence

from core.code import PROJECT
from core.errors import InputError
from evaluation.generation.engine import Draw, Drawn, Engine, EngineOptions, on_cpu


def gpu_count() -> int:
    """GPUs that this process may use; 0 where torch is a CPU build."""
    import torch

    return 0 if on_cpu() else torch.cuda.device_count()


def draw_all(options: EngineOptions, draws: Sequence[Draw], replicas: int) -> Iterator[Drawn]:
    """The samples of ``draws`` as they are finished, by ``replicas`` engines (1: in this process, without Ray).

    Raises InputError where Ray has fewer GPUs than replicas.
    """
    if replicas == 1:
        yield from Engine(options).draw(draws)
        return
    import ray

    # A cluster that is up is found by RAY_ADDRESS; else one of this node starts and ends with this process.
    started = not ray.is_initialized()
    if started:
        environment = {
            "env_vars": {"PYTHONPATH": str(PROJECT), "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        }
        cpus = None if os.environ.get("RAY_ADDRESS") or not on_cpu() else max(replicas, os.cpu_count() or 1)
        ray.init(runtime_env=environment, num_cpus=cpus, include_dashboard=False, log_to_driver=False)
    try:
        kind = "CPU" if on_cpu() else "GPU"
        if (there := int(ray.cluster_resources().get(kind, 0))) < replicas:  # Ray would wait for more without an end
            raise InputError(f"replicas: {replicas} engines need a {kind} each, and Ray has {there}; ask for fewer")
        actor = ray.remote(num_cpus=1, num_gpus=0 if on_cpu() else 1)(Engine)
        engines = [actor.remote(options) for _ in range(replicas)]
        parts = [part for number in range(replicas) if (part := _share(draws, number, replicas))]
        streams = [
            engine.draw.options(num_returns="streaming").remote(part)
            for engine, part in zip(engines, parts, strict=False)
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


def _share(draws: Sequence[Draw], number: int, replicas: int) -> list[Draw]:
    """Every ``replicas``-th prompt with all of its samples, which share its computation."""
    order = {tokens: place for place, tokens in enumerate(dict.fromkeys(draw.tokens for draw in draws))}
    return [draw for draw in draws if order[draw.tokens] % replicas == number]
