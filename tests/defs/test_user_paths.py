"""Relative paths on the command line are of the user's folder."""

import json

import pytest

from pipelines.cli.user_paths import from_user_folder, profile_from_user_folder


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("targets.source", "rows.jsonl", "{here}/rows.jsonl"),
        ("targets.source", "r*.jsonl", "{here}/r*.jsonl"),
        ("targets.source", "[embedded, rows.jsonl]", ["embedded", "{here}/rows.jsonl"]),
        ("targets.source", "{path: rows.jsonl, weight: 2}", {"path": "{here}/rows.jsonl", "weight": 2}),
        ("benchmarks.roots", "[suites]", ["{here}/suites"]),
        ("model.source", "suites", "{here}/suites"),
    ],
)
def test_what_is_in_the_users_folder_is_meant(tmp_path, monkeypatch, key, value, expected):
    (tmp_path / "rows.jsonl").write_text("{}")
    (tmp_path / "suites").mkdir()
    (tmp_path / "mine.yaml").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert from_user_folder(key, value) == json.dumps(expected).replace("{here}", str(tmp_path))
    assert profile_from_user_folder("mine.yaml") == str(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("targets.source", "embedded"),
        ("targets.source", "open-r1/OpenR1-Math-220k"),
        ("targets.source", "s3://bucket/rows.parquet"),
        ("targets.min_rows", "3"),
        ("training.overrides", "[rows.jsonl]"),
    ],
)
def test_what_is_no_path_here_stays(tmp_path, monkeypatch, key, value):
    (tmp_path / "rows.jsonl").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert from_user_folder(key, value) == value
    assert profile_from_user_folder("embedded") == "embedded"
