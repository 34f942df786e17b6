"""Checkpoints of a run: which are complete, and the policy folder that everything downstream reads."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluation.errors import InputError
from training.lineage import write_manifest

LATEST = "latest_checkpointed_iteration.txt"  # verl writes it after everything else of a checkpoint


def latest_step(checkpoints: Path) -> int:
    """Step of the newest complete checkpoint below ``checkpoints``; 0 if there is none."""
    marker = checkpoints / LATEST
    return int(marker.read_text()) if marker.exists() else 0


def export_policy(checkpoints: Path, policy: Path, manifest: Mapping[str, Any]) -> None:
    """Copy the Hugging Face part of the newest checkpoint to ``policy`` with its manifest; complete or absent."""
    source = checkpoints / f"global_step_{latest_step(checkpoints)}" / "actor" / "huggingface"
    if not any(source.glob("*.safetensors")):
        raise InputError(
            f"{source}: no weights there; keep hf_model in actor_rollout_ref.actor.checkpoint.save_contents"
        )
    temporary = policy.with_name(f".{policy.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        shutil.copytree(source, temporary)
        write_manifest(temporary, manifest)
        if policy.exists():
            shutil.rmtree(policy)
        os.replace(temporary, policy)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
