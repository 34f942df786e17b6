"""A training in W&B, offline: what its file holds before anybody uploads it."""

import json
import subprocess
import sys
from pathlib import Path

import manifests
import pytest

from core.files import write_json
from core.model.lineage_file import write_manifest
from training.job.trackers import open_runs

pytest.importorskip("wandb")


def test_an_offline_run_has_the_lineage_and_the_scorecard(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    run, card = tmp_path / "run", tmp_path / "card"
    (run / "policy").mkdir(parents=True)
    card.mkdir()
    variables = open_runs(run, ["wandb"], project="luffy", name="luffy-seed0", config="a: 1")
    assert variables == open_runs(run, ["wandb"], project="luffy", name="luffy-seed0", config="a: 1")
    (run / "policy" / "model.safetensors").write_text("weights")
    write_manifest(run / "policy", manifests.manifest())
    row = {"base": {"benchmark": "sums", "mean": 0.25}, "policy": {"benchmark": "sums", "mean": 0.75}}
    write_json({"rows": [row]}, card / "scorecard.json")
    command = [sys.executable, "-m", "training", "track", "--run", str(run), "--scorecard", str(card)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    assert f"has run {variables['WANDB_RUN_ID']} of luffy-seed0" in done.stdout
    # W&B's own reader of these files is a program of its own; the texts of their records lie in them as they are.
    written = b"".join(file.read_bytes() for file in run.glob("wandb/offline-run-*/run-*.wandb"))
    digest = json.loads((run / "policy" / "lineage.json").read_text())["checkpoint_digest"]
    for text in (variables["WANDB_RUN_ID"], digest, "t" * 64, f"lineage-{digest[:16]}", f"scorecard-{digest[:16]}"):
        assert text.encode() in written, text
    assert b"scorecard/sums/policy" in written and b"0.75" in written
