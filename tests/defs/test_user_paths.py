"""Relative paths on the command line are of the user's folder."""

import json
import os

import pytest

from core.errors import InputError
from evaluation.command_requests import DifficultyRequest
from grading.spec_values import read_spec
from pipelines.cli.run import configure
from pipelines.definitions.profile_settings import load_settings, read_settings
from pipelines.user_paths import from_user_folder, profile_from_user_folder

FUNCTION = {"type": "python", "path": "{here}/mine.py:f"}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("targets.source", "rows.jsonl", "{here}/rows.jsonl"),
        ("targets.source", "r*.jsonl", "{here}/r*.jsonl"),
        ("targets.source", "[embedded, rows.jsonl]", ["embedded", "{here}/rows.jsonl"]),
        ("targets.source", "{path: rows.jsonl, weight: 2}", {"path": "{here}/rows.jsonl", "weight": 2}),
        (
            "targets.source",
            "[{path: rows.jsonl, verifier: {type: python, path: mine.py:f}}, {path: embedded, verifier: rows.jsonl}]",
            [
                {"path": "{here}/rows.jsonl", "verifier": {"type": "python", "path": "{here}/mine.py:f"}},
                {"path": "embedded", "verifier": "rows.jsonl"},
            ],
        ),
        (
            "targets.source",
            "[{path: a/b, verifier: {type: all_of, verifiers: [math, {type: python, path: mine.py:f}]}}, "
            "{path: a/b, verifier: {type: weighted, verifiers: [{verifier: {type: python, path: mine.py:f}}]}}]",
            [
                {"path": "a/b", "verifier": {"type": "all_of", "verifiers": ["math", FUNCTION]}},
                {"path": "a/b", "verifier": {"type": "weighted", "verifiers": [{"verifier": FUNCTION}]}},
            ],
        ),
        (
            "suite.benchmarks",
            "[{name: a, verifier: {type: python, path: mine.py:f}}]",
            [{"name": "a", "verifier": FUNCTION}],
        ),
        (
            "suite.benchmarks",
            "[{sources: [{file: rows.jsonl}, {file: rows.jsonl, hub: a/b}, {file: x}]}]",
            [{"sources": [{"file": "{here}/rows.jsonl"}, {"file": "rows.jsonl", "hub": "a/b"}, {"file": "x"}]}],
        ),
        ("benchmarks.roots", "[suites]", ["{here}/suites"]),
        ("model.source", "suites", "{here}/suites"),
        ("storage.root", "not/there/yet", "{here}/not/there/yet"),
        ("training.overrides", "[a.seed=1, r.path=rows.jsonl]", ["a.seed=1", "r.path={here}/rows.jsonl"]),
        (
            "training.overrides",
            "['run.trackers=[tensorboard,mine.py:f]', method.type=mine.py:f]",
            ["run.trackers=[tensorboard,{here}/mine.py:f]", "method.type={here}/mine.py:f"],
        ),
        ("training.recipe", "mine.yaml", "{here}/mine.yaml"),
        ("training.overrides", "[teacher.model=suites]", ["teacher.model={here}/suites"]),
        ("training.overrides", """['method.type="my mine.py:f"']""", ["method.type='{here}/my mine.py:f'"]),
        (
            "training.overrides",
            """['first_stage.set=["method.type=my mine.py:f"]']""",
            ["""first_stage.set=["method.type='{here}/my mine.py:f'"]"""],
        ),
        ("targets.filters", "[typo.py:f]", ["{here}/typo.py:f"]),  # so that the message names the user's folder
    ],
)
def test_what_is_in_the_users_folder_is_meant(tmp_path, monkeypatch, key, value, expected):
    (tmp_path / "rows.jsonl").write_text("{}")
    (tmp_path / "suites").mkdir()
    (tmp_path / "mine.yaml").write_text("{}")
    (tmp_path / "mine.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert from_user_folder(key, value, "here") == json.dumps(expected).replace("{here}", str(tmp_path))
    assert profile_from_user_folder("mine.yaml") == str(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("targets.source", "embedded"),
        ("targets.source", "open-r1/OpenR1-Math-220k"),
        ("targets.source", "x" * 300),
        ("targets.source", "s3://bucket/rows.parquet"),
        ("targets.source", "{path: embedded, verifier: {type: python, path: a.module:f}}"),
        ("targets.min_rows", "3"),
        ("storage.root", "s3://bucket/outputs"),
        ("training.overrides", "[rows.jsonl]"),
        ("training.overrides", f"[run.note={'x' * 300}]"),
        ("training.overrides", "[teacher.model=base, teacher.model=a/hub-id, run.note=luffy]"),
        ("training.recipe", "luffy"),  # and no folder of that name
        ("suite.name", "luffy"),
    ],
)
def test_what_is_no_path_here_stays(tmp_path, monkeypatch, key, value):
    (tmp_path / "rows.jsonl").write_text("{}")
    (tmp_path / "luffy").mkdir()
    (tmp_path / "base").mkdir()
    monkeypatch.chdir(tmp_path)
    assert from_user_folder(key, value, "here") == value
    assert profile_from_user_folder("embedded") == "embedded"


