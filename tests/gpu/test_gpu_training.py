"""Short trainings with the profile ``gpu`` on one device: CUDA, NCCL, bfloat16, packed sequences, vLLM asleep while the
actor trains."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from core.arithmetic import problems
from core.manifest import read_manifest
from core.schemas import TARGET
from training.base.resolve import SHIPPED

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (
    "trainer.n_gpus_per_node=1",
    "data.train_batch_size=16",
    "data.max_prompt_length=64",
    "data.max_response_length=192",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.3",
    "actor_rollout_ref.rollout.agent.num_workers=2",
    "reward.num_workers=2",
    "actor_rollout_ref.actor.optim.lr=1e-4",
    "trainer.total_training_steps=3",
    "trainer.save_freq=3",
)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("recipe", ["luffy", "sft"])
def test_a_short_training_on_one_device(recipe: str, tmp_path: Path) -> None:
    rows = [
        {
            "data_source": "arithmetic",
            "prompt": [{"role": "user", "content": problem.problem}],
            "target": [{"role": "assistant", "content": problem.trace}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": problem.answer},
            "extra_info": {"split": "train", "index": number, "id": problem.id, "source": "test"},
        }
        for number, problem in enumerate(problems("train", 64))
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=TARGET), tmp_path / "train.parquet")
    command = [sys.executable, "-m", "training", "--recipe", recipe, "--hardware", "gpu", "--model", str(SHIPPED)]
    command += ["--targets", str(tmp_path / "train.parquet"), "--out", str(tmp_path / "run")]
    command += [part for setting in SETTINGS for part in ("--set", setting)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [json.loads(line)["data"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len(steps) == 3
    if recipe == "luffy":
        assert all(step["batch/off_policy_samples"] == 16 for step in steps)
        assert all(step["rollout_correction/abs_log_ratio_mean"] < 0.05 for step in steps)  # bfloat16 on both sides
    else:
        assert steps[-1]["actor/sft_loss"] < steps[0]["actor/sft_loss"]
    assert all(step["actor/perf/max_memory_allocated_gb"] > 0 for step in steps)
    assert read_manifest(tmp_path / "run" / "policy").steps == 3
