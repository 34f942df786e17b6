"""The predicted seconds of a step: worked cases, and what must grow with what."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from test_memory_plan import SHAPE, layout

from training.resources.fit_check import PLAN
from training.resources.machine import card_of
from training.resources.memory import training_memory
from training.resources.prediction_summary import figures, table
from training.resources.roofline import BANDWIDTH, COMPUTE, predict

H100 = card_of("H100")
assert H100 is not None
AVERAGE = {"prompt": 200.0, "response": 3000.0, "generated": 0.875}


def test_the_update_of_a_7b_model_is_eight_operations_per_parameter_and_token() -> None:
    short = predict(SHAPE, layout(8), H100, prompt=100, response=100, generated=1.0)
    tokens, matrices = 1024 * 200, SHAPE.parameters - SHAPE.root / 2
    attention = 4 * SHAPE.layers * SHAPE.hidden * 100
    by_hand = 4 * tokens * (2 * matrices + attention) / (8 * H100.flops * COMPUTE)
    assert short.seconds["update_actor"] == pytest.approx(by_hand)
    assert short.mfu == pytest.approx(0.75 * COMPUTE)


def test_one_sample_is_bound_by_reading_the_weights() -> None:
    one = replace(layout(1, offload="rollout"), prompts=1, samples=1)
    seconds = predict(SHAPE, one, H100, prompt=10, response=1000, generated=1.0).seconds["gen"]
    assert seconds == pytest.approx(1000 * 2 * SHAPE.parameters / (H100.bandwidth * BANDWIDTH), rel=0.01)


def test_what_costs_more_takes_longer() -> None:
    base = predict(SHAPE, layout(8), H100, **AVERAGE)
    total = sum(base.seconds.values())
    assert sum(predict(SHAPE, layout(4), H100, **AVERAGE).seconds.values()) > 1.5 * total
    dense = predict(SHAPE, replace(layout(8), attention="sdpa"), H100, **AVERAGE)
    assert dense.seconds["update_actor"] > 1.3 * base.seconds["update_actor"]
    always = predict(SHAPE, replace(layout(1), offload="always"), H100, **AVERAGE)
    resident = predict(SHAPE, layout(1), H100, **AVERAGE)
    assert always.seconds["update_actor"] > resident.seconds["update_actor"] + 60
    reference = predict(SHAPE, replace(layout(8), reference=True), H100, **AVERAGE)
    assert reference.seconds["ref"] == pytest.approx(base.seconds["old_log_prob"])
    supervised = predict(SHAPE, replace(layout(8), objective="sft", samples=1), H100, **AVERAGE)
    assert list(supervised.seconds) == ["update_actor"]


def test_verls_recipe_for_a_7b_model_beside_ours() -> None:
    """The table of docs/gpu.md: examples/grpo_trainer/run_qwen2_5-7b_math.sh of verl, with the paper's batch."""
    ours = layout(8)
    theirs = replace(ours, tensor_parallel=2, fused=False, attention="flash_attention_2", reference=True)
    paper = {"prompt": 150.0, "response": 2500.0, "generated": 0.875}
    both = [
        {name: round(s) for name, s in predict(SHAPE, run, H100, **paper).seconds.items()} for run in (ours, theirs)
    ]
    assert both[0] == {"gen": 27, "old_log_prob": 10, "update_weights": 0, "update_actor": 40}
    assert both[1] == {"gen": 19, "old_log_prob": 10, "ref": 10, "update_weights": 0, "update_actor": 40}
    rows = replace(theirs, micro_batch=16 * 9216)  # 16 samples per micro-batch, whatever their length
    peaks = [sum(training_memory(SHAPE, run).values()) / 1e9 for run in (ours, theirs, rows)]
    assert peaks == pytest.approx([36.3, 59.7, 268.2], abs=0.1)


def test_a_run_shows_both_numbers(tmp_path: Path) -> None:
    plan = {
        "shape": asdict(SHAPE),
        "layout": asdict(layout(8)),
        "card": "H100",
        "needs": [{"name": "each GPU while it trains", "needed": 36.3e9, "available": None}],
    }
    (tmp_path / PLAN).write_text(json.dumps(plan))
    data = {
        "response_length/mean": 3000.0,
        "perf/total_num_tokens": 1024 * 3200.0,
        "batch/generated_tokens": 0.875 * 1024 * 3000,
        "timing_s/gen": 100.0,
        "timing_s/update_actor": 60.0,
        "perf/throughput": 2000.0,
        "perf/mfu/actor": 0.3,
        "actor/perf/max_memory_allocated_gb": 35.0,
    }
    slow = {**data, "timing_s/gen": 900.0}  # the first step compiles
    rows = {row.name: row for row in figures(tmp_path, [{"data": slow}, {"data": data}])}
    expected = predict(SHAPE, layout(8), H100, **AVERAGE)
    assert rows["gen"].predicted == pytest.approx(expected.seconds["gen"]) and rows["gen"].measured == 100.0
    assert rows["MFU of the update"].measured == 0.3
    assert rows["memory of a GPU at the peak of an update"].measured == pytest.approx(37.6, abs=0.1)
    assert "| gen | " in table(rows.values()) and "| 100 s |" in table(rows.values())
    assert figures(tmp_path / "none", [{"data": data}]) == []


def test_a_run_without_a_known_card_shows_what_was_measured(tmp_path: Path) -> None:
    plan = {"shape": asdict(SHAPE), "layout": asdict(layout(1)), "card": None, "needs": []}
    (tmp_path / PLAN).write_text(json.dumps(plan))
    data = {"timing_s/gen": 4.0, "perf/throughput": 90.0, "actor/perf/max_memory_allocated_gb": 1.0}
    rows = {row.name: (row.predicted, row.measured) for row in figures(tmp_path, [{"data": data}])}
    assert rows == {
        "gen": (None, 4.0),
        "tokens per second and device": (None, 90.0),
        "memory of the actor's process at the peak of an update": (None, pytest.approx(1.074, abs=0.001)),
    }
