"""Evaluations for other programs: the files themselves. tests/interop reads them with the programs."""

import json
import os
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from core.model.prompts import PromptRecord
from core.schemas import BENCHMARK, ENTRIES_KEY
from evaluation.__main__ import main
from evaluation.export.lm_eval_grader import grade
from evaluation.statistics.benchmark_scores import summarize


@pytest.fixture
def files(graded, tmp_path):
    """(suite file, folder of graded results)."""
    entry = {"name": "b", "group": "ood", "title": "B", "generator": "arithmetic:test", "size": 2, "samples": 2}
    prompt = [{"role": "system", "content": "Box it."}, {"role": "user", "content": "1+1=?"}]
    row = {"benchmark": "b", "id": "p", "problem": "1+1=?", "prompt": prompt, "gold": "7", "verifier": "math"}
    suite = pa.Table.from_pylist([row, {**row, "id": "q"}], schema=BENCHMARK)
    pq.write_table(suite.replace_schema_metadata({ENTRIES_KEY: json.dumps([entry])}), tmp_path / "suite.parquet")
    (tmp_path / "graded").mkdir()
    table = graded({"p": [1, 0], "q": [0, "truncated"]}, checkpoint="c" * 64)
    ends = pa.array(["stop", "content_filter", "unknown", "length"])  # as an endpoint may state them
    table = table.set_column(table.schema.names.index("finish_reason"), "finish_reason", ends)
    pq.write_table(table, tmp_path / "graded" / "b.parquet")
    os.utime(tmp_path / "graded" / "b.parquet", (1e9, 1e9))
    return tmp_path / "suite.parquet", tmp_path / "graded"


def inspect(suite, results, out) -> int:
    return main(["export", "inspect", "--samples", str(results), "--suite", str(suite), "--out", str(out)])


def test_a_log_has_every_sample_and_the_scores(files, tmp_path):
    suite, results = files
    assert inspect(suite, results, tmp_path / "logs") == 0
    (path,) = (tmp_path / "logs").iterdir()
    assert path.name.startswith("2001-09-09T01-46-40+00-00_b_") and path.suffix == ".eval"
    with ZipFile(path) as log:
        header = json.loads(log.read("header.json"))
        samples = [json.loads(log.read(name)) for name in log.namelist() if name.startswith("samples/")]
    summary = summarize(pq.read_table(results / "b.parquet"))
    metrics = {name: metric["value"] for name, metric in header["results"]["scores"][0]["metrics"].items()}
    assert (metrics["accuracy"], metrics["pass@2"]) == (summary.mean, summary.pass_at[2]) == (0.25, 0.5)
    assert [(s["id"], s["epoch"], s["scores"]["math"]["value"]) for s in samples] == [
        ("p", 1, "C"), ("p", 2, "I"), ("q", 1, "I"), ("q", 2, "I"),
    ]  # fmt: skip
    ends = [sample["output"]["choices"][0]["stop_reason"] for sample in samples]
    assert ends == ["stop", "content_filter", "unknown", "max_tokens"]


def test_the_same_results_give_the_same_log(files, tmp_path):
    suite, results = files
    assert inspect(suite, results, tmp_path / "one") == inspect(suite, results, tmp_path / "two") == 0
    (one,), (two,) = (tmp_path / "one").iterdir(), (tmp_path / "two").iterdir()
    assert one.name == two.name and one.read_bytes() == two.read_bytes()


def test_tasks_ask_the_messages_of_the_suite_or_the_prompts_of_samples(files, tmp_path):
    suite, results = files
    assert main(["export", "lm-eval", "--suite", str(suite), "--out", str(tmp_path / "messages")]) == 0
    assert (
        main(
            ["export", "lm-eval", "--suite", str(suite), "--samples", str(results), "--out", str(tmp_path / "prompts")]
        )
        == 0
    )
    asked = {}
    for folder in ("messages", "prompts"):
        rows = [json.loads(line) for line in (tmp_path / folder / "b.jsonl").read_text().splitlines()]
        asked[folder] = [(row["system"], row["text"], row["gold"]) for row in rows]
        task = (tmp_path / folder / "luffy_b.yaml").read_text().replace("!function ", "")
        assert yaml.safe_load(task)["repeats"] == 2
    assert asked["messages"] == [("Box it.", "1+1=?", "7")] * 2
    assert asked["prompts"] == [("", "<user>p=?", "7"), ("", "<user>q=?", "7")]
    assert yaml.safe_load((tmp_path / "prompts" / "luffy.yaml").read_text())["task"] == ["luffy_b"]


def test_samples_of_an_endpoint_are_exported_with_their_messages_and_its_name(files, tmp_path, capsys):
    suite, results = files
    model, messages = "qwen/q3@http://localhost:8000/v1", pq.read_table(suite)["prompt"][0].as_py()
    sampling = {"samples": "until_decided", "temperature": 0.5, "top_p": 1.0, "max_tokens": 9, "seed": 1}
    record = {"checkpoint": model, "model": model, "sampling": json.dumps(sampling)}
    table = pq.read_table(results / "b.parquet").replace_schema_metadata(
        {**record, **PromptRecord("endpoint", thinking=False).metadata()}
    )
    prompts = pa.array([json.dumps(messages)] * len(table))
    table = table.set_column(table.schema.names.index("prompt"), "prompt", prompts)
    pq.write_table(table, results / "b.parquet")
    assert inspect(suite, results, tmp_path / "logs") == 0
    with ZipFile(*(tmp_path / "logs").iterdir()) as log:
        sample, header = (json.loads(log.read(name)) for name in ("samples/p_epoch_1.json", "header.json"))
    assert (header["eval"]["model"], header["eval"]["model_args"]["checkpoint"]) == ("qwen/q3", model)
    assert sample["input"] == messages
    assert [message["role"] for message in sample["messages"]] == ["system", "user", "assistant"]
    capsys.readouterr()
    assert (
        main(["export", "lm-eval", "--suite", str(suite), "--samples", str(results), "--out", str(tmp_path / "tasks")])
        == 0
    )
    assert "--apply_chat_template" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "tasks" / "b.jsonl").read_text().splitlines()]
    assert [(row["system"], row["text"], row["thinking"]) for row in rows] == [("Box it.", "1+1=?", False)] * 2
    task = yaml.safe_load((tmp_path / "tasks" / "luffy_b.yaml").read_text().replace("!function ", ""))
    assert (task["repeats"], task["generation_kwargs"]["temperature"]) == (2, 0.5)


def test_a_task_counts_any_of_several_right_answers():
    doc = {"problem": "x^2=4", "gold": "2", "alternatives": ["-2"], "verifier": "math", "thinking": False}
    doc |= {"benchmark": "b", "fields": "{}"}
    assert grade(doc, [[r"\boxed{-2}", r"\boxed{2}", r"\boxed{3}", "2"]]) == {"accuracy": 0.5}
