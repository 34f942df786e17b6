"""The packages of the GPU lock take our configuration and import our code; no device is needed for that."""

import json
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hidden_cuda import ROOT, Interpreter

from core.model.base_model import SHIPPED
from training.resources.attention import installed_kernels

SHAPES: dict[str, dict[str, Any]] = {  # of Qwen2.5
    "1.5B": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "heads": (12, 2), "tied": True},
    "7B": {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "heads": (28, 4), "tied": False},
    "32B": {"hidden_size": 5120, "intermediate_size": 27648, "num_hidden_layers": 64, "heads": (40, 8), "tied": False},
}
MODULES = (
    "training.verl_hooks.trainer",
    "training.verl_hooks.agent_loop",
    "training.verl_hooks.reward",
    "training.verl_hooks.loss",
    "training.verl_hooks.supervised",
    "training.platforms.every_process",
    "evaluation.generation.engine",
    "flash_attn.cute",
    "verl.experimental.agent_loop.agent_loop",
    "verl.utils.experimental.torch_functional",
    "verl.workers.engine.fsdp.transformer_impl",
    "verl.workers.engine_workers",
    "verl.workers.rollout.vllm_rollout.vllm_async_server",
    "vllm.entrypoints.openai.api_server",
    "vllm.model_executor.models.qwen2",
    "vllm.v1.attention.backends.flash_attn",
    "vllm.v1.engine.core",
    "vllm.v1.executor.multiproc_executor",
    "vllm.v1.worker.gpu_model_runner",
    "vllm.v1.worker.gpu_worker",
)
LOAD = """
import sys, torch
from transformers import AutoModelForCausalLM
from verl.workers.config import HFModelConfig
config = HFModelConfig(path=sys.argv[1], override_config={"attn_implementation": sys.argv[2]})
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], config=config.hf_config, dtype=torch.float32)
print("loaded", model.config._attn_implementation, model(torch.arange(5)[None]).logits.shape)
"""


def locked() -> dict[str, str]:
    """Name -> version of the lock."""
    lines = (ROOT / "requirements" / "train-gpu.lock").read_text().splitlines()
    pairs = [line.split(";")[0].rstrip(" \\").split("==") for line in lines if line[:1].isalnum() and "==" in line]
    return {name.lower().replace("_", "-"): version.strip() for name, version in pairs}


def test_the_environment_is_that_of_the_lock() -> None:
    installed = {
        distribution.metadata["Name"].lower().replace("_", "-").replace(".", "-"): distribution.version
        for distribution in metadata.distributions()
    }
    wanted = {name.replace(".", "-"): version for name, version in locked().items()}
    assert len(wanted) > 200
    assert {
        name: (installed.get(name), version) for name, version in wanted.items() if installed.get(name) != version
    } == {}


def test_a_kernel_for_hopper_and_blackwell_is_there() -> None:
    assert {"flash_attention_4", "sdpa"} <= installed_kernels()


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_the_model_loads_with_the_configured_attention(kernel: str, interpreter: Interpreter) -> None:
    assert f"loaded {kernel} torch.Size([1, 5, 259])" in interpreter.run("-c", LOAD, str(SHIPPED), kernel)


def test_hooks_and_workers_import(interpreter: Interpreter) -> None:
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name); print(name)"
    printed = interpreter.run("-c", code, *MODULES).splitlines()
    assert [line for line in printed if line in MODULES] == list(MODULES)


def test_which_models_have_another_runner_and_sampler(interpreter: Interpreter) -> None:
    names = ["Gemma3ForCausalLM", "LlamaForCausalLM", "Phi3ForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"]
    code = "import sys; from vllm.config.vllm import DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES as second\n"
    code += "print([name for name in sys.argv[1:] if name in second])"
    assert "['LlamaForCausalLM', 'Qwen3ForCausalLM']" in interpreter.run("-c", code, *names)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders with the configuration of each shape, and no weights."""
    folder = tmp_path_factory.mktemp("models")
    for name, shape in SHAPES.items():
        target = folder / name
        shutil.copytree(SHIPPED, target, ignore=shutil.ignore_patterns("*.safetensors"))
        config = json.loads((target / "config.json").read_text())
        (heads, groups), tied = shape["heads"], shape["tied"]
        config |= {key: value for key, value in shape.items() if key not in ("heads", "tied")}
        config |= {"num_attention_heads": heads, "num_key_value_heads": groups, "tie_word_embeddings": tied}
        config |= {"vocab_size": 152064, "max_position_embeddings": 16384, "dtype": "bfloat16"}
        config["layer_types"] = ["full_attention"] * shape["num_hidden_layers"]
        (target / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.timeout(900)
def test_vllm_takes_the_configuration_on_every_card(interpreter: Interpreter, models: Path) -> None:
    output = interpreter.run(str(Path(__file__).with_name("vllm_configs.py")), str(models), seconds=800)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"card"')]
    assert [(line["card"], line["shape"]) for line in lines] == [
        (card, shape) for card in ("H100", "H200", "A100", "L40S") for shape in SHAPES
    ]
    for line in lines:
        assert (line["sequences"], line["sleeps"], line["length"]) == (256, True, 9216)
        assert line["parallel"] == (4 if line["shape"] == "32B" else 1)
        assert line["shape"] == "32B" or line["evaluation"]["length"] == 9216


@pytest.mark.parametrize(
    (
        "card",
        "shape",
    ),  # width of a head, heads, groups: a 7B model, the same with wide heads, a tiny one
    [("sm_90", (128, 28, 4)), ("sm_90", (256, 28, 4)), ("sm_90", (32, 4, 2)), ("sm_100", (128, 28, 4))],
)
def test_flash_attention_compiles_for_the_card_and_once_for_all_rows(
    card: str, shape: tuple[int, int, int], interpreter: Interpreter
) -> None:
    """Forward and backward of flash-attn-4 and of the packages that it is locked with."""
    script = str(Path(__file__).with_name("attention_kernels.py"))
    output = interpreter.run(script, *map(str, shape), FLASH_ATTENTION_ARCH=card, CUTE_DSL_ARCH=f"{card}a")
    first, *others = [json.loads(line)["compiled"] for line in output.splitlines() if line.startswith('{"compiled"')]
    for kernel in ("FlashAttentionForward", "FlashAttentionBackward"):
        assert f"{kernel}{card.title().replace('_', '')}" in first
    assert others == [[], [], []]
