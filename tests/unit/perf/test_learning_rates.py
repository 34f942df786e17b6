"""The problems that learning rates are chosen on, and the settings of the trainings."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from perf.trainings.learning_rates import draw_problems, overrides_of
from pipelines.definitions.profile_settings import load_settings
from pipelines.variables import PROFILE


def test_no_problem_of_the_comparison_is_in_the_validation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [json.dumps({"problem": f"What is {number} + 1?", "answer": number + 1}) for number in range(100)]
    (tmp_path / "mine.jsonl").write_text("\n".join(rows))
    source = {"file": "mine.jsonl", "columns": {"problem": "problem", "gold": "answer"}}
    benchmark = {"name": "mine", "group": "evals", "title": "Mine", "sample": 60, "sources": [source]}
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump({"benchmarks": [benchmark]}))
    profile = {"suite": {"name": str(tmp_path / "suite.yaml")}, "benchmarks": {"roots": [str(tmp_path)]}}
    (tmp_path / "profile.yaml").write_text(yaml.safe_dump(profile))
    monkeypatch.setenv(PROFILE, str(tmp_path / "profile.yaml"))
    assert draw_problems(load_settings(), tmp_path) == "mine"
    validation, unseen = (
        set(pq.read_table(tmp_path / f"{name}.parquet")["problem"].to_pylist()) for name in ("suite", "unseen")
    )
    assert 0 < len(validation) < 60 and len(unseen) == 60 + len(validation) and validation < unseen


@pytest.mark.parametrize("profile", ["comparison", "words"])
def test_a_recipe_gets_the_overrides_it_reads_with_two_thirds_of_the_steps(
    profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROFILE, profile)
    settings = load_settings()
    luffy, sft = (overrides_of(settings, recipe, "3e-4") for recipe in ("luffy", "sft"))
    for overrides in (luffy, sft):
        assert "actor_rollout_ref.actor.optim.lr=3e-4" in overrides
    assert any("rollout.n=" in text for text in luffy) and not any("rollout.n=" in text for text in sft)
    name = "trainer.total_training_steps="
    full = next(int(text.removeprefix(name)) for text in settings.training.overrides if text.startswith(name))
    assert f"{name}{full * 2 // 3}" in luffy
