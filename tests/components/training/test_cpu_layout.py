"""How a CPU computes: by the size of the model and the instructions of the processor, unless you say."""

from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig

from core.model.base_model import SHIPPED
from training.config.to_verl import compose_run
from training.resources.auto_values import resolve_auto
from training.resources.machine import Machine
from training.resources.model_shape import ModelShape

EMBEDDED = ModelShape.of_folder(SHIPPED)
LARGE = replace(EMBEDDED, parameters=134_515_008)
PLAIN = Machine(1, (), 8, 24e9, None, 50e9)
FAST = replace(PLAIN, bfloat16=True)


def computed(machine: Machine, shape: ModelShape, *overrides: str) -> DictConfig:
    config = compose_run("luffy", "cpu", overrides, run=Path("run"))
    resolve_auto(config, machine, shape, {"sdpa", "sdpa_packed"})
    return config


def summary(config: DictConfig) -> tuple[object, ...]:
    """Type of the actor and of its master weights, of vLLM, threads, packed, fused, attention."""
    fsdp, model = config.actor_rollout_ref.actor.fsdp_config, config.actor_rollout_ref.model
    kinds = (fsdp.mixed_precision.param_dtype, fsdp.dtype, config.actor_rollout_ref.rollout.dtype)
    actor = config.actor_rollout_ref.actor  # verl's references to the model's keys
    assert (actor.use_remove_padding, actor.use_fused_kernels) == (model.use_remove_padding, model.use_fused_kernels)
    layout = (config.environment.OMP_NUM_THREADS, model.use_remove_padding, model.use_fused_kernels, config.attention)
    return (*kinds, *layout)


def test_a_small_model_is_computed_alike_on_every_processor() -> None:
    for machine in (PLAIN, FAST):
        assert summary(computed(machine, EMBEDDED)) == ("fp32", "float32", "float32", 1, False, False, "sdpa")


def test_a_large_model_is_packed_on_all_cores_in_the_fastest_type() -> None:
    assert summary(computed(FAST, LARGE)) == ("bf16", "float32", "bfloat16", 8, True, True, "sdpa_packed")
    assert summary(computed(PLAIN, LARGE)) == ("fp32", "float32", "float32", 8, True, True, "sdpa_packed")


def test_each_choice_can_be_overridden() -> None:
    padded = ["actor_rollout_ref.model.use_remove_padding=false", "actor_rollout_ref.model.use_fused_kernels=false"]
    config = computed(
        FAST, LARGE, "machine.compute=float32", "machine.threads=2", "rollout.precision=bfloat16", *padded
    )
    assert summary(config) == ("fp32", "float32", "bfloat16", 2, False, False, "sdpa")
    assert summary(computed(PLAIN, EMBEDDED, "machine.compute=bfloat16"))[0] == "bf16"


def test_processes_that_compute_at_once_share_the_cores() -> None:
    assert computed(FAST, LARGE, "trainer.n_gpus_per_node=2").threads == 4
    assert computed(FAST, LARGE, "rollouts.type=separate_async").threads == 4
    assert computed(replace(FAST, cpus=1), LARGE, "rollouts.type=colocate_async").threads == 1
