"""A run that was interrupted computes what an unbroken one does: data, prefixes, samples, optimiser, entropy."""

import json
import math
import signal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from training_inputs import write_targets
from training_runs import Training

from core import PROJECT
from core.model.base_model import SHIPPED
from core.model.lineage_file import read_manifest
from training.job.checkpoints import folder_of, latest_step
from training.methods.exgrpo import PATHS
from training.methods.method import STATE as METHOD

# What the clock and the machine decide; the largest rounding error between vLLM and the actor is of that kind.
MEASURED = ("timing", "idle/", "perf/", "actor/perf/", "run/", "rollout_correction/abs_log_ratio_max")
MEASURED += ("episode/tool_seconds", "episode/off_policy_tool_seconds")
SETTINGS = {
    "trainer__total_training_steps": "4",
    "trainer__save_freq": "2",
    "method__prefix": "{type: random, n: 2, min: 0.2, max: 0.9}",
    "method__entropy": "{type: adaptive, target: 2.0}",
    "run__keep_checkpoints": "9",
}


def samples(run: Training, step: int) -> list[dict[str, Any]]:
    kept = ("input", "output", "gts", "score", "prefix_length")
    rows = ({key: row[key] for key in kept} for row in run.rollouts(step))
    return sorted(rows, key=lambda row: sorted(row.items()))


def run_and_break(
    tmp_path: Path,
    recipe: str,
    ending: signal.Signals,
    settings: dict[str, str],
    split: str = "train",
    model: Path = SHIPPED,
) -> tuple[Training, Training]:
    """Four steps without a break, and four with one after the second."""
    # Three steps an epoch, so that the fourth starts another one.
    targets = write_targets(tmp_path / "train.parquet", 12, split=split)
    unbroken = Training(tmp_path / "unbroken", targets, recipe, model=model, **settings)
    assert unbroken.end() == 0, unbroken.said

    broken = Training(tmp_path / "broken", targets, recipe, model=model, **settings)
    broken.wait_for_step(2)
    broken.wait_for(lambda: latest_step(broken.out / "checkpoints") == 2)
    broken.process.send_signal(ending)
    broken.end(60)
    broken = Training(tmp_path / "broken", targets, recipe, model=model, **settings)
    assert broken.end() == 0, broken.said
    assert "resuming after step 2 of 4" in broken.said
    return unbroken, broken


