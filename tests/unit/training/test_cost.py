"""What a run costs: where the estimate comes from, when a budget ends a run, and what is refused."""

import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from core.errors import InputError
from core.files import write_json
from core.metric_table import STEP_TOKENS
from training.cost.budget import Budget, BudgetOptions
from training.cost.estimate import cost_figures, cost_plan, throughput_of
from training.cost.usage import Cost, Pace, Rates, measured_pace
from training.resources.fit_check import PLAN
from training.resources.layout import Layout

RATES = Rates(devices=8, price=2.0)
LAYOUT = Layout(
    objective="rl", nodes=1, gpus=8, shards=8, sequence_parallel=1, tensor_parallel=1, micro_batch=4096, offload="none",
    fused=False, packed=True, checkpointing=True, attention="sdpa", utilization=0.5, lora_rank=0, reference=False,
    full_precision=False, prompts=4, samples=8, prompt_length=100, response_length=900, updates=1, max_num_seqs=64,
)  # fmt: skip
PLANNED = {"shape": {"hidden": 8}, "layout": vars(LAYOUT), "card": "H100"}
PLANNED |= {"longest_step": {"seconds": {"gen": 60, "update_actor": 40}}}


def run(folder: Path, steps: int, seconds: float = 10.0, start: float = 30.0, plan: dict | None = None) -> Path:
    """A run of one attempt: ``steps`` of so many seconds and 1,000 tokens after ``start``; the first is slower."""
    (folder / "attempts").mkdir(parents=True)
    write_json(PLANNED if plan is None else plan, folder / PLAN)
    total = int(start + steps * seconds + 5)
    ended = f"2026-01-01T{total // 3600:02}:{total // 60 % 60:02}:{total % 60:02}+00:00"
    write_json({"started": "2026-01-01T00:00:00+00:00", "ended": ended, "status": 0}, folder / "attempts" / "0001.json")
    lines = [
        {"step": step, "data": {"timing_s/step": seconds + 5 * (step == 1), STEP_TOKENS: 1000}}
        for step in range(1, steps + 1)
    ]
    (folder / "attempts" / "0001.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_the_estimate_comes_from_measured_steps_before_the_roofline(tmp_path: Path) -> None:
    new = tmp_path / "new"
    assert throughput_of(new, {**PLANNED, "longest_step": None}) is None
    roofline = throughput_of(new, PLANNED)
    assert (roofline.step_seconds, roofline.step_tokens) == (100, 32 * 1000) and "roofline of H100" in roofline.basis
    run(tmp_path / "other_layout", 4, plan={**PLANNED, "layout": {**vars(LAYOUT), "gpus": 4}})
    assert throughput_of(new, PLANNED) == roofline
    run(tmp_path / "damaged", 4)
    (tmp_path / "damaged" / PLAN).write_text("[")
    assert throughput_of(new, PLANNED) == roofline
    run(tmp_path / "alike", 4)
    alike = throughput_of(new, PLANNED)
    assert (alike.step_seconds, alike.step_tokens, alike.start_seconds) == (10, 1000, pytest.approx(35))
    assert "the steps of alike" in alike.basis
    run(new, 3, seconds=20.0)
    assert (own := throughput_of(new, PLANNED)).basis == "its own steps" and own.step_seconds == 20


def test_an_estimate_and_what_was_spent_are_hours_tokens_and_money(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", 4, seconds=890.0)
    hours = 3595 / 3600
    spent = RATES.spent([folder / "first_stage" / "attempts", folder / "attempts"])
    assert spent == Cost(pytest.approx(hours), pytest.approx(8 * hours), 4000, pytest.approx(16 * hours))
    more = Pace(36.0, 500.0, 72.0, "").of_steps(10, RATES, start=True)
    assert more == Cost(pytest.approx(0.12), pytest.approx(0.96), 5000, pytest.approx(1.92))
    assert str(more) == "5,000 tokens, 0.12 h, 0.96 device-hours, cost 1.92"
    write_json({**PLANNED, **cost_plan(folder, RATES, more)}, folder / PLAN)
    assert cost_plan(folder, RATES, spent)["estimate"]["tokens"] == 5000  # that of the first start stays
    rows = {row.name: (row.predicted, row.measured) for row in cost_figures(folder)}
    assert rows["tokens"] == (5000, 4000)
    assert rows["cost"] == (pytest.approx(1.92), pytest.approx(16 * hours))
    assert cost_figures(tmp_path / "none") == []


def budget(spent: list[Cost], **limits: float) -> Budget:
    """The watch over a run of 10 steps with a checkpoint every 4, whose cost so far is the last of ``spent``."""
    return Budget(BudgetOptions(**limits), RATES, lambda: spent[-1], total=10, save_freq=4)


PACE = Pace(3600.0, 100.0, 1800.0, "")  # an hour and 100 tokens per step, half an hour to start


@pytest.mark.parametrize("limits", [{"hours": 4.5}, {"tokens": 400}, {"money": 72}, {}])
def test_a_run_starts_if_its_budget_reaches_a_checkpoint(limits: dict[str, float]) -> None:
    budget([Cost(0, 0, 0, 0)], **limits).check_start(0, PACE)


@pytest.mark.parametrize(("key", "limit"), [("hours", 4.4), ("tokens", 399), ("money", 71)])
def test_a_run_that_reaches_no_checkpoint_does_not_start(key: str, limit: float) -> None:
    message = rf"next checkpoint, of step 4 of 10: run\.budget\.{key}={limit} .*trainer\.save_freq=4"
    with pytest.raises(InputError, match=message):
        budget([Cost(0, 0, 0, 0)], **{key: limit}).check_start(0, PACE)


def test_a_budget_ends_a_run_at_the_last_checkpoint_that_it_reaches() -> None:
    spent = [Cost(0, 0, 0, 0)]
    watched = budget(spent, hours=9)
    watched.check_start(0, PACE)
    spent.append(Cost(3.5, 0, 300, 0))
    watched.check(0, lambda: PACE)  # no checkpoint yet
    spent.append(Cost(4.5, 0, 400, 0))
    watched.check(4, lambda: PACE)  # 8.5 hours at step 8
    spent.append(Cost(20, 0, 500, 0))
    watched.check(4, lambda: PACE)  # between two checkpoints a stop would lose steps
    with pytest.raises(InputError, match=r"after step 8 of 10: run\.budget\.hours=9 \(22\).*of step 8 is kept"):
        watched.check(8, lambda: PACE)
    watched.check(10, lambda: PACE)  # that was the last one anyway
    with pytest.raises(InputError, match="the next checkpoint, of step 10 of 10"):
        budget(spent, hours=9).check_start(8, None)
    budget(spent, hours=9).check_start(10, None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hours": 0}, r"run\.budget\.hours"),
        ({"tokens": "many"}, r"run\.budget\.tokens"),
        ({"money": 5}, r"run\.budget\.money=5: set run\.device_hour_price"),
        ({"days": 1}, r"run\.budget\.days"),
    ],
)
def test_a_budget_that_means_nothing_is_refused(settings: dict[str, object], message: str) -> None:
    options = {**BudgetOptions().model_dump(), **settings}
    with pytest.raises(InputError, match=message):
        BudgetOptions.of(OmegaConf.create({"run": {"budget": options, "device_hour_price": 0.0}}))


def test_the_pace_is_that_of_the_last_attempt_that_made_steps(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", 3) / "attempts"
    write_json({"started": "2026-01-02T00:00:00+00:00"}, folder / "0002.json")
    assert measured_pace(folder, "").step_seconds == 10
