"""Checkpoints: complete or absent, the newest never removed."""

import json
from pathlib import Path

import pytest

from training.run.checkpoints import (
    LATEST,
    STATE,
    TrainerState,
    complete_steps,
    discard_incomplete,
    folder_of,
    latest_step,
    mark_complete,
    read_state,
)


def saved(folder: Path, step: int) -> None:
    """What verl has written before a checkpoint is declared complete."""
    actor = folder_of(folder, step) / "actor"
    actor.mkdir(parents=True)
    (actor / "model.pt").write_bytes(b"weights")


def test_without_its_state_a_checkpoint_is_none(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    assert latest_step(tmp_path) == 0
    mark_complete(tmp_path, 1, TrainerState({"coefficient": 0.25}), keep=2)
    assert latest_step(tmp_path) == 1
    assert json.loads((folder_of(tmp_path, 1) / STATE).read_text()) == {"entropy": {"coefficient": 0.25}}
    assert read_state(tmp_path, 1).entropy == {"coefficient": 0.25}
    assert (tmp_path / LATEST).read_text() == "1"


@pytest.mark.parametrize(("keep", "left"), [(1, [12]), (2, [9, 12]), (9, [3, 6, 9, 12])])
def test_the_newest_are_kept(tmp_path: Path, keep: int, left: list[int]) -> None:
    for step in (3, 6, 9, 12):
        saved(tmp_path, step)
        mark_complete(tmp_path, step, TrainerState(), keep)
    assert complete_steps(tmp_path) == left
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([LATEST, *(f"global_step_{n}" for n in left)])


def test_an_interrupted_save_never_removes_the_newest_complete_one(tmp_path: Path) -> None:
    for step in (1, 2):
        saved(tmp_path, step)
        mark_complete(tmp_path, step, TrainerState(), keep=1)
    saved(tmp_path, 3)  # and the process died here
    (tmp_path / LATEST).write_text("")  # verl's own pointer, cut off while it was written
    assert complete_steps(tmp_path) == [2]
    assert discard_incomplete(tmp_path) == 2
    assert (tmp_path / LATEST).read_text() == "2"
    assert not folder_of(tmp_path, 3).exists()


def test_a_removal_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    mark_complete(tmp_path, 1, TrainerState(), keep=1)
    (tmp_path / ".global_step_0.removed" / "actor").mkdir(parents=True)
    assert discard_incomplete(tmp_path) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["global_step_1", LATEST]


def test_without_a_complete_checkpoint_a_run_starts_anew(tmp_path: Path) -> None:
    saved(tmp_path, 5)
    (tmp_path / LATEST).write_text("5")
    assert discard_incomplete(tmp_path) == 0
    assert not list(tmp_path.iterdir())
    assert discard_incomplete(tmp_path / "none") == 0


def test_keeping_none_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    with pytest.raises(ValueError, match="keep: expected 1 or more"):
        mark_complete(tmp_path, 1, TrainerState(), keep=0)
