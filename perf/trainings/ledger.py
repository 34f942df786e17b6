"""Measure what the ledger adds to a step: ``OMP_NUM_THREADS=1 .venv-train/bin/python -m perf.trainings.ledger``.

The rows are those of a whole batch in the trainer's process: one sample in eight starts with a target.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from tensordict import TensorDict

from training.algorithms.options import MixedPolicyOptions
from training.verl_hooks.batch import Samples
from training.verl_hooks.target_uses import Ledger, target_uses

GROUP = 8
BATCHES = ((16, 144), (128, 9216))  # prompts and response tokens: of the demo, and of the published run
REPEATS = 5


def seconds(prompts: int, tokens: int) -> float:
    """Processor seconds of one step's ledger: the best of some."""
    rows = GROUP * prompts
    first = [row % GROUP == 0 for row in range(rows)]
    fields = {
        "response_mask": torch.ones(rows, tokens, dtype=torch.long),
        "old_log_probs": torch.rand(rows, tokens).clamp(min=1e-3).log(),
        "prefix_length": torch.tensor(first) * tokens,
        "solved": torch.ones(rows, dtype=torch.bool),
    }
    samples = Samples(
        TensorDict(fields, batch_size=rows),
        np.array([str(row // GROUP) for row in range(rows)], dtype=object),
        torch.ones(rows, dtype=torch.bool),
        sources=["source"] * rows,
        targets=[str(row // GROUP) if starts else "" for row, starts in enumerate(first)],
        numbers=[row % GROUP for row in range(rows)],
    )
    advantages = {"advantages": torch.rand(rows, tokens)}
    options = MixedPolicyOptions(off_policy_reshape="p_div_p", off_policy_reshape_gamma=0.1)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder))
        for step in range(REPEATS):
            started = time.process_time()
            ledger.begin()
            ledger.add(target_uses(samples, advantages, options, step, sft_coef=0.0))
            ledger.write(step)
            times.append(time.process_time() - started)
    return min(times)


if __name__ == "__main__":
    for prompts, tokens in BATCHES:
        sys.stdout.write(f"{prompts} prompts x {GROUP} samples x {tokens:,} tokens: {seconds(prompts, tokens):.4f} s\n")