def test_variables_of_the_environment_are_seen_from_the_users_folder(tmp_path, monkeypatch):
    (tmp_path / "rows.jsonl").write_text("{}")
    profile = {"benchmarks": {"roots": ["."]}, "targets": {"source": ["other.jsonl"]}}
    (tmp_path / "mine.yaml").write_text(json.dumps(profile))
    (tmp_path / "other.jsonl").write_text("{}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LUFFY_PROFILE", "mine.yaml")
    monkeypatch.setenv("LUFFY__TARGETS__SOURCE", "[rows.jsonl]")
    monkeypatch.setenv("LUFFY__TARGETS__MIN_ROWS", "3")
    monkeypatch.delenv("LUFFY__BENCHMARKS__ROOTS", raising=False)
    monkeypatch.setattr(os, "environ", {**os.environ})
    configure(None, [])
    assert os.environ["LUFFY_PROFILE"] == str(tmp_path / "mine.yaml")
    assert json.loads(os.environ["LUFFY__TARGETS__SOURCE"]) == [str(tmp_path / "rows.jsonl")]
    assert os.environ["LUFFY__TARGETS__MIN_ROWS"] == "3"
    assert load_settings().benchmarks.roots == [str(tmp_path)]  # of the profile
    monkeypatch.setenv("LUFFY__TARGETS__SOURCE", "[rows.jsonl")
    with pytest.raises(InputError, match="variable LUFFY__TARGETS__SOURCE"):
        configure(None, [])


def test_what_is_beside_a_profile_is_found_from_every_folder(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.py").write_text("def f(trace): return None\n")
    (tmp_path / "data" / "mine.yaml").write_text("defaults:\n  - luffy\n")
    (tmp_path / "data" / "below.yaml").write_text(json.dumps({"training": {"recipe": "mine.yaml"}}))
    profile = {"base": "below.yaml", "targets": {"filters": ["mine.py:f"]}, "suite": {"name": "suite.yaml"}}
    (tmp_path / "data" / "profile.yaml").write_text(json.dumps(profile))
    (tmp_path / "suite.yaml").write_text("benchmarks: []\n")  # in the user's folder, and not beside the profile
    embedded = read_settings(str(tmp_path / "data" / "profile.yaml"), {})
    monkeypatch.setattr(os, "environ", {**os.environ})
    monkeypatch.chdir(tmp_path)
    configure("data/profile.yaml", [])
    monkeypatch.chdir("/")
    for settings in (embedded, load_settings()):
        assert settings.targets.filters == [f"{tmp_path}/data/mine.py:f"]
        assert settings.training.recipe == f"{tmp_path}/data/mine.yaml"
    assert load_settings().suite.name == f"{tmp_path}/suite.yaml"


def test_a_verifiers_file_is_found_from_any_process(tmp_path, monkeypatch):
    """The settings name the user's function by absolute paths, whatever folder they are read in afterwards."""
    (tmp_path / "data").mkdir()
    (tmp_path / "mine.py").write_text("def f(data_source, solution_str, ground_truth, extra_info): return 1")
    python = {"type": "python", "path": "mine.py:f"}
    benchmark = {"name": "mine", "group": "evals", "title": "Mine", "verifier": {**python, "path": "../mine.py:f"}}
    suite = {"benchmarks": [{**benchmark, "sources": [{"file": "mine.jsonl"}]}]}
    (tmp_path / "data" / "suite.yaml").write_text(json.dumps(suite))
    profile = {"suite": {"name": "data/suite.yaml"}, "targets": {"source": [{"path": "x.jsonl", "verifier": python}]}}
    (tmp_path / "data" / "mine.yaml").write_text(json.dumps(profile))
    monkeypatch.setattr(os, "environ", {**os.environ})
    monkeypatch.chdir(tmp_path)
    configure("data/mine.yaml", [])
    monkeypatch.chdir("/")
    settings, path = load_settings(), f"{tmp_path}/mine.py:f"
    assert settings.targets.sources[0].spec.options["path"] == path
    assert settings.benchmark_suite()[0].spec.options["path"] == path
    monkeypatch.chdir(tmp_path)
    request = DifficultyRequest(samples="s", out="o", verifier="{type: python, path: mine.py:f}")
    assert read_spec(request.verifier, "it").options["path"] == path
