"""Runs engine_ranks.py as two ranks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from engine_ranks import LENGTHS
from training_runs import ROOT, free_port
from transformers import AutoModelForCausalLM

from training.job.configuration import compose_run

Results = dict[str, dict[str, float]]
# What verl imports on GPUs, and what lets it run here.
MODULES = compose_run("luffy", "gpu", [], run=Path("run")).environment.VERL_USE_EXTERNAL_MODULES


def run_ranks(folder: Path, *models: str, seconds: float = 500) -> Results:
    """What both ranks computed together, by layout."""
    script = Path(__file__).with_name("engine_ranks.py")
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    common |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    common |= {"TORCHDYNAMO_DISABLE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), str(folder), f"training.platforms.cpu,{MODULES}", *models],
            env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=seconds) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], "\n".join(errors[-3000:] for _, errors in outputs)
    lines = [json.loads(line) for line in outputs[0][0].splitlines() if line.startswith('{"layout"')]
    return {line.pop("layout"): line for line in lines}


def log_probs_of(folder: Path) -> float:
    """Sum of the log-probabilities of all sequences with the model in ``folder``, without verl."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    draw, total = torch.Generator().manual_seed(1), 0.0
    for length in LENGTHS:
        ids = torch.randint(5, 250, (length,), generator=draw)
        with torch.no_grad():
            log_probs = model(ids[None]).logits[0].log_softmax(-1)
        # The engine scores each token with the next one, and the last one with the first.
        total += log_probs.gather(-1, ids.roll(-1)[:, None]).double().sum().item()
    return total
