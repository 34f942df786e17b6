"""Benchmarks that come from the hub: as files of a revision, and as splits of a dataset."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
from hub import serve_hub

ROOT = Path(__file__).resolve().parents[3]


def hub_cache(folder: Path, repository: str, revision: str, content: str) -> None:
    """A download as huggingface_hub keeps it."""
    owner, name = repository.split("/")
    base = folder / f"datasets--{owner}--{name}"
    (base / "snapshots" / revision).mkdir(parents=True)
    (base / "snapshots" / revision / "test.jsonl").write_text(content)


def test_files_come_from_the_hub_at_their_revision(tmp_path):
    """In a process of its own: huggingface_hub reads its settings when it is imported."""
    first, second = "a" * 40, "b" * 40
    hub_cache(tmp_path / "hub", "some/set", first, '{"q": "1+1", "a": "2"}\n')
    hub_cache_more = tmp_path / "hub/datasets--some--set/snapshots" / second
    hub_cache_more.mkdir()
    (hub_cache_more / "test.jsonl").write_text('{"q": "2+2", "a": "4"}\n')
    suite = tmp_path / "suite.yaml"

    def run(revision: str, file: str = "test.jsonl") -> subprocess.CompletedProcess[str]:
        source = f"{{file: {file}, hub: some/set, revision: {revision}, columns: {{problem: q, gold: a}}}}"
        suite.write_text(f"benchmarks: [{{name: mine, group: evals, title: Mine, sources: [{source}]}}]")
        command = [sys.executable, "-m", "evaluation", "suite", "--suite", suite, "--out", tmp_path / "out.parquet"]
        environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)

    for revision, gold in ((first, "2"), (second, "4")):
        assert run(revision).returncode == 0
        assert pq.read_table(tmp_path / "out.parquet")["gold"].to_pylist() == [gold]
    missing = run(first, "other.jsonl")
    assert missing.returncode == 2
    assert f"The hub's some/set at {first} cannot be reached (HF_HUB_OFFLINE is set)" in missing.stderr


def test_a_split_of_the_hub_is_a_benchmark(tmp_path):
    """In a process of its own: huggingface_hub reads its settings when it is imported."""
    configs = "configs:\n- config_name: main\n  data_files:\n  - {split: test, path: main/test.jsonl}\n"
    rows = [{"question": "2+2?", "answer": "2+2=<<2+2=4>>4\n#### 4"}, {"question": "1?", "answer": "#### 1,000"}]
    origin = "hub: openai/gsm8k, revision: main, subset: main"
    columns = "columns: {problem: question, gold: answer}, answer_form: gsm8k"
    command = [sys.executable, "-m", "evaluation", "suite", "--suite", "suite.yaml", "--out", "out.parquet"]

    def run(split: str) -> subprocess.CompletedProcess[str]:
        source = f"{{{origin}, split: {split}, {columns}}}"
        suite = f"benchmarks: [{{name: mine, group: evals, title: Mine, sources: [{source}]}}]"
        (tmp_path / "suite.yaml").write_text(suite)
        environment = {**os.environ, **hub.environment(), "HF_HOME": str(tmp_path), "HF_DATASETS_OFFLINE": "0"}
        environment["PYTHONPATH"] = str(ROOT)
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)

    with serve_hub() as hub:
        files = {"README.md": f"---\n{configs}---\n".encode()}
        files["main/test.jsonl"] = "\n".join(map(json.dumps, rows)).encode()
        hub.repositories["datasets/openai/gsm8k"] = [files]
        done = run("test")
        assert done.returncode == 0, done.stderr
        assert pq.read_table(tmp_path / "out.parquet")["gold"].to_pylist() == ["4", "1,000"]
        other = run("validation")
        assert other.returncode == 2 and "openai/gsm8k (split 'validation', subset main" in other.stderr
