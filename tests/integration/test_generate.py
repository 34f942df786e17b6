"""Generation by a real vLLM on a tiny random model; runs in the training interpreter only."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("vllm")

from generation_runs import command, run
from manifests import manifest, targets

from core.files import write_table
from core.model.lineage_file import write_manifest
from core.schemas import SAMPLE
from evaluation.benchmarks.benchmark_problems import read_suite
from evaluation.benchmarks.suite import load_suite

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(900)
def test_samples_are_complete_reproducible_and_independent_of_their_batch(model, suite, tmp_path, cache):
    options = (
        "--model",
        model,
        "--suite",
        suite,
        "--samples",
        2,
        "--temperature",
        1,
        "--set",
        "evaluation.top_p=1",
        "--max-tokens",
        40,
    )
    both = run(*options, "--cache", cache, "--out", tmp_path / "both")
    tables = {name: pq.read_table(tmp_path / "both" / f"{name}.parquet") for name in ("arithmetic", "arithmetic_long")}
    for name, table in tables.items():
        assert table.schema.names == SAMPLE.names
        assert table.num_rows == 24
        assert len(set(table["seed"].to_pylist())) == 24
        assert set(table["finish_reason"].to_pylist()) <= {"stop", "length"}
        for row in table.to_pylist():
            assert row["prompt"].endswith("=?<|im_end|>\n<|im_start|>assistant\n")
            assert (row["finish_reason"] == "length") <= (row["tokens"] == 40)
        assert f"generate {name} 24/24, time left " in both.stdout
        assert len(table.schema.metadata[b"checkpoint"]) == 64
        assert table["prompt"][0].as_py().startswith("<|im_start|>user\n")
        assert json.loads(table.schema.metadata[b"template"]) == {
            "name": "training",
            "thinking": True,
            "frame": "<|im_start|>user\n{problem}<|im_end|>\n<|im_start|>assistant\n",
            "training": None,
        }
    assert "nanobind" not in both.stderr
    began = time.monotonic()
    again = run(*options, "--cache", cache, "--out", tmp_path / "again")
    assert time.monotonic() - began < 60  # make bench measures it
    assert "Loading" not in again.stderr  # no vLLM
    for name, table in tables.items():
        assert pq.read_table(tmp_path / "again" / f"{name}.parquet").equals(table)

    # Two replicas under Ray and a third sample: another order, other batches, the same samples.
    run(
        *options,
        "--samples",
        3,
        "--set",
        "evaluation.replicas=2",
        "--cache",
        tmp_path / "other",
        "--out",
        tmp_path / "more",
    )
    # A third sample of one benchmark, where two of each are there: drawn alone, and the same again.
    third = ("--samples", 3, "--benchmarks", "arithmetic_long", "--cache", cache, "--out", tmp_path / "third")
    run(*options, *third)
    assert [file.name for file in (tmp_path / "third").glob("*.parquet")] == ["arithmetic_long.parquet"]
    for name, table in tables.items():
        more = pq.read_table(tmp_path / "more" / f"{name}.parquet")
        assert more.num_rows == 36
        assert [row for row in more.to_pylist() if row["sample"] < 2] == table.to_pylist()
    assert pq.read_table(tmp_path / "third" / "arithmetic_long.parquet").equals(more)
    assert sum(pq.read_metadata(file).num_rows for file in cache.rglob("*.parquet")) == 48 + 12


@pytest.mark.timeout(300)
def test_a_killed_run_goes_on_where_it_was(model, suite, tmp_path, cache):
    options = (
        "--model",
        model,
        "--suite",
        suite,
        "--samples",
        8,
        "--temperature",
        1,
        "--set",
        "evaluation.top_p=1",
        "--max-tokens",
        90,
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    arguments = command(*options, "--cache", cache, "--out", tmp_path / "killed")
    process = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment)
    while "generate" not in process.stdout.readline():
        assert process.poll() is None, "it ended before the first progress line"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    kept = sum(pq.read_metadata(file).num_rows for file in cache.rglob("*.parquet"))
    assert 0 < kept < 192
    done = run(*options, "--cache", cache, "--out", tmp_path / "out")
    assert "generate arithmetic 96/96" in done.stdout
    files = [pq.read_table(file) for file in cache.rglob("*.parquet")]
    assert sum(table.num_rows for table in files) == 192  # none was drawn twice
    assert sum(pq.read_table(file).num_rows for file in (tmp_path / "out").glob("*.parquet")) == 192


@pytest.mark.timeout(300)
def test_a_template_decides_the_prompt_and_one_beyond_the_context_is_kept_as_truncated(model, tmp_path, cache):
    path = tmp_path / "suite.parquet"
    first, second = (load_suite("embedded")[number : number + 1] for number in (0, 1))
    both = [read_suite(first, [], limit=2), read_suite(second, [], limit=2, system_prompt="x" * 200)]
    write_table(pa.concat_tables(both), path)
    options = ("--samples", 1, "--max-tokens", 1, "--template", "qwen", "--cache", cache, "--out", tmp_path / "out")
    run("--model", model, "--suite", path, *options)
    table = pq.read_table(tmp_path / "out" / "arithmetic.parquet")
    assert table["prompt"][0].as_py().startswith("<|im_start|>system\nPlease reason step by step")
    facts = json.loads(table.schema.metadata[b"template"])
    assert (facts["name"], facts["thinking"]) == ("qwen", False)
    rows = pq.read_table(tmp_path / "out" / "arithmetic_long.parquet").to_pylist()
    assert [(row["finish_reason"], row["tokens"], row["response"]) for row in rows] == [("length", 0, "")] * 2


def test_a_checkpoint_says_how_it_was_trained(model, tmp_path):
    from evaluation.generation.model_source import LocalModel

    policy = shutil.copytree(model, tmp_path / "policy")
    config = json.dumps({"system_prompt": "Think."})
    write_manifest(policy, manifest(targets=targets(metadata={"config": config})))
    table = read_suite(load_suite("embedded")[:1], [], limit=1)
    facts = LocalModel(policy, template="training").prompt_record(table)
    assert facts.frame == facts.training
    assert facts.frame.startswith("<|im_start|>system\nThink.<|im_end|>")
    facts = LocalModel(policy, template="tokenizer").prompt_record(table)
    assert facts.frame != facts.training


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_models_are_compared_from_their_folders(model, suite, tmp_path, cache):
    other = shutil.copytree(model, tmp_path / "other")
    (other / "generation_config.json").write_text('{"eos_token_id": 2, "pad_token_id": 0, "note": "another digest"}')
    arguments = ["compare", model, other, "--suite", suite, "--set", "suite.only=[arithmetic]", "--samples", 2]
    arguments += ["--set", "evaluation.max_tokens=8", "--cache", cache, "--out", tmp_path / "graded"]
    done = subprocess.run(
        [sys.executable, "-m", "evaluation", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "arithmetic: 12 problems, avg@2" in done.stdout and "+0.0 [-14.0, +14.0]" in done.stdout
    assert len(list((tmp_path / "graded").glob("*/arithmetic.parquet"))) == 2


def test_the_second_sympy_grader_is_verls():
    from research.second_grader import prime

    assert prime("\\frac{1}{2}", "0.5")[0] == "correct"
    assert prime("3", "4")[0] == "wrong"


@pytest.mark.timeout(300)
def test_more_prompts_start_at_once_than_fit_into_a_step(model) -> None:
    """64 prompts of 90 tokens: a prompt with a seed that is split over two steps ends vLLM on a CPU."""
    code = (
        "import sys\nfrom evaluation.generation.engine import CPU_TOKENS, Engine, EngineOptions, EngineRequest\n"
        "prompts = [tuple(10 + (number + k) % 50 for k in range(90)) for number in range(64)]\n"
        "assert sum(map(len, prompts)) > CPU_TOKENS\n"
        "groups = [[EngineRequest(number, prompt, number)] for number, prompt in enumerate(prompts)]\n"
        "engine = Engine(EngineOptions(sys.argv[1], 90, 2, 0.6, 0.95, False))\n"
        "assert len(list(engine.complete(groups))) == 64"
    )
    done = subprocess.run([sys.executable, "-c", code, model], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
