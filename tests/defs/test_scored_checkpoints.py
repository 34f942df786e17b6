"""training/checkpoints for real: every saved checkpoint of a run is scored with the prompt of its training."""

import shutil
import subprocess
from pathlib import Path

import dagster as dg
import manifests

from core.files import write_json
from core.model.lineage_file import write_manifest
from tests.defs.project import Project, message
from training.job.checkpoints import folder_of, mark_complete

KEY = "training/checkpoints"
# What verl saves of one rank: the parameters, and how many ranks there were.
SAVE = """
import json, sys, pathlib, torch
from safetensors.torch import load_file
actor = pathlib.Path(sys.argv[1])
weights = actor / "huggingface" / "model.safetensors"
torch.save(load_file(weights), actor / "model_world_size_1_rank_0.pt")
(actor / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": 1}))
weights.unlink()
"""
SMALL = {"benchmarks__limit": "4", "evaluation__max_tokens": "64"}


def write_run(project: Project, python: Path, steps: tuple[int, ...]) -> Path:
    """A run whose checkpoints and policy all are the base model."""
    base = Path(project.metadata("models/base")["folder"])
    run = project.storage / "training" / "policy" / "run"
    for step in steps:
        actor = folder_of(run / "checkpoints", step) / "actor"
        shutil.copytree(base, actor / "huggingface")
        subprocess.run([python, "-c", SAVE, actor], check=True)
        mark_complete(run / "checkpoints", step, keep=9)
    shutil.copytree(base, run / "policy")
    prepared = manifests.targets(metadata={"config": '{"system_prompt": ""}'})
    write_manifest(run / "policy", manifests.manifest(targets=prepared))
    reference = {"path": str(run / "policy"), "digest": "d" * 64, "base": "b" * 64, "metrics": "metrics.jsonl"}
    write_json(reference, project.storage / "references" / "training" / "policy.json")
    return run


def materialize(project: Project, benchmark: str):
    return project.defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=project.instance,
        asset_selection=[dg.AssetKey.from_user_string(KEY)],
        run_config={"resources": {"luffy": {"config": {"benchmark": benchmark}}}},
        raise_on_error=False,
    )


def test_every_saved_checkpoint_is_scored_and_what_cannot_be_is_named(build, training_interpreter):
    project: Project = build(**SMALL)
    assert project.run("models/base", "benchmarks/suite").success
    run = write_run(project, training_interpreter, (2, 4))
    assert materialize(project, "arithmetic_short").success
    shown = project.metadata(KEY)
    assert (shown["benchmark"], shown["best step"]) == ("arithmetic_short", 4)
    lines = shown["scores"].splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| 2", "| 4"]
    assert 0 <= shown["best accuracy, %"] <= 100
    assert "curve" in shown
    assert not list((project.storage / "checkpoints").glob("*"))  # the links to the models are gone
    assert "expected one of arithmetic" in message(materialize(project, "sums"))
    shutil.rmtree(run / "checkpoints")
    assert "it has no checkpoints any more" in message(materialize(project, "arithmetic"))
