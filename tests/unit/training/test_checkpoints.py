"""Checkpoints: complete or absent, the newest never removed, nothing damaged resumed from or exported."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from damages import flip_a_bit, truncate

from core.errors import InputError
from core.files import temporary_name
from training.job.checkpoints import (
    LATEST,
    SCORES,
    STATE,
    complete_steps,
    exported_step,
    folder_of,
    latest_step,
    mark_complete,
    prepare_resume,
    read_dispatched,
    record_score,
    remove_old,
)

HUGGING_FACE = Path("actor/huggingface")  # verl's folder for configuration and tokenizer


def saved(folder: Path, step: int) -> None:
    """What verl has written before a checkpoint is declared complete."""
    part = folder_of(folder, step) / HUGGING_FACE
    part.mkdir(parents=True)
    (part.parent / "model.pt").write_bytes(b"weights of step %d" % step)
    (part / "model.safetensors").write_bytes(b"the same %d" % step)


def nothing(line: str) -> None:
    raise AssertionError(f"unexpected: {line}")


def test_without_its_state_a_checkpoint_is_none(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    assert latest_step(tmp_path) == 0
    mark_complete(tmp_path, 1, keep=2, dispatched=25)
    assert latest_step(tmp_path) == 1
    weights = b"weights of step 1"
    state = json.loads((folder_of(tmp_path, 1) / STATE).read_text())
    assert state["dispatched"] == 25
    assert state["files"]["actor/model.pt"] == {"size": len(weights), "digest": hashlib.sha256(weights).hexdigest()}
    assert read_dispatched(tmp_path, 1) == 25
    assert (tmp_path / LATEST).read_text() == "1"


@pytest.mark.parametrize(("keep", "left"), [(1, [12]), (2, [9, 12]), (9, [3, 6, 9, 12])])
def test_the_newest_are_kept(tmp_path: Path, keep: int, left: list[int]) -> None:
    for step in (3, 6, 9, 12):
        saved(tmp_path, step)
        mark_complete(tmp_path, step, keep)
    assert complete_steps(tmp_path) == left and latest_step(tmp_path) == 12
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([LATEST, *(f"global_step_{n}" for n in left)])


def test_an_interrupted_save_never_removes_the_newest_complete_one(tmp_path: Path) -> None:
    for step in (1, 2):
        saved(tmp_path, step)
        mark_complete(tmp_path, step, keep=1)
    saved(tmp_path, 3)  # and the process died here
    (tmp_path / LATEST).write_text("")  # verl's own pointer, cut off while it was written
    assert complete_steps(tmp_path) == [2]
    assert prepare_resume(tmp_path, nothing) == 2
    assert (tmp_path / LATEST).read_text() == "2"
    assert not folder_of(tmp_path, 3).exists()


def test_a_removal_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    mark_complete(tmp_path, 1, keep=1)
    machine, pid, since, number = temporary_name(tmp_path).name.split("-")
    (tmp_path / "-".join([machine, pid, str(int(since) - 1), number]) / "actor").mkdir(parents=True)
    assert prepare_resume(tmp_path, nothing) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["global_step_1", LATEST]


def test_what_a_kill_kept_from_removal_is_removed(tmp_path: Path) -> None:
    for step in (1, 2):
        saved(tmp_path, step)
        mark_complete(tmp_path, step, keep=2)
    assert prepare_resume(tmp_path, nothing) == 2
    remove_old(tmp_path, keep=1)
    assert complete_steps(tmp_path) == [2]


def test_without_a_complete_checkpoint_a_run_starts_anew(tmp_path: Path) -> None:
    saved(tmp_path, 5)
    (tmp_path / LATEST).write_text("5")
    assert prepare_resume(tmp_path, nothing) == 0
    assert not list(tmp_path.iterdir())
    assert prepare_resume(tmp_path / "none", nothing) == 0


DAMAGES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "truncated": (truncate, "actor/model.pt", "actor/model.pt has 16 bytes instead of 17"),
    "a bit flipped": (flip_a_bit, "actor/model.pt", "the content of actor/model.pt has changed"),
    "missing": (Path.unlink, "actor/huggingface/model.safetensors", "actor/huggingface/model.safetensors is missing"),
    "state truncated": (lambda file: file.write_bytes(file.read_bytes()[:40]), STATE, "not JSON"),
    "state of another kind": (lambda file: file.write_text("[]"), STATE, "expected a JSON object"),
    "state without files": (lambda file: file.write_text('{"files": {}}'), STATE, "no sizes and digests"),
}


def test_a_damaged_best_checkpoint_is_set_aside_and_the_next_best_is_exported(tmp_path: Path) -> None:
    for step, score in ((1, 0.5), (2, 0.9), (3, 0.7)):
        record_score(tmp_path, step, score)
        saved(tmp_path, step)
        mark_complete(tmp_path, step, keep=9)
    (folder_of(tmp_path, 2) / "actor" / "model.pt").write_bytes(b"cut")
    said: list[str] = []
    assert prepare_resume(tmp_path, said.append) == 3
    assert said[0].startswith(f"{folder_of(tmp_path, 2)}, the best, is damaged: ") and len(said) == 1
    assert exported_step(tmp_path, "best") == 3 and complete_steps(tmp_path) == [1, 3]


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"1": null}'])
def test_damaged_scores_of_validations_are_named(tmp_path: Path, text: str) -> None:
    (tmp_path / SCORES).write_text(text)
    with pytest.raises(InputError, match=rf"{SCORES}: not the scores of validations .*: remove the file$"):
        record_score(tmp_path, 3, 0.5)


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_newest_checkpoint_is_set_aside_and_the_one_before_is_used(tmp_path: Path, kind: str) -> None:
    for step in (1, 2):
        saved(tmp_path, step)
        mark_complete(tmp_path, step, keep=2)
    damage, name, reason = DAMAGES[kind]
    damage(folder_of(tmp_path, 2) / name)
    said: list[str] = []
    assert prepare_resume(tmp_path, said.append) == 1
    (line,) = said
    assert line.startswith(f"{folder_of(tmp_path, 2)} is damaged: ") and reason in line and "\n" not in line
    assert line.endswith("; set aside as global_step_2.damaged, resuming from step 1")
    assert (tmp_path / LATEST).read_text() == "1" and complete_steps(tmp_path) == [1]
    assert (tmp_path / "global_step_2.damaged" / STATE).is_file()

    saved(tmp_path, 2)  # done again, and damaged again
    mark_complete(tmp_path, 2, keep=2)
    damage(folder_of(tmp_path, 2) / name)
    truncate(folder_of(tmp_path, 1) / "actor/model.pt")
    assert prepare_resume(tmp_path, said.append) == 0
    assert said[1].endswith("set aside as global_step_2.damaged-2, resuming from step 1")
    assert said[2].endswith("set aside as global_step_1.damaged, resuming from the start")
    assert not (tmp_path / LATEST).exists()
