"""The checkpoints of a run: which are complete, which are removed, and the policy folder made from the last one.

checkpoints/global_step_N/   verl's files of step N; our ``state.json`` is written last and marks them as complete
checkpoints/latest_…txt      verl's pointer to the checkpoint it resumes from
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from core.errors import InputError
from core.files import atomic_folder, atomic_write, read_json, write_json
from core.manifest import Manifest, write_manifest
from training.export.card import model_card

LATEST = "latest_checkpointed_iteration.txt"
STATE = "state.json"
PREFIX = "global_step_"


@dataclass(frozen=True)
class TrainerState:
    """What a trainer needs beyond verl's files in order to resume: the content of ``state.json``."""

    entropy: Mapping[str, float] = field(default_factory=dict)  # EntropyController.state_dict()


def folder_of(checkpoints: Path, step: int) -> Path:
    """Where the checkpoint of ``step`` lies."""
    return Path(checkpoints) / f"{PREFIX}{step}"


def complete_steps(checkpoints: Path) -> list[int]:
    """Steps of the complete checkpoints below ``checkpoints``, oldest first."""
    files = Path(checkpoints).glob(f"{PREFIX}*/{STATE}")
    return sorted(int(file.parent.name.removeprefix(PREFIX)) for file in files)


def latest_step(checkpoints: Path) -> int:
    """Step of the newest complete checkpoint below ``checkpoints``; 0 if there is none."""
    return max(complete_steps(checkpoints), default=0)


def mark_complete(checkpoints: Path, step: int, state: TrainerState, keep: int) -> None:
    """Mark the checkpoint of ``step`` as complete by writing ``state``, then remove all but the ``keep`` newest.

    Raises:
        ValueError: ``keep`` is below 1.
    """
    if keep < 1:
        raise ValueError(f"keep: expected 1 or more checkpoints, got {keep}")
    write_json(asdict(state), folder_of(checkpoints, step) / STATE)
    _point_to(checkpoints, step)
    for old in complete_steps(checkpoints)[:-keep]:
        _remove(folder_of(checkpoints, old))


def read_state(checkpoints: Path, step: int) -> TrainerState:
    """The state that was saved with the checkpoint of ``step``."""
    return TrainerState(**read_json(folder_of(checkpoints, step) / STATE))


def discard_incomplete(checkpoints: Path) -> int:
    """Remove what an interrupted save left and point verl to the newest complete checkpoint; returns its step or 0."""
    if not Path(checkpoints).is_dir():
        return 0
    steps = set(complete_steps(checkpoints))
    for folder in Path(checkpoints).glob(f"*{PREFIX}*"):
        if folder.name not in {f"{PREFIX}{step}" for step in steps}:
            shutil.rmtree(folder)
    if not steps:
        (Path(checkpoints) / LATEST).unlink(missing_ok=True)
        return 0
    _point_to(checkpoints, max(steps))
    return max(steps)


def _point_to(checkpoints: Path, step: int) -> None:
    with atomic_write(Path(checkpoints) / LATEST) as temporary:
        temporary.write_text(str(step), encoding="utf-8")


def _remove(folder: Path) -> None:
    """Remove a checkpoint; under another name first, so that half of one never looks like a whole one."""
    doomed = folder.with_name(f".{folder.name}.removed")
    os.replace(folder, doomed)
    shutil.rmtree(doomed)


def export_policy(checkpoints: Path, policy: Path, manifest: Manifest) -> None:
    """Copy the Hugging Face part of the newest checkpoint to ``policy`` with manifest and card; complete or absent."""
    source = folder_of(checkpoints, latest_step(checkpoints)) / "actor" / "huggingface"
    if not any(source.glob("*.safetensors")):
        raise InputError(
            f"{source}: no weights there; keep hf_model in actor_rollout_ref.actor.checkpoint.save_contents"
        )
    with atomic_folder(policy) as temporary:
        shutil.copytree(source, temporary)
        write_manifest(temporary, manifest)
        (temporary / "README.md").write_text(model_card(manifest), encoding="utf-8")
