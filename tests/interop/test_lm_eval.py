"""Exported tasks run in the real lm-evaluation-harness, with our prompts and our verdicts."""

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

from evaluation.__main__ import main

PROJECT = Path(__file__).resolve().parents[2]


class Stored(LM):
    """Answers a prompt with the responses that are stored for it, in their order."""

    def __init__(self, rows: list[dict]) -> None:
        super().__init__()
        self.responses = defaultdict(list)
        for row in sorted(rows, key=lambda row: row["sample"]):
            self.responses[row["prompt"]].append(row["response"])
        self.asked = []

    def generate_until(self, requests, disable_tqdm=False):
        self.asked += [request.args for request in requests]
        return [self.responses[request.args[0]].pop(0) for request in requests]

    def loglikelihood(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


def export(evaluation, out: Path, *arguments: str) -> Path:
    assert main(["export", "lm-eval", "--suite", str(evaluation.suite), "--out", str(out), *arguments]) == 0
    return out


def test_stored_responses_get_our_verdicts_for_our_prompts(evaluation, tmp_path):
    export(evaluation, tmp_path / "made", "--samples", str(evaluation.graded))
    shutil.move(tmp_path / "made", tmp_path / "moved")  # the folder does not know where it is
    rows = [row for name in ("sums_long", "choices") for row in evaluation.rows(name)]
    model = Stored(rows)
    results = simple_evaluate(
        model,
        tasks=["luffy"],
        task_manager=TaskManager(include_path=str(tmp_path / "moved"), include_defaults=False),
        log_samples=True,
        bootstrap_iters=0,
    )
    assert sorted(args[0] for args in model.asked) == sorted(row["prompt"] for row in rows)
    assert all(args[1]["max_gen_toks"] == 64 and args[1]["temperature"] == 0.6 for args in model.asked)
    means = []
    for name in ("sums_long", "choices"):
        scores = defaultdict(list)
        for row in evaluation.rows(name):
            scores[row["id"]].append(row["score"])
        shares = {problem: sum(values) / len(values) for problem, values in scores.items()}
        samples = results["samples"][f"luffy_{name}"]
        assert {sample["doc"]["id"]: sample["accuracy"] for sample in samples} == pytest.approx(shares)
        means.append(sum(shares.values()) / len(shares))
        assert results["results"][f"luffy_{name}"]["accuracy,all"] == pytest.approx(means[-1])
    assert 0 < means[0] < 1
    assert results["results"]["luffy"]["accuracy,all"] == pytest.approx(sum(means) / 2)  # of benchmarks, alike


def test_the_command_line_asks_the_messages_of_the_suite_through_a_chat_template(evaluation, tmp_path):
    export(evaluation, tmp_path / "tasks")
    command = [Path(sys.executable).with_name("lm_eval"), "--model", "dummy", "--include_path", tmp_path / "tasks"]
    command += ["--tasks", "luffy", "--log_samples", "--output_path", tmp_path / "out"]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "luffy_choices" in done.stdout or "Choices" in done.stdout
    (logged,) = (tmp_path / "out").rglob("samples_luffy_choices_*.jsonl")
    (sample,) = map(json.loads, logged.read_text().splitlines())
    context = sample["arguments"]["gen_args_0"]["arg_0"]
    assert "Use {{braces}} and \\boxed{}." in context and context.endswith("A) rose\nB) sky")
    assert sample["accuracy"] == 0.0


def test_without_the_checkout_the_error_says_what_to_do(evaluation, tmp_path):
    export(evaluation, tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", "import lm_eval_grader"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode and "set PYTHONPATH to a checkout of LUFFY on Dagster" in done.stderr
