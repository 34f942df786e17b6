"""Runs engine_ranks.py as two ranks."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from engine_ranks import LENGTHS
from peft import PeftModel
from processes import free_port
from training_runs import ROOT
from transformers import AutoModelForCausalLM

from training.config.to_verl import compose_run

Results = dict[str, dict[str, float]]
# What verl imports on GPUs, and what lets it run here.
MODULES = compose_run("luffy", "gpu", [], run=Path("run")).environment.VERL_USE_EXTERNAL_MODULES


def run_ranks(folder: Path, *models: str, seconds: float = 500) -> Results:
    """What both ranks computed together, by layout."""
    script = Path(__file__).with_name("engine_ranks.py")
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    common |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    common |= {"TORCHDYNAMO_DISABLE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    logs = [folder / f"rank{rank}.log" for rank in range(2)]  # a pipe that nobody reads would fill up
    processes: list[subprocess.Popen[str]] = []
    for rank, log in enumerate(logs):
        with log.open("w") as stream:
            process = subprocess.Popen(
                [sys.executable, str(script), str(folder), MODULES, *models],
                env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE if rank == 0 else stream,
                stderr=stream,
                text=True,
            )
        processes.append(process)
    try:
        output, _ = processes[0].communicate(timeout=seconds)
        processes[1].wait(timeout=60)
    except subprocess.TimeoutExpired:
        output = ""
    finally:
        for process in processes:  # one that failed leaves the other one waiting
            process.kill()
    assert [process.wait() for process in processes] == [0, 0], "\n".join(log.read_text()[-3000:] for log in logs)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"layout"')]
    return {line.pop("layout"): line for line in lines}


def sequences() -> list[torch.Tensor]:
    """The tokens that the ranks compute with."""
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(5, 250, (length,), generator=draw) for length in LENGTHS]


def log_probs_of(folder: Path, adapter: Path | None = None) -> float:
    """Sum of the log-probabilities of all sequences with the model in ``folder`` and an adapter, without verl."""
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    model = model if adapter is None else PeftModel.from_pretrained(model, adapter).eval()
    total = 0.0
    for ids in sequences():
        with torch.no_grad():
            log_probs = model(ids[None]).logits[0, :-1].log_softmax(-1)
        total += log_probs.gather(-1, ids[1:, None]).double().sum().item()
    return total
