"""The checkpoints of a run: find the whole ones, remove old ones, and export the policy from the last.

checkpoints/global_step_N/           verl's files of step N; our ``state.json``, written last, has their digests
checkpoints/global_step_N.damaged/   a checkpoint that was set aside because its files are not those any more
checkpoints/latest_…txt              verl's pointer to the checkpoint it resumes from
checkpoints/validation.json          the score of each validation, by its step
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from core.errors import InputError, first_line
from core.files import (
    atomic_folder,
    digest_file,
    read_json,
    read_object,
    remove_folder,
    set_aside,
    sync,
    write_json,
    write_text,
)
from core.model.lineage_file import Manifest, write_manifest
from core.program import run_module
from core.text.patterns import compile_full_match
from training.export.model_card import model_card

LATEST = "latest_checkpointed_iteration.txt"
STATE = "state.json"
NAME = compile_full_match(r"global_step_(\d+)")
DIGEST_THREADS = 4  # sha256 takes longer than reading
SCORES = "validation.json"


def folder_of(checkpoints: Path, step: int) -> Path:
    """Return where the checkpoint of ``step`` lies."""
    return Path(checkpoints) / f"global_step_{step}"


def complete_steps(checkpoints: Path) -> list[int]:
    """Steps of the checkpoints below ``checkpoints`` that were saved completely, oldest first."""
    names = (NAME(file.parent.name) for file in Path(checkpoints).glob(f"*/{STATE}"))
    return sorted(int(name[1]) for name in names if name)


def latest_step(checkpoints: Path) -> int:
    """Step of the newest complete checkpoint below ``checkpoints``; 0 if there is none."""
    return max(complete_steps(checkpoints), default=0)


def scores(checkpoints: Path) -> dict[int, float]:
    """Return the score of each validation, by its step; InputError if their file is damaged."""
    file = Path(checkpoints) / SCORES
    try:
        return {int(step): float(score) for step, score in read_object(file).items()} if file.exists() else {}
    except (ValueError, TypeError) as error:
        raise InputError(f"{file}: not the scores of validations ({first_line(error)}): remove the file") from error


def record_score(checkpoints: Path, step: int, score: float) -> None:
    """Keep the score of the validation after ``step``; scores of later steps, which a resumed run repeats, go."""
    Path(checkpoints).mkdir(parents=True, exist_ok=True)
    earlier = {done: known for done, known in scores(checkpoints).items() if done < step}
    write_json({str(done): known for done, known in {**earlier, step: score}.items()}, Path(checkpoints) / SCORES)


def best_step(checkpoints: Path) -> int | None:
    """Step of the complete checkpoint with the highest validation score, the latest of equals; None if none has one."""
    known = scores(checkpoints)
    scored = [(known[step], step) for step in complete_steps(checkpoints) if step in known]
    return max(scored)[1] if scored else None


def mark_complete(checkpoints: Path, step: int, keep: int, dispatched: int = 0) -> None:
    """Complete the checkpoint of ``step`` with its files' digests; keep the ``keep`` newest, 1 or more, and the best.

    ``dispatched``: the prompts that came from the dataset so far, where somebody counts them.
    """
    folder = folder_of(checkpoints, step)
    files = _describe(folder)
    sync(folder)
    write_json({"dispatched": dispatched, "files": files}, folder / STATE)
    write_text(str(step), Path(checkpoints) / LATEST)
    remove_old(checkpoints, keep)


class Completer:
    """Completes checkpoints one after the other in a thread, because the digests of large ones take minutes."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._last: Future[None] | None = None

    def start(self, checkpoints: Path, step: int, keep: int, dispatched: int = 0) -> None:
        """Begin with `mark_complete` when the checkpoint before is complete; its error is raised here or in `wait`."""
        self.wait()
        self._last = self._thread.submit(mark_complete, checkpoints, step, keep, dispatched)

    def wait(self) -> None:
        """Return when the last checkpoint is complete."""
        if self._last:
            self._last.result()


def remove_old(checkpoints: Path, keep: int) -> None:
    """Remove all complete checkpoints but the ``keep`` newest and the best."""
    for old in complete_steps(checkpoints)[:-keep]:
        if old != best_step(checkpoints):
            remove_folder(folder_of(checkpoints, old))


def read_dispatched(checkpoints: Path, step: int) -> int:
    """Return how many prompts had come from the dataset when the checkpoint of ``step`` was saved."""
    return read_json(folder_of(checkpoints, step) / STATE)["dispatched"]


