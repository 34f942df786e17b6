"""Learning itself, small enough for every night: luffy learns the embedded task, and it is shaping that does it."""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from training_runs import Training, write_targets
from transformers import AutoTokenizer

from training.models import SHIPPED

STEPS, LAST = 14, 3
PROMPTS, SAMPLES, LONGEST = 16, 4, 96
SETTINGS = {
    "data__train_batch_size": str(PROMPTS),
    "data__max_response_length": str(LONGEST),
    "actor_rollout_ref__rollout__n": str(SAMPLES),
    "actor_rollout_ref__actor__optim__lr": "4e-4",
    "trainer__total_training_steps": str(STEPS),
    "trainer__save_freq": str(STEPS),
}
LEARNED = 0.4  # share of own answers that are right in the last steps
AHEAD = 0.2  # of the same without shaping


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_luffy_learns_and_without_shaping_it_does_not(tmp_path: Path) -> None:
    targets = write_targets(tmp_path / "train.parquet", PROMPTS * STEPS)
    tokenizer = AutoTokenizer.from_pretrained(SHIPPED)
    rewards = {}
    for recipe in ("luffy", "mixed_policy"):
        run = Training(tmp_path / recipe, targets, recipe, **SETTINGS)
        assert run.end() == 0, run.said
        records = {record["step"]: record["data"] for record in run.metrics()}
        rewards[recipe] = [records[step]["reward/on_policy"] for step in range(1, STEPS + 1)]
        for step, data in records.items():
            samples = [json.loads(line) for line in (run.out / "rollouts" / f"{step}.jsonl").read_text().splitlines()]
            assert data["batch/generated_tokens"] == sum(own_tokens(sample, tokenizer) for sample in samples), step
            assert data["rollout_correction/abs_log_ratio_max"] < 1e-2, step  # vLLM and the actor agree on each of them
    learned, unshaped = (fmean(rewards[recipe][-LAST:]) for recipe in ("luffy", "mixed_policy"))
    assert learned >= LEARNED, rewards
    assert learned >= unshaped + AHEAD, rewards


def own_tokens(sample: Mapping[str, Any], tokenizer: Any) -> int:
    """Response tokens that the policy made itself; an answer that is not cut ends with a token that is not shown."""
    if sample["prefix_length"]:
        return 0
    shown = len(tokenizer.encode(sample["output"], add_special_tokens=False))
    return min(shown + 1, LONGEST)
