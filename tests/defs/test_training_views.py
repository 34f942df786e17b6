"""What the UI shows of a training at its end: curves, alone and beside the champion's, time by phase, and samples."""

import base64
import json
import re
from pathlib import Path

import pytest

from assets.shared.live_metrics import POINTS, observed
from assets.shared.training_metadata import SAMPLES, against_champion, curves, numbers, samples
from core.files import write_json
from core.metric_table import View, title_of, titles
from evaluation.promotion.champions import Registry

DRAWN, COMPARED = titles(View.POLICY), titles(View.CHAMPION)


def test_every_curve_that_was_recorded_is_drawn_and_time_is_told_by_phase() -> None:
    data = dict.fromkeys(DRAWN, 0.5) | {"timing_s/step": 10.0, "timing_s/gen": 6.0, "timing_s/update_actor": 3.0}
    records = [{"step": step, "data": data} for step in (1, 2, 3)]
    found = numbers(records)
    assert curves(records)["curves"].md_str.count("data:image/svg+xml") == len(DRAWN)
    assert found["time by phase"].md_str.splitlines()[2:] == [
        "| generation | 18.0 | 60.0% |",
        "| update | 9.0 | 30.0% |",
        "| other | 3.0 | 10.0% |",
    ]
    assert found["reward"] == 0.5


@pytest.mark.parametrize("total", [1, 2, 80, 10_800])
def test_the_first_and_the_last_step_are_observed_and_not_many_between(total: int) -> None:
    steps = [step for step in range(1, total + 1) if observed(step, total)]
    assert (steps[0], steps[-1]) == (1, total) and len(steps) <= POINTS


def test_drift_is_drawn_for_each_age_that_the_run_had() -> None:
    data = {"timing_s/step": 10.0, "drift/age_0": 0.0, "drift/age_10": 0.2, "drift/age_2": 0.1}
    pictures = curves([{"step": step, "data": data} for step in (1, 2)])["curves"].md_str
    assert pictures.count("data:image/svg+xml") == 4


def test_samples_of_the_first_and_the_last_step_are_shown_escaped(tmp_path: Path) -> None:
    for step in (1, 2, 10):
        row = {"input": "1+1=?", "output": "<script>|\n`x`", "gts": "2", "score": 1.0, "prefix_length": 7}
        (tmp_path / f"{step}.jsonl").write_text((json.dumps(row) + "\n") * (SAMPLES + 3))
    lines = samples(tmp_path)["samples"].md_str.splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == ["| 1"] * SAMPLES + ["| 10"] * SAMPLES
    assert lines[0] == "| 1 | 1+1=? | &lt;script&gt;\\| \\`x\\` | 2 | 7 | 1 |"
    assert samples(tmp_path / "none") == {}


def records(**values: float) -> list[dict]:
    return [{"step": step, "data": {name: value * step for name, value in values.items()}} for step in (1, 2, 3)]


RECORDED = {name: 0.1 * number for number, name in enumerate(COMPARED, 1)}


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    """Of a storage whose champion recorded every metric at each of three steps."""
    run = tmp_path / "training" / "policy" / "run"
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records(**RECORDED)))
    record = {"policy": str(run / "policy"), "checkpoint": "c" * 64, "scores": {}, "time": "2026-01-01T00:00:00+00:00"}
    result = Registry(tmp_path)
    write_json({**record, "decision": {"promoted": True, "reasons": []}}, result.pointer)
    return result


def compared(registry: Registry, run: list[dict], digest: str = "d" * 64) -> str:
    return against_champion(registry, digest, run)["against the champion"].md_str


def test_the_metrics_of_this_view_are_drawn_beside_the_champions(registry: Registry) -> None:
    text = compared(registry, records(**{name: 2 * value for name, value in RECORDED.items()}))
    svgs = [base64.b64decode(data).decode() for data in re.findall(r"base64,([\w+/=]+)", text)]
    assert len(svgs) == len(COMPARED)
    for svg, name, value in zip(svgs, COMPARED, RECORDED.values(), strict=True):
        assert title_of(name) in svg
        assert f"champion cccccccccccccccc: {3 * value:.4g} at the end" in svg
        assert f"this run: {6 * value:.4g} at the end" in svg


def test_a_metric_that_one_of_the_runs_lacks_is_drawn_for_the_other(registry: Registry) -> None:
    text = compared(registry, records(**{"actor/entropy": 0.3}))
    assert text.count("data:image/svg+xml") == len(COMPARED)
    (registry.folder.parent / "training" / "policy" / "run" / "metrics.jsonl").write_text("")
    assert compared(registry, records(**{"actor/entropy": 0.3})).count("data:image/svg+xml") == 1
    assert compared(registry, records(**{"actor/sft_loss": 0.3})).startswith("Neither this run nor champion cccc")


def test_without_the_champions_curves_a_sentence_says_why(registry: Registry, tmp_path: Path) -> None:
    run = records(**RECORDED)
    assert compared(registry, run, digest="c" * 64) == "This policy is the champion."
    (tmp_path / "training" / "policy" / "run" / "metrics.jsonl").write_text("[1, <b>\n")
    damaged = compared(registry, run)
    assert "cannot be shown" in damaged and "metrics.jsonl, line 1" in damaged and "<b>" not in damaged
    (tmp_path / "training" / "policy" / "run" / "metrics.jsonl").unlink()
    assert "metrics.jsonl: no such file" in compared(registry, run)
    registry.pointer.write_text("{}")
    assert "champion.json: not a decision" in compared(registry, run)
    registry.pointer.unlink()
    assert compared(registry, run).startswith("There is no champion to compare with")
