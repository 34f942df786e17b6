"""What the UI shows of a training at its end: curves, where the time went, samples in which nothing is interpreted."""

import json
from pathlib import Path

from assets.training import CURVES, SAMPLES, _curves, _samples


def test_every_curve_that_was_recorded_is_drawn_and_time_is_told_by_phase() -> None:
    data = dict.fromkeys(CURVES, 0.5) | {"timing_s/step": 10.0, "timing_s/gen": 6.0, "timing_s/update_actor": 3.0}
    found = _curves([{"step": step, "data": data} for step in (1, 2, 3)])
    assert found["curves"].md_str.count("data:image/svg+xml") == len(CURVES)
    assert found["time by phase"].md_str.splitlines()[2:] == [
        "| gen | 18.0 | 60.0% |",
        "| update_actor | 9.0 | 30.0% |",
        "| other | 3.0 | 10.0% |",
    ]
    assert found["reward"] == 0.5


def test_drift_is_drawn_for_each_age_that_the_run_had() -> None:
    data = {"timing_s/step": 10.0, "drift/age_0": 0.0, "drift/age_10": 0.2, "drift/age_2": 0.1}
    pictures = _curves([{"step": step, "data": data} for step in (1, 2)])["curves"].md_str
    assert pictures.count("data:image/svg+xml") == 4


def test_a_supervised_run_has_the_curves_it_recorded() -> None:
    records = [{"step": step, "data": {"timing_s/step": 1.0, "actor/sft_loss": 0.5}} for step in (1, 2)]
    found = _curves(records)
    assert found["curves"].md_str.count("data:image/svg+xml") == 2
    assert "reward" not in found


def test_samples_of_the_first_and_the_last_step_are_shown_escaped(tmp_path: Path) -> None:
    for step in (1, 2, 10):
        row = {"input": "1+1=?", "output": "<script>|\n`x`", "gts": "2", "score": 1.0, "prefix_length": 7}
        (tmp_path / f"{step}.jsonl").write_text((json.dumps(row) + "\n") * (SAMPLES + 3))
    lines = _samples(tmp_path)["samples"].md_str.splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == ["| 1"] * SAMPLES + ["| 10"] * SAMPLES
    assert lines[0] == "| 1 | 1+1=? | &lt;script&gt;\\| \\`x\\` | 2 | 7 | 1 |"
    assert _samples(tmp_path / "none") == {}
