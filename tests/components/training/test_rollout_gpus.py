"""How `rollouts=separate_async` shares out the GPUs of a node, and what verl is told."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from core.model.base_model import SHIPPED
from training.config.run_checks import check_run
from training.config.to_verl import compose_run
from training.resources.auto_values import resolve_auto
from training.resources.layout import Layout
from training.resources.machine import Gpu, Machine
from training.resources.model_shape import ModelShape
from training.resources.requirements import logical_cpus

RUN = Path("run")


def resolved(hardware: str, gpus: int, *overrides: str) -> Any:
    config = compose_run("luffy", hardware, ["rollouts.type=separate_async", *overrides], run=RUN)
    cards = (Gpu("NVIDIA H100 80GB HBM3", 85.5e9, (9, 0)),) * gpus
    resolve_auto(config, Machine(1, cards, 128, 1e12, 64e9, 1e12), ModelShape.of_folder(SHIPPED))
    return config


@pytest.mark.parametrize(
    ("overrides", "actor", "rollouts"),
    [
        ((), 4, 4),
        (("rollouts.gpus=2",), 6, 2),
        (("trainer.n_gpus_per_node=6",), 6, 2),
        (("actor_rollout_ref.rollout.tensor_model_parallel_size=3",), 5, 3),
    ],
)
def test_rollouts_take_what_the_actor_leaves(overrides: tuple[str, ...], actor: int, rollouts: int) -> None:
    config = resolved("gpu", 8, *overrides)
    assert (config.trainer.n_gpus_per_node, config.rollout_gpus) == (actor, rollouts)
    rollout = config.actor_rollout_ref.rollout
    assert (rollout.nnodes, rollout.n_gpus_per_node) == (1, rollouts)
    assert (rollout.checkpoint_engine.backend, config.actor_rollout_ref.hybrid_engine) == ("nccl", False)
    assert Layout(config).devices == actor


@pytest.mark.parametrize(
    ("gpus", "overrides"),
    [(1, ()), (8, ("rollouts.gpus=8",)), (8, ("trainer.n_gpus_per_node=8",))],
)
def test_a_node_that_cannot_be_shared_is_told(gpus: int, overrides: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"leaves some to the actor.*colocate_async"):
        resolved("gpu", gpus, *overrides)


def test_on_a_cpu_ray_is_told_of_a_slot_more() -> None:
    config = resolved("cpu", 0)
    assert (config.trainer.n_gpus_per_node, config.rollout_gpus, config.ray_kwargs.ray_init.num_gpus) == (1, 1, 2)
    assert config.actor_rollout_ref.rollout.checkpoint_engine.backend == "cpu"
    assert logical_cpus(Layout(config), config) == 3 + 2 + 2 + 1


def test_the_staleness_and_the_updates_of_a_step_are_verls() -> None:
    config = compose_run(
        "luffy",
        "cpu",
        ["rollouts.type=separate_async", "rollouts.max_staleness=4", "rollouts.stale_samples=drop"],
        run=RUN,
    )
    v1 = config.trainer.v1
    assert (v1.trainer_mode, v1.separate_async.parameter_sync_step) == ("mixed_separate_async", 2)
    assert (v1.sampler.max_off_policy_threshold, v1.sampler.max_off_policy_strategy) == (5, "drop")


def test_gpus_of_their_own_need_a_package_that_the_lock_lacks() -> None:
    """verl sends the weights with it, and would find out when the first step ends."""
    assert importlib.util.find_spec("cupy") is None
    with pytest.raises(InputError, match=r"with cupy, which is not installed.*take rollouts.type=colocate_async"):
        check_run(compose_run("luffy", "gpu", ["rollouts.type=separate_async"], run=RUN))
    check_run(compose_run("luffy", "gpu", ["rollouts.type=colocate_async"], run=RUN))
