"""Relative paths on the command line are of the user's folder."""

import json
import os

import pytest

from core.errors import InputError
from evaluation.command_requests import DifficultyRequest
from grading.spec_values import read_spec
from pipelines.cli.run import configure
from pipelines.cli.user_paths import from_user_folder, profile_from_user_folder
from pipelines.definitions.settings import load_settings

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
        ("benchmarks.roots", "[suites]", ["{here}/suites"]),
        ("model.source", "suites", "{here}/suites"),
        ("storage.root", "not/there/yet", "{here}/not/there/yet"),
        ("training.overrides", "[a.seed=1, r.path=rows.jsonl]", ["a.seed=1", "r.path={here}/rows.jsonl"]),
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
        ("targets.source", "s3://bucket/rows.parquet"),
        ("targets.source", "{path: embedded, verifier: {type: python, path: not_here.py:f}}"),
        ("targets.source", "{path: embedded, verifier: {type: python, path: a.module:f}}"),
        ("targets.min_rows", "3"),
        ("storage.root", "s3://bucket/outputs"),
        ("training.overrides", "[rows.jsonl]"),
    ],
)
def test_what_is_no_path_here_stays(tmp_path, monkeypatch, key, value):
    (tmp_path / "rows.jsonl").write_text("{}")
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
    assert json.loads(os.environ["LUFFY__BENCHMARKS__ROOTS"]) == [str(tmp_path)]  # of the profile
    monkeypatch.setenv("LUFFY__TARGETS__SOURCE", "[rows.jsonl")
    with pytest.raises(InputError, match="variable LUFFY__TARGETS__SOURCE"):
        configure(None, [])


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
