"""Which models a run takes, which it refuses by name, and what the plan says of published ones."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from model_zoo import DENSE, MODELS, TINY, write_config, write_model
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from core.errors import InputError
from core.files import read_object, write_json
from core.model.architecture import FAMILIES, decoder_shapes
from core.model.model_folder import check_model
from core.model.weights import read_tensors
from evaluation.generation.engine import context_limit
from training.config.to_verl import compose_run
from training.resources.auto_values import resolve_auto
from training.resources.load_check import check_loading
from training.resources.machine import Gpu, Machine
from training.resources.model_shape import ModelShape
from training.resources.trainable_models import TRIED, check_architecture, fault_of

EIGHT_H100 = Machine(1, (Gpu("NVIDIA H100 80GB HBM3", 85.5e9, (9, 0)),) * 8, 128, 2e12, 64e9, 1e12)


def check(folder: Path, say: Callable[[str], None], *overrides: str) -> None:
    config = compose_run("luffy", "gpu", list(overrides), run=Path("run"))
    resolve_auto(
        config,
        EIGHT_H100,
        ModelShape.of_config(read_object(folder / "config.json")),
        {"flash_attention_4", "sdpa", "eager"},
    )
    check_architecture(folder, config, say)


def test_the_models_of_the_zoo_are_taken_and_others_with_a_word_or_not(tmp_path: Path) -> None:
    said: list[str] = []
    for name in DENSE:
        check(write_config(name, tmp_path / name), said.append)
    assert said == []
    assert {MODELS[name]["model_type"] for name in DENSE} == set(TRIED)
    check(write_config("Qwen3-8B", tmp_path / "other", model_type="olmo2"), said.append)
    assert len(said) == 1 and said[0].startswith("model_type olmo2 has not been tried")
    with pytest.raises(InputError, match=r"qwen3_moe is a mixture of experts \(num_experts=8\).*take a dense model"):
        check(write_config("Qwen3-30B-A3B", tmp_path / "moe"), print)


def test_transformers_is_asked_about_other_families(tmp_path: Path) -> None:
    folder = write_config("Qwen2.5-Math-7B", tmp_path / "model", model_type="olmo", bos_token_id=1)
    settings, file = read_object(folder / "config.json"), folder / "model.safetensors"
    tensors = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder)).state_dict()

    def refused(message: str, **changes: Any) -> None:
        write_json(settings | changes, folder / "config.json")
        with pytest.raises(InputError, match=message):
            check_loading(folder, trust_remote_code=False)

    save_file(tensors, file)
    check_loading(folder, trust_remote_code=False)
    refused("transformers cannot load the model", hidden_size=32)
    refused("trust_remote_code=true", model_type="own", auto_map={"AutoConfig": "own.Own"})
    with pytest.raises(InputError, match="trust_remote_code=true"):  # as vLLM would be started
        context_limit(str(folder), trust_remote_code=False)
    save_file({name: tensor for name, tensor in tensors.items() if "down_proj" not in name}, file)
    refused(message := r"2 missing \(model\.layers\.0\.mlp\.down_proj\.weight, .*copy config\.json and weights")
    with pytest.raises(InputError, match=message):
        check(folder, print)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"vision_config": {}}, "takes more than text (vision_config)"),
        ({"n_routed_experts": 256}, "mixture of experts (n_routed_experts=256)"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "no attention (linear_attention)"),
        ({"mamba_d_state": 128}, "no attention (mamba_d_state)"),
        ({"final_logit_softcapping": 30.0}, "(final_logit_softcapping=30.0), which the fused kernel leaves out"),
        ({"logits_scaling": 8.0}, "(logits_scaling=8.0), which the fused kernel leaves out"),
        ({"logit_scale": 0.0625}, "(logit_scale=0.0625), which the fused kernel leaves out"),
        ({"attn_logit_softcapping": 50.0}, "(attn_logit_softcapping=50.0), which attention=sdpa leaves out"),
        ({"layer_types": ["sliding_attention", "full_attention"], "logits_scaling": 1.0, "num_experts": None}, ""),
    ],
)
def test_what_would_train_something_else_is_refused(settings: dict[str, Any], message: str) -> None:
    fault = fault_of({"model_type": "x", **settings}, fused=True, attention="sdpa")
    assert (message in fault) if message else not fault
    if "fused" in message or "attention=" in message:
        assert not fault_of({"model_type": "x", **settings}, fused=False, attention="flash_attention_4")


# What changes the tensors of a decoder.
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"attention_bias": True},
    {"mlp_bias": True},
    {"head_dim": 32},
    {"tie_word_embeddings": True},
    {"tie_word_embeddings": False},
)


def shapes_of(model: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight  # pyright: ignore
    return {
        name: tuple(tensor.shape)
        for name, tensor in model.state_dict().items()
        if not (tied and name == "lm_head.weight")
    }


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_table_of_families_is_that_of_transformers(kind: str) -> None:
    sizes = {name: value for name, value in TINY.items() if name != "num_key_value_heads"}
    for changes in (*VARIANTS, {"num_key_value_heads": 2}):
        settings = {"model_type": kind, **sizes, **changes}
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**settings))
        assert decoder_shapes(settings, "model") == shapes_of(model), changes
        assert decoder_shapes(json.loads(model.config.to_json_string()), "model") == shapes_of(model), changes


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_transformers_saves_is_whole(name: str, tmp_path: Path) -> None:
    folder = write_model(name, tmp_path / name)
    check_model(folder)
    tensors = load_file(folder / "model.safetensors")
    data = {name: b"".join(tensor.pieces()) for name, tensor in read_tensors(folder).items()}
    assert data == {name: tensor.contiguous().view(torch.uint8).numpy().tobytes() for name, tensor in tensors.items()}


def test_a_size_that_is_none_is_named() -> None:
    for name, value in (("num_attention_heads", 0), ("hidden_size", "48"), ("vocab_size", None), ("head_dim", -1)):
        message = f"config.json: {name} is {value!r}; expected a number from 1"
        with pytest.raises(InputError, match=re.escape(message)):
            ModelShape.of_config({**MODELS["Qwen3-4B"], name: value})


@pytest.mark.parametrize("name", DENSE)
def test_the_plan_counts_the_parameters_that_transformers_makes(name: str, tmp_path: Path) -> None:
    write_json(MODELS[name], tmp_path / "config.json")
    shape = ModelShape.of_config(MODELS[name])
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(tmp_path))
    assert shape.parameters == pytest.approx(model.num_parameters(), rel=1e-3)
    embedding = model.get_input_embeddings().weight
    assert shape.tied is (model.get_output_embeddings().weight is embedding)
    assert shape.root == embedding.numel() * (1 if shape.tied else 2)


def test_a_folder_says_by_its_weights_whether_the_head_is_the_embedding(tmp_path: Path) -> None:
    for name in ("gemma-3-1b", "phi-4", "Qwen3-4B"):
        folder = write_model(name, tmp_path / name)
        assert ModelShape.of_folder(folder).tied is (name != "phi-4")