def assert_same(unbroken: Training, broken: Training, *, uses_targets: bool = True) -> None:
    """Samples, metrics and ledger of every step are those of the unbroken run."""
    whole, parts = unbroken.metrics(), broken.metrics()
    assert [record["step"] for record in parts] == [1, 2, 3, 4]
    for step, (one, other) in enumerate(zip(whole, parts, strict=True), 1):
        assert samples(unbroken, step) == samples(broken, step)
        names = {name for name in one["data"] if not name.startswith(MEASURED)}
        assert names == {name for name in other["data"] if not name.startswith(MEASURED)}
        assert len(names) > 40
        assert max(record["data"]["rollout_correction/abs_log_ratio_max"] for record in (one, other)) < 1e-4
        different = {
            name: (one["data"][name], other["data"][name])
            for name in names
            if not math.isclose(one["data"][name], other["data"][name], rel_tol=1e-6, abs_tol=1e-6)
        }
        assert not different, f"step {step}"
    one, other = (pq.read_table(run.out / "ledger.parquet").to_pydict() for run in (unbroken, broken))
    assert bool(one["step"]) == uses_targets
    for name, values in one.items():
        same = pytest.approx(values, rel=1e-6) if values and isinstance(values[0], float) else values
        assert other[name] == same, name


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("teacher", ["base", "self"])
def test_a_killed_run_gets_the_same_scores_from_its_teacher(teacher: str, tmp_path: Path) -> None:
    settings = {"method__teacher": f"{{model: {teacher}, sees: target}}"}
    unbroken, broken = run_and_break(tmp_path, "luffy_opd", signal.SIGKILL, SETTINGS | settings)
    assert_same(unbroken, broken)
    assert all(record["data"]["distillation/kl"] != 0 for record in broken.metrics())


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_killed_run_remembers_what_it_replays(tmp_path: Path) -> None:
    """Short problems at a high temperature: the embedded model solves most of them sometimes, few always or never."""
    settings = {
        "trainer__total_training_steps": "4",
        "trainer__save_freq": "2",
        "actor_rollout_ref__rollout__temperature": "2.0",
        "method__replay__start": "0.0",
    }
    unbroken, broken = run_and_break(tmp_path, "exgrpo", signal.SIGKILL, settings, split="short")
    assert_same(unbroken, broken, uses_targets=False)
    steps = [record["data"] for record in broken.metrics()]
    # Replay starts after the first batch, and the second is the first whose samples are kept.
    assert [data["batch/off_policy_samples"] for data in steps[:2]] == [0, 0]
    for data in steps[2:]:
        assert 0 < data["batch/off_policy_samples"] <= 2
        assert data["reward/off_policy"] == 1  # a replayed sample is right, as it was
        assert data["batch/generation_requests"] == 16 - data["batch/off_policy_samples"]
        assert 0 < data["actor/off_ratio_mean"] < 1
    folders = [folder_of(run.out / "checkpoints", 4) for run in (unbroken, broken)]
    saved = [json.loads((folder / METHOD).read_text()) for folder in folders]
    assert [state["replaying"] for state in saved] == [True, True]
    assert saved[0]["retired"] == saved[1]["retired"]
    stores = [pq.read_table(folder / PATHS).drop(["log_probs"]) for folder in folders]
    assert stores[0].num_rows and stores[0].equals(stores[1])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_interrupted_run_has_the_metrics_of_an_unbroken_one(tmp_path: Path) -> None:
    unbroken, broken = run_and_break(tmp_path, "luffy", signal.SIGTERM, SETTINGS)
    assert_same(unbroken, broken)
    coefficients = [record["data"]["actor/entropy_coeff"] for record in unbroken.metrics()]
    assert len(set(coefficients)) == 4
    for run in (unbroken, broken):
        saved = json.loads((folder_of(run.out / "checkpoints", 2) / METHOD).read_text())
        assert saved["entropy_coef"] == pytest.approx(coefficients[2], rel=1e-6)  # that of the next step


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_killed_run_makes_the_same_calls(tmp_path: Path) -> None:
    """It is killed while samples of the third step are drawn, most of which have several turns."""
    settings = SETTINGS | {"data__max_response_length": "144", "actor_rollout_ref__actor__optim__lr": "1e-3"}
    model = PROJECT / "training" / "embedded_model" / "tools"
    unbroken, broken = run_and_break(tmp_path, "luffy", signal.SIGKILL, settings, "train_calls", model)
    assert_same(unbroken, broken)
    assert broken.metrics()[2]["data"]["episode/calls"] > 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_damaged_policy_and_checkpoint_are_set_aside_and_made_again(tmp_path: Path) -> None:
    targets = write_targets(tmp_path / "train.parquet", 8)
    out = tmp_path / "run"
    assert (run := Training(out, targets, "sft", run__keep_checkpoints="2")).end() == 0, run.said
    weights = out / "policy" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    checkpoint = folder_of(out / "checkpoints", 2)
    saved = checkpoint / "actor" / "model_world_size_1_rank_0.pt"
    flipped = bytearray(saved.read_bytes())
    flipped[-1] ^= 1
    saved.write_bytes(flipped)

    assert (run := Training(out, targets, "sft", run__keep_checkpoints="2")).end() == 0, run.said
    assert "set aside as policy.damaged" in run.said
    assert f"{checkpoint} is damaged: the content of {saved.relative_to(checkpoint)} has changed" in run.said
    assert "set aside as global_step_2.damaged, resuming from step 1" in run.said
    assert "resuming after step 1 of 2" in run.said
    assert read_manifest(out / "policy").steps == 2
    assert weights.read_bytes() == whole
