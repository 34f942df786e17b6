"""Short trainings on one device, and on all where there are several.

They use CUDA, NCCL, bfloat16 and packed sequences, and vLLM sleeps while the actor trains. The models are the embedded
one with a head of its own, as models from 7B have, and one of the shape of Qwen2.5-1.5B with random weights.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from training_inputs import write_targets, write_untied_model
from transformers import AutoConfig, AutoModelForCausalLM

from core.metric_table import MEMORY
from core.model.base_model import SHIPPED
from core.model.lineage_file import read_manifest
from training.resources.attention import installed_kernels

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
SEVERAL = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one CUDA device on this machine")
ROOT = Path(__file__).resolve().parents[2]
COMMON = {
    "data.train_batch_size": 16,
    "data.max_prompt_length": 64,
    "method.filter": "null",
    "trainer.total_training_steps": 3,
    "trainer.save_freq": 3,
}
TINY = {"data.max_response_length": 192, "actor_rollout_ref.actor.optim.lr": 1e-4}
ROLLOUTS = {"actor_rollout_ref.rollout.gpu_memory_utilization": 0.3}
LONG = {"data.max_response_length": 4032, "actor_rollout_ref.rollout.gpu_memory_utilization": 0.5}
SHAPE = {
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8192,
    "layer_types": ["full_attention"] * 28,
}


def train(
    folder: Path, recipe: str, model: Path, settings: dict[str, Any], hardware: str = "gpu_single"
) -> list[dict[str, Any]]:
    """The metrics of the steps of a run in ``folder / "run"``."""
    write_targets(folder / "train.parquet", rows=64)
    command = [sys.executable, "-m", "training", "--recipe", recipe, "--hardware", hardware, "--model", str(model)]
    command += ["--targets", str(folder / "train.parquet"), "--out", str(folder / "run")]
    command += [part for key, value in (COMMON | settings).items() for part in ("--set", f"{key}={value}")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("hardware", ["gpu_single", pytest.param("gpu", marks=SEVERAL)])
@pytest.mark.parametrize("recipe", ["luffy", "sft"])
def test_a_short_training(recipe: str, hardware: str, tmp_path: Path) -> None:
    model = write_untied_model(tmp_path / "model")
    records = train(tmp_path, recipe, model, TINY | (ROLLOUTS if recipe == "luffy" else {}), hardware)
    steps = [record["data"] for record in records]
    assert len(steps) == 3
    if recipe == "luffy":
        assert all(step["batch/off_policy_samples"] == 16 for step in steps)
        assert all(step["rollout_correction/abs_log_ratio_mean"] < 0.05 for step in steps)  # bfloat16 on both sides
    else:
        assert steps[-1]["actor/sft_loss"] < steps[0]["actor/sft_loss"]
    assert all(step["actor/perf/max_memory_allocated_gb"] > 0 for step in steps)
    assert read_manifest(tmp_path / "run" / "policy").steps == 3


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model in the shape of Qwen2.5-1.5B, its layers random: it hardly ever ends a response."""
    folder = tmp_path_factory.mktemp("large") / "model"
    shutil.copytree(SHIPPED, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    config = AutoConfig.from_pretrained(SHIPPED, **SHAPE)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    return folder


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("attention", ["flash_attention_4", "sdpa", "flex_attention"])
def test_a_model_of_a_usual_size(attention: str, large: Path, tmp_path: Path) -> None:
    if attention not in installed_kernels():
        pytest.skip(f"{attention}: its package is not installed")
    if attention == "flash_attention_4" and torch.cuda.get_device_capability()[0] not in (9, 10, 11):
        pytest.skip(f"{attention} needs Hopper or Blackwell")
    records = train(tmp_path, "luffy", large, LONG | {"attention": attention})
    told = ("timing_s/gen", "timing_s/update_actor", "perf/throughput", "perf/mfu/actor", MEMORY)
    numbers = ", ".join(f"{name} {records[-1]['data'][name]:.3g}" for name in told)
    sys.stdout.write(f"{attention}: {numbers}\n")
    assert all(record["data"]["rollout_correction/abs_log_ratio_mean"] < 0.05 for record in records)
