"""The main job on the user's own files, as the README starts it: files in the published formats, real verl and vLLM."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from processes import clean_environment
from published_files import write_traces
from storages import read_reference

from core.model.lineage_file import read_manifest
from core.schemas import GRADED

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(1500)
def test_traces_become_a_policy_with_scores_and_lineage(published: Path, tmp_path: Path) -> None:
    environment = clean_environment()
    environment |= {
        "DAGSTER_HOME": str(tmp_path / "home"),
        "LUFFY_PROFILE": "small",
        "LUFFY__STORAGE__ROOT": str(tmp_path / "storage"),
        "LUFFY__TARGETS__SOURCE": json.dumps([str(write_traces(tmp_path / "traces.parquet", 80))]),
        "LUFFY__BENCHMARKS__ROOTS": json.dumps([str(published)]),
        # The embedded model reads bytes, 1024 at most: room for prompts, and only short targets.
        "LUFFY__TARGETS__MAX_PROMPT_TOKENS": "448",
        "LUFFY__TARGETS__MAX_TARGET_TOKENS": "576",
        "LUFFY__SUITE__ONLY": '["math500", "arc_c"]',
        "LUFFY__TRAINING__CONFIG": json.dumps(
            {
                "data": {"train_batch_size": 2, "max_prompt_length": 448, "max_response_length": 576},
                "actor_rollout_ref": {"rollout": {"n": 4}},
                "trainer": {"total_training_steps": 2, "save_freq": 2},
            }
        ),
        "LUFFY__EVALUATION__MAX_TOKENS": "64",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli.luffy", "run"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "2 steps, reward" in done.stdout
    assert "math500" in done.stdout

    storage = tmp_path / "storage"
    policy = next(storage.glob("training/policy/*/policy"))
    manifest = read_manifest(policy)
    train = read_reference(storage, "targets/train")
    assert manifest.request.targets_digest == train["digest"]
    assert manifest.steps == 2
    assert next(policy.glob("*.safetensors")).stat().st_size > 1_000_000
    steps = [json.loads(line) for line in (policy.parent / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in steps] == [1, 2]
    assert steps[0]["data"]["batch/off_policy_samples"] == 2
    assert steps[0]["data"]["reward/off_policy"] == 1.0
    assert steps[0]["data"]["rollout_correction/abs_log_ratio_max"] < 1e-2  # vLLM and the actor agree
    for role in ("base", "policy"):
        for key in (f"evals/{role}/math500", f"ood/{role}/arc_c"):
            scored = read_reference(storage, key)
            table = pq.read_table(scored["path"])
            assert set(GRADED.names) <= set(table.column_names)
            assert table.num_rows == 2
    assert list(storage.glob("report/scorecard/**/*.html"))
