"""Relative paths in settings start at the folder of their layer: the profile's, or the current one."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from evaluation.commands import Difficulty
from grading.verifiers.spec import read_spec
from pipelines.embedding import luffy_definitions
from pipelines.settings import load

FUNCTION = {"type": "python", "path": "{here}/mine.py:f"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with files of the user's."""
    for name in [name for name in os.environ if name.startswith("LUFFY")]:
        monkeypatch.delenv(name)
    for name, text in (("rows.jsonl", "{}"), ("mine.yaml", "defaults: [luffy]"), ("mine.py", ""), ("my mine.py", "")):
        (tmp_path / name).write_text(text)
    (tmp_path / "suites").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def dumped(key: str, value: str) -> str:
    """The setting ``key`` as JSON, with only what was set of it."""
    section, name = key.split(".", 1)
    settings = load("embedded", [f"{key}={value}"]).model_dump(mode="json", exclude_unset=True)[section]
    for part in name.split("."):
        settings = settings[part]
    return json.dumps(settings)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("targets.source", "rows.jsonl", ["{here}/rows.jsonl"]),
        ("targets.source", "r*.jsonl", ["{here}/r*.jsonl"]),
        (
            "targets.source",
            "[s3://bucket/rows.parquet, open-r1/OpenR1-Math-220k]",
            ["s3://bucket/rows.parquet", "open-r1/OpenR1-Math-220k"],
        ),
        ("benchmarks.roots", "[suites, not/there]", ["{here}/suites", "{here}/not/there"]),
        ("model.source", "suites", "{here}/suites"),
        ("storage.root", "not/there/yet", "{here}/not/there/yet"),
        ("training.recipe", "mine.yaml", "{here}/mine.yaml"),
        ("training.config.method.type", "mine.py:f", "{here}/mine.py:f"),
        ("training.config.run.trackers", "[tensorboard, mine.py:f]", ["tensorboard", "{here}/mine.py:f"]),
        ("training.config.run.note", "luffy", "luffy"),
        ("tools.use", "[calculator]", [{"type": "calculator"}]),
        ("training.config.method.teacher.model", "suites", "{here}/suites"),
        (
            "training.config.first_stage.set",
            "['method.type=my mine.py:f', data.shuffle=true]",
            ['method.type="{here}/my mine.py:f"', "data.shuffle=true"],
        ),
    ],
)
def test_what_is_in_the_folder_is_meant(here: Path, key: str, value: str, expected: Any):
    assert dumped(key, value) == json.dumps(expected).replace("{here}", str(here))


def test_the_functions_of_verifiers_are_found_wherever_they_stand_in_a_spec(here: Path):
    python = "{type: python, path: mine.py:f}"
    inner = f"{{type: all_of, verifiers: [math, {{type: weighted, verifiers: [{{verifier: {python}}}]}}]}}"
    (here / "mine.py").write_text("def f(data_source, solution_str, ground_truth, extra_info): return 1")
    source = load("embedded", [f"targets.source=[{{path: rows.jsonl, verifier: {inner}}}]"]).targets.sources[0]
    assert f"{here}/mine.py:f" in json.dumps(source.spec.to_json())
    request = Difficulty(samples=Path("s"), out=Path("o"), verifier=python)
    assert read_spec(request.verifier, "it").options["path"] == f"{here}/mine.py:f"


def test_what_is_beside_a_profile_is_found_from_every_folder(here: Path, monkeypatch: pytest.MonkeyPatch):
    data = here / "data"
    data.mkdir()
    (data / "mine.py").write_text("def f(trace): return None\n")
    (data / "mine.yaml").write_text("defaults:\n  - luffy\n")
    (data / "below.yaml").write_text("training: {recipe: mine.yaml}\n")
    benchmark = {"name": "mine", "group": "evals", "title": "Mine", "sources": [{"file": "mine.jsonl"}]}
    (data / "mine.jsonl").write_text("{}")
    profile = {"base": "below.yaml", "targets": {"filters": ["mine.py:f"]}, "suite": {"benchmarks": [benchmark]}}
    (data / "profile.yaml").write_text(json.dumps(profile))
    settings = load("data/profile.yaml", ["benchmarks.roots=[suites]"])
    assert settings.targets.filters == [f"{data}/mine.py:f"]
    assert settings.training.recipe == f"{data}/mine.yaml"
    assert settings.suite.entries()[0].sources[0].file == f"{data}/mine.jsonl"
    assert settings.benchmarks.roots == [f"{here}/suites"]
    monkeypatch.chdir("/")
    assert luffy_definitions(data / "profile.yaml").assets


def test_the_profile_of_a_folder_needs_no_option(here: Path, monkeypatch: pytest.MonkeyPatch):
    (here / "luffy.yaml").write_text("base: small\ntraining: {seed: 3}\n")
    (here / "other.yaml").write_text("training: {seed: 4}\n")
    assert (load().training.seed, load().suite.name) == (3, "paper")
    monkeypatch.setenv("LUFFY_PROFILE", "other.yaml")
    monkeypatch.setenv("LUFFY__TARGETS__SOURCE", "[rows.jsonl]")
    assert (load().training.seed, load("luffy.yaml").training.seed) == (4, 3)
    assert load("luffy.yaml", ["training.seed=5"]).training.seed == 5
    assert load().targets.paths == [f"{here}/rows.jsonl"]
