"""A base model with a longer context: what transformers reads from its folder, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from model_zoo import write_model
from transformers import AutoConfig, AutoModelForCausalLM

from core.errors import InputError
from core.model.base_model import SHIPPED, resolve_base
from core.model.context_extension import ContextExtension
from core.model.model_folder import model_digest, model_files

PAPER = ContextExtension(rope_theta=40000, max_position_embeddings=16384)
YARN = {"rope_type": "yarn", "factor": 4.0}


def extended(name: str, folder: Path, context: ContextExtension) -> Any:
    """The configuration of an extended copy of a model of the zoo, as transformers reads it."""
    source = write_model(name, folder / "published")
    return AutoConfig.from_pretrained(resolve_base(str(source), folder / "models", context=context).path)


def test_the_context_of_the_published_run(tmp_path: Path) -> None:
    """arXiv 2504.14945 trains Qwen2.5-Math-7B with these two settings."""
    source = write_model("Qwen2.5-Math-7B", tmp_path / "published")
    base = resolve_base(str(source), tmp_path / "models", context=PAPER)
    config = AutoConfig.from_pretrained(base.path)
    assert (config.max_position_embeddings, config.rope_parameters["rope_theta"]) == (16384, 40000)
    assert [file.name for file in model_files(base.path)] == [file.name for file in model_files(source)]
    assert (base.path / "model.safetensors").resolve() == source / "model.safetensors"
    assert base.digest == model_digest(base.path) != model_digest(source)
    assert resolve_base(str(source), tmp_path / "models", context=PAPER) == base
    ids = torch.arange(5, 45)[None]
    logits = [
        AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)(ids).logits for path in (source, base.path)
    ]
    assert not torch.allclose(*logits, atol=1e-2)


def test_a_model_that_transformers_5_saved(tmp_path: Path) -> None:
    base = resolve_base(str(SHIPPED), tmp_path, context=PAPER)
    config = AutoConfig.from_pretrained(base.path)
    assert (config.max_position_embeddings, config.rope_parameters["rope_theta"]) == (16384, 40000)


@pytest.mark.parametrize("name", ["Qwen3-8B", "Llama-3.1-8B"])
def test_a_scaling_counts_from_the_context_of_the_pretraining(name: str, tmp_path: Path) -> None:
    published = AutoConfig.from_pretrained(write_model(name, tmp_path / "other"))
    most = 4 * published.max_position_embeddings
    config = extended(name, tmp_path, ContextExtension(rope_scaling=YARN, max_position_embeddings=most))
    assert config.max_position_embeddings == most
    rope, before = config.rope_parameters, published.rope_parameters
    assert rope["original_max_position_embeddings"] == published.max_position_embeddings
    assert (rope["rope_type"], rope["factor"], rope["rope_theta"]) == ("yarn", 4.0, before["rope_theta"])
    AutoModelForCausalLM.from_config(config)(torch.arange(5)[None])


def test_a_scaling_keeps_the_share_of_a_head_that_is_rotated() -> None:
    rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
    settings = ContextExtension(rope_scaling=YARN).applied_to(
        {"max_position_embeddings": 4096, "rope_parameters": rope}, "config.json"
    )
    assert settings["rope_parameters"] == {**rope, **YARN, "original_max_position_embeddings": 4096}


@pytest.mark.parametrize("given", [{}, {"original_max_position_embeddings": 4096}])
def test_positions_that_yarn_does_not_reach_are_refused(given: dict[str, int]) -> None:
    """vLLM takes the original context times the factor, whatever max_position_embeddings says."""
    published = {"max_position_embeddings": 4096, "rope_theta": 10000}
    scaling = {"rope_type": "yarn", "factor": 2.0, **given}
    ContextExtension(rope_scaling=scaling, max_position_embeddings=8192).applied_to(published, "config.json")
    with pytest.raises(InputError, match=r"to 8192 positions, and max_position_embeddings is 16384: give factor 4, or"):
        ContextExtension(rope_scaling=scaling, max_position_embeddings=16384).applied_to(published, "config.json")


@pytest.mark.parametrize(
    ("name", "context", "message"),
    [
        ("gemma-3-1b", PAPER, "several rope_theta in it"),
        (
            "Qwen3-8B",
            ContextExtension(rope_scaling={"rope_type": "yarm", "factor": 4.0}),
            "rope_type is 'yarm', expected",
        ),
        (
            "Qwen3-8B",
            ContextExtension(rope_scaling={"rope_type": "yarn", "factor": "4"}),
            "factor is '4', expected a num",
        ),
    ],
)
def test_what_cannot_be_extended_is_refused(name: str, context: ContextExtension, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        extended(name, tmp_path, context)
    assert not (tmp_path / "models").exists() or not list((tmp_path / "models").iterdir())
