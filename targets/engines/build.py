"""Choose an engine."""

from collections.abc import Callable

from targets.engines.process_pool import PoolEngine
from targets.engines.tasks import Engine, Inputs, SingleEngine


def build_engine(name: str, inputs: Callable[[], Inputs], workers: int) -> Engine:
    """The engine called ``name`` ("local", "ray"); ``inputs`` is called when there is something to filter."""
    if name == "ray":
        from targets.engines.ray_data import RayEngine

        return RayEngine(inputs, workers)
    return SingleEngine(inputs) if workers == 1 else PoolEngine(inputs, workers)