def damage(checkpoints: Path, step: int) -> str:
    """Describe damage to the files of the checkpoint of ``step``; "" if they are unchanged since the save."""
    folder = folder_of(checkpoints, step)
    try:
        records: dict[str, dict[str, Any]] = read_object(folder / STATE).get("files") or {}
    except InputError as error:
        return str(error)
    if not records:
        return f"{folder / STATE}: no sizes and digests of the files in it"
    for name, record in records.items():  # sizes first: they cost nothing
        if not (file := folder / name).is_file():
            return f"{name} is missing"
        if (size := file.stat().st_size) != record["size"]:
            return f"{name} has {size} bytes instead of {record['size']}"
    present = _describe(folder)
    changed = [name for name, record in records.items() if present[name] != record]
    return f"the content of {changed[0]} has changed" if changed else ""


def prepare_resume(checkpoints: Path, say: Callable[[str], None]) -> int:
    """Point verl to the newest checkpoint that is whole, and return its step; 0 if there is none.

    What an interrupted save left is removed. A newer checkpoint that is damaged is set aside, and so is the best one if
    it is damaged; ``say`` gets a line for each.
    """
    checkpoints = Path(checkpoints)
    if not checkpoints.is_dir():
        return 0
    steps = complete_steps(checkpoints)
    complete = {folder_of(checkpoints, step) for step in steps}
    for folder in [path for path in checkpoints.iterdir() if NAME(path.name) and path not in complete]:
        remove_folder(folder)
    while steps and (reason := damage(checkpoints, steps[-1])):
        broken = folder_of(checkpoints, steps.pop())
        kept = set_aside(broken)
        instead = f"step {steps[-1]}" if steps else "the start"
        say(f"{broken} is damaged: {reason}; set aside as {kept.name}, resuming from {instead}")
    while (best := best_step(checkpoints)) not in (None, *steps[-1:]) and (reason := damage(checkpoints, best)):
        kept = set_aside(folder_of(checkpoints, best))
        say(f"{folder_of(checkpoints, best)}, the best, is damaged: {reason}; set aside as {kept.name}")
    if not steps:
        (checkpoints / LATEST).unlink(missing_ok=True)
        return 0
    write_text(str(steps[-1]), checkpoints / LATEST)
    return steps[-1]


def exported_step(checkpoints: Path, policy_from: str) -> int:
    """Step of the checkpoint that becomes the policy: the ``last`` one, or the ``best``."""
    best = best_step(checkpoints) if policy_from == "best" else None
    return latest_step(checkpoints) if best is None else best


def export_policy(checkpoints: Path, policy: Path, manifest: Manifest, dtype: str, *, base: Path | None = None) -> None:
    """Write the model of the checkpoint of ``manifest.steps`` to ``policy`` with manifest and card.

    The folder is complete or absent. ``base``: the folder of the base model, which the card describes.

    Raises:
        InputError: a file of the checkpoint is not what was saved.
    """
    with atomic_folder(policy, replace=True) as temporary:
        export_model(checkpoints, manifest.steps, temporary, dtype)
        write_manifest(temporary, manifest)
        (temporary / "README.md").write_text(model_card(manifest, base), encoding="utf-8")


def export_model(checkpoints: Path, step: int, out: Path, dtype: str) -> None:
    """Write the model of the checkpoint of ``step`` into the folder ``out``, its weights in ``dtype``.

    Raises:
        InputError: a file of the checkpoint is not what was saved.
    """
    if reason := damage(checkpoints, step):
        raise InputError(
            f"{folder_of(checkpoints, step)} is damaged: {reason}: start the training again: it sets this checkpoint "
            "aside and resumes from the previous one"
        )
    actor = folder_of(checkpoints.absolute(), step) / "actor"
    out = out.absolute()
    run_module("training.export.merge", str(actor), str(out), dtype, CUDA_VISIBLE_DEVICES="")


def _describe(folder: Path) -> dict[str, dict[str, Any]]:
    """Return size and digest of the files in ``folder``, other than its state, by relative path."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / STATE]
    with ThreadPoolExecutor(DIGEST_THREADS) as pool:
        digests = list(pool.map(digest_file, files))
    return {
        file.relative_to(folder).as_posix(): {"size": file.stat().st_size, "digest": digest}
        for file, digest in zip(files, digests, strict=True)
    }
