"""targets/generated with a real model as the teacher: killed, it goes on, and every trace has its place."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from processes import clean_environment, descendants, wait_gone, wait_until
from storages import read_reference

pytest.importorskip("dagster", reason="the graph runs in the orchestration interpreter")

from core.arithmetic import problems
from core.model.token_counts import load_lengths
from targets.prepared_files import read_prepared
from targets.select.split import read_split, reconcile

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "training" / "embedded_model" / "model"
SAMPLES, PROBLEMS = 8, 150


def cached(storage: Path) -> Counter[tuple[str, int]]:
    """How often each sample is in the cache."""
    files = [pq.read_table(file).to_pylist() for file in (storage / "samples").rglob("*.parquet")]
    return Counter((row["prompt_digest"], row["sample"]) for rows in files for row in rows)


def reference(storage: Path, name: str) -> dict[str, Any]:
    return read_reference(storage, f"targets/{name}")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_generation_draws_nothing_twice_and_becomes_targets(tmp_path: Path) -> None:
    storage, file = tmp_path / "storage", tmp_path / "problems.jsonl"
    # The base model solves most short sums.
    lines = [json.dumps({"problem": p.problem, "answer": p.answer}) for p in problems("short", PROBLEMS, 5)]
    file.write_text("\n".join(lines))
    review = tmp_path / "review.csv"
    review.write_text("id,decision,reviewer,note\ngenerated.parquet:0,refuse,Ada,\n")
    profile = tmp_path / "profile.yaml"
    settings = {
        "storage": {"root": str(storage)},
        "generate": {
            "teacher": "training/embedded_model/model",
            "problems": str(file),
            "samples": SAMPLES,
            "temperature": 1.0,
            "top_p": 1.0,
            "max_tokens": 144,
        },
        "targets": {
            "source": [{"path": "generated", "license": "apache-2.0"}, "embedded"],
            "embedded_rows": 60,
            "max_prompt_tokens": 64,
            "max_target_tokens": 144,
            "review": str(review),
        },
        "benchmarks": {"limit": 5},
    }
    profile.write_text(json.dumps(settings))
    command = [
        sys.executable,
        "-m",
        "pipelines.cli.luffy",
        "run",
        "--profile",
        str(profile),
        "--select",
        "+key:targets/train",
    ]
    kept = clean_environment()
    environment = kept | {"PYTHONPATH": str(ROOT), "DAGSTER_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}

    with (tmp_path / "killed.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        wait_until(lambda: process.poll() is not None or list((storage / "samples").rglob("*.parquet")), 400)
        assert process.poll() is None, (tmp_path / "killed.log").read_text()
        pids = [process.pid, *descendants(process.pid)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        process.wait(30)
        wait_gone(pids, 60)
    before = cached(storage)
    assert 0 < len(before) < SAMPLES * PROBLEMS and not (storage / "targets" / "generated").exists()

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    after = cached(storage)
    assert before <= after and len(after) == SAMPLES * PROBLEMS and set(after.values()) == {1}
    generated = pq.read_table(reference(storage, "generated")["path"]).to_pylist()
    assert len(generated) == len({(row["id"], row["sample"]) for row in generated}) == SAMPLES * PROBLEMS
    verified = [number for number, row in enumerate(generated) if row["verdict"] == "correct"]
    assert len(verified) > len(generated) / 4

    train = Path(reference(storage, "train")["path"])
    prepared = read_prepared(Path(reference(storage, "prepared")["path"]).parent)
    assert not reconcile(prepared, read_split(train.parent)).problems
    assert prepared.counts["read"] == SAMPLES * PROBLEMS + 60 and prepared.counts["review"] == 1
    lengths = load_lengths(MODEL)
    rows = [row for row in pq.read_table(train).to_pylist() if row["metadata"]["generation"]]
    assert len(rows) > 30
    for row in rows:
        number = int(row["extra_info"]["id"].removeprefix("generated.parquet:"))
        metadata, source = row["metadata"], generated[number]
        assert (metadata["generation_problem"], metadata["generation_sample"]) == (source["id"], str(source["sample"]))
        assert metadata["license"] == "apache-2.0" and metadata["teacher"] == source["teacher"]
        # The teacher and the policy have one tokenizer, and the response is a target as it stands.
        tokens = lengths.count_examples([(row["prompt"], row["target"])])[0].target
        assert row["target_log_probs"] == source["target_log_probs"] and len(row["target_log_probs"]) == tokens
    assert f"'generation': '{generated[0]['generation']}'" in str(rows[0]["metadata"])
