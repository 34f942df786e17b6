"""A budget on real trainings: the stop at a checkpoint, the refusal to go on, the exact resume, and the estimate."""

import json
from pathlib import Path

import pytest
from training_runs import Training, write_targets

from training.job.checkpoints import latest_step


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_budget_stops_at_a_checkpoint_from_which_the_run_resumes_exactly(tmp_path: Path) -> None:
    targets = write_targets(tmp_path / "train.parquet", 8)
    settings = {"trainer__total_training_steps": "3", "run__device_hour_price": "2"}

    def train(name: str, **more: str) -> Training:
        return Training(tmp_path / name, targets, "sft", **settings, **more)

    stopped = train("budgeted", run__budget__tokens="1")
    assert stopped.end() == 2, stopped.said
    assert "no estimate of the cost" in stopped.said
    assert "the checkpoint of step 1 is kept. Raise the budget and run the same command" in stopped.said
    assert latest_step(stopped.out / "checkpoints") == 1 and not (stopped.out / "policy").exists()

    refused = train("budgeted", run__budget__tokens="1")
    assert refused.end() == 2, refused.said
    assert "the budget does not reach the next checkpoint, of step 2 of 3: run.budget.tokens=1 (" in refused.said

    resumed = train("budgeted", run__budget__tokens="1e6")
    assert resumed.end() == 0, resumed.said
    assert "resuming after step 1 of 3" in resumed.said
    assert "from its own steps" in resumed.said

    unbroken = train("unbroken")
    assert unbroken.end() == 0, unbroken.said
    assert "by the end of step 3, from the steps of budgeted, which has the same layout" in unbroken.said
    weights = [run.out / "policy" / "model.safetensors" for run in (resumed, unbroken)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    estimate = json.loads((unbroken.out / "plan.json").read_text())["estimate"]
    tokens = sum(record["data"]["perf/total_num_tokens"] for record in unbroken.metrics())
    assert estimate["tokens"] == pytest.approx(tokens, rel=0.3)
    assert "| device-hours |" in unbroken.said and "| cost |" in unbroken.said
