"""How many engines an evaluation starts on the GPUs of one node and of several, for models of the zoo."""

from pathlib import Path

import pytest
from model_zoo import MODELS, write_config

from core.errors import InputError
from evaluation.generation import replicas
from evaluation.generation.replicas import Replicas, plan_replicas
from training.resources.machine import card_of
from training.resources.model_shape import ModelShape


@pytest.mark.parametrize(
    ("model", "kind", "nodes", "expected"),
    [
        ("Qwen2.5-Math-7B", "H100", [8], Replicas(8, 1)),
        ("Qwen2.5-Math-7B", "H100", [8, 8, 0], Replicas(16, 1)),
        ("Qwen3-32B", "H100", [8, 8], Replicas(8, 2)),  # no engine is spread over two nodes
        ("Qwen3-32B", "A100-SXM4-40GB", [8, 4], Replicas(3, 4)),
        ("Qwen3-32B", "L40S", [2, 2], "2 GPUs of 44 GiB are too few"),
        ("Llama-3.1-8B", "L4", [2, 1], Replicas(1, 2)),
    ],
)
def test_engines_fill_the_nodes_and_none_is_spread_over_two(
    model: str, kind: str, nodes: list[int], expected: Replicas | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, shape = card_of(kind), ModelShape.of_config(MODELS[model])
    assert card is not None
    folder = write_config(model, tmp_path / "model", num_attention_heads=MODELS[model]["num_attention_heads"])
    monkeypatch.setattr(replicas, "computes_on_cpu", lambda: False)
    monkeypatch.setattr(replicas, "_memory_of_a_gpu", lambda: int(card.memory))
    monkeypatch.setattr(replicas, "_gpus_per_node", lambda: nodes)
    monkeypatch.setattr(replicas, "bfloat16_bytes", lambda _: 2 * shape.parameters)
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            plan_replicas(str(folder), None, None)
    else:
        assert plan_replicas(str(folder), None, None) == expected
