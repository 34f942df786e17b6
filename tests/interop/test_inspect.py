"""Logs of Inspect are read by Inspect itself: the library, its command line and its viewer's server."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from inspect_ai.log import (
    list_eval_logs,
    read_eval_log,
    read_eval_log_sample,
    read_eval_log_sample_summaries,
)

from evaluation.__main__ import main
from evaluation.statistics.benchmark_scores import summarize

INSPECT = Path(sys.executable).with_name("inspect")


@pytest.fixture(scope="module")
def logs(evaluation, tmp_path_factory) -> dict[str, str]:
    """Log files by benchmark."""
    out = tmp_path_factory.mktemp("logs")
    assert (
        main(
            [
                "export",
                "inspect",
                "--samples",
                str(evaluation.graded),
                "--suite",
                str(evaluation.suite),
                "--out",
                str(out),
            ]
        )
        == 0
    )
    return {info.task.replace("-", "_"): info.name.removeprefix("file://") for info in list_eval_logs(str(out))}


def test_inspect_reads_every_sample_and_the_scores_of_the_scorecard(evaluation, logs):
    assert logs.keys() == {"sums_long", "choices"}
    for name, file in logs.items():
        log = read_eval_log(file)
        summary = summarize(pq.read_table(evaluation.graded / f"{name}.parquet"))
        (score,) = log.results.scores
        metrics = {metric: value.value for metric, value in score.metrics.items()}
        assert log.status == "success" and log.eval.task == name and log.eval.config.epochs == summary.k == 3
        assert metrics["accuracy"] == summary.mean and metrics["stderr"] == summary.standard_error
        assert metrics["maj@3"] == summary.majority and metrics["pass@2"] == summary.pass_at[2]
        assert (log.plan.config.temperature, log.plan.config.max_tokens, log.plan.config.seed) == (0.6, 64, 1)
        assert log.eval.metadata["checkpoint"] == "c" * 64 and len(log.eval.metadata["problems_digest"]) == 64
        rows = {(row["id"], row["sample"] + 1): row for row in evaluation.rows(name)}
        assert rows.keys() == {(sample.id, sample.epoch) for sample in log.samples}
        for sample in log.samples:
            row, grade = rows[sample.id, sample.epoch], sample.scores[score.name]
            assert (sample.input, sample.output.completion) == (row["prompt"], row["response"])
            assert (sample.target, grade.answer, grade.explanation) == (row["gold"], row["extracted"], row["reason"])
            assert (grade.value == "C") == (row["score"] == 1) and grade.metadata["verdict"] == row["verdict"]
            assert sample.output.usage.output_tokens == row["tokens"]
            assert read_eval_log_sample(file, sample.id, sample.epoch) == sample
        assert len(read_eval_log_sample_summaries(file)) == len(rows)


def test_the_accuracy_is_what_inspect_computes_from_the_samples(logs):
    from inspect_ai.scorer import value_to_float

    to_float = value_to_float()
    for file in logs.values():
        log = read_eval_log(file)
        values = [to_float(next(iter(sample.scores.values())).value) for sample in log.samples]
        assert sum(values) / len(values) == pytest.approx(log.results.scores[0].metrics["accuracy"].value, abs=1e-12)


def test_the_command_line_dumps_a_log(logs):
    done = subprocess.run([INSPECT, "log", "dump", logs["choices"]], capture_output=True, text=True, check=True)
    dumped = json.loads(done.stdout)
    assert dumped["samples"][0]["id"] == "a/b \u00e9"


def test_the_viewer_lists_and_serves_the_logs(logs):
    folder = Path(logs["choices"]).parent
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [INSPECT, "view", "start", "--log-dir", folder, "--port", str(port)]
    with subprocess.Popen(
        [*map(str, command)], env={**os.environ, "BROWSER": "true"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as viewer:
        try:
            listed = _get(f"http://127.0.0.1:{port}/api/logs")
            names = [Path(entry["name"]).name for entry in listed["files"]]
            assert sorted(names) == sorted(file.name for file in folder.iterdir())
            address = f"http://127.0.0.1:{port}/api/logs/{urllib.request.quote(str(logs['choices']), safe='')}"
            assert _get(f"{address}?header-only=1")["eval"]["task"] == "choices"
        finally:
            viewer.terminate()


def _get(address: str) -> dict:
    for _ in range(120):
        try:
            with urllib.request.urlopen(address, timeout=10) as reply:
                return json.load(reply)
        except ConnectionRefusedError:
            time.sleep(0.25)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.25)
    raise AssertionError(f"{address}: no answer")
