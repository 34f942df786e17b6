"""The bytes of a run: the worked table of a 7B model, and what a CPU was measured to hold."""

from pathlib import Path

import pytest
from model_zoo import MODELS

from core.model.base_model import SHIPPED
from training.config.to_verl import compose_run
from training.resources.auto_values import resolve_auto
from training.resources.layout import Layout
from training.resources.machine import Machine
from training.resources.memory import node_memory, training_memory
from training.resources.model_shape import ModelShape
from training.resources.requirements import checkpoint_bytes

QWEN_7B = MODELS["Qwen2.5-Math-7B"]
SHAPE = ModelShape.of_config(QWEN_7B)
RUN = Path("run")


def layout(gpus: int, recipe: str = "luffy", **changes: object) -> Layout:
    config = compose_run(recipe, "gpu", [f"trainer.n_gpus_per_node={gpus}", "machine.offload=none"], run=RUN)
    result = Layout(config)
    vars(result).update({"attention": "flash_attention_4", "tensor_parallel": 1} | changes)
    return result


def test_the_parameters_of_a_model_follow_from_its_configuration_and_from_its_files() -> None:
    assert SHAPE.parameters == pytest.approx(7.616e9, rel=1e-3)
    counted = ModelShape.of_folder(SHIPPED)
    assert counted.parameters == 477_184
    assert ModelShape.of_config({**QWEN_7B, "tie_word_embeddings": True}).root == SHAPE.root / 2


def test_every_rank_writes_its_shard_and_a_second_optimizer_has_moments_of_its_own() -> None:
    """What two copies write: tests/integration/test_training_layouts.py."""
    two = layout(8, devices=16, nodes=2)
    assert checkpoint_bytes(SHAPE, layout(8)) == 12 * SHAPE.parameters
    assert checkpoint_bytes(SHAPE, two) == 2 * 12 * SHAPE.parameters
    assert checkpoint_bytes(SHAPE, layout(8, lora_rank=64)) / 1e9 == pytest.approx(31.8, abs=0.5)
    both = layout(8, "relift")
    assert checkpoint_bytes(SHAPE, both) == 20 * SHAPE.parameters
    more = training_memory(SHAPE, both)["state"] - training_memory(SHAPE, layout(8))["state"]
    assert more == SHAPE.parameters  # 8 bytes over 8 GPUs


@pytest.mark.parametrize(
    ("attention", "fused", "logits", "on_eight", "on_one"),
    [
        ("flash_attention_4", False, 31, 71, 173),
        ("flash_attention_2", False, 25, 65, 166),
        ("flash_attention_4", True, 1.5, 41, 143),
    ],
)
def test_the_peak_depends_on_how_the_logits_are_computed(
    attention: str, fused: bool, logits: float, on_eight: float, on_one: float
) -> None:
    for gpus, peak in ((8, on_eight), (1, on_one)):
        parts = training_memory(SHAPE, layout(gpus, attention=attention, fused=fused))
        assert parts["logits"] / 1e9 == pytest.approx(logits, abs=0.2)
        assert sum(parts.values()) / 1e9 == pytest.approx(peak, abs=0.9)


# Peak of the proportional set sizes of all processes of a run with the embedded model, in MiB.
MEASURED = [
    ("luffy", [], 5738),
    (
        "luffy",
        [
            "trainer.n_gpus_per_node=2",
            "ray_kwargs.ray_init.num_gpus=2",
            "actor_rollout_ref.rollout.agent.num_workers=2",
        ],
        8112,
    ),
    ("sft", ["data.train_batch_size=8"], 2052),
]


@pytest.mark.parametrize(("recipe", "overrides", "measured"), MEASURED)
def test_the_memory_of_a_node_is_what_was_measured_on_a_cpu(recipe: str, overrides: list[str], measured: float) -> None:
    shape = ModelShape.of_folder(SHIPPED)
    config = compose_run(recipe, "cpu", overrides, run=RUN)
    resolve_auto(config, Machine(1, (), 2, 24e9, None, 50e9), shape)
    predicted = sum(node_memory(shape, Layout(config), cuda=False).values()) / 2**20
    assert predicted == pytest.approx(measured, rel=0.15)
