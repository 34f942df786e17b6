"""Three steps of six methods on the embedded model: losses, norms, and the digest of the policy's weights."""

import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from core import PROJECT
from core.files import digest_file

sys.path.insert(0, str(PROJECT / "tests/integration"))

from training_runs import Training, write_targets

HOT = {"actor_rollout_ref__rollout__temperature": "2.0"}  # most short problems are solved sometimes
# Each recipe with the problems of its targets, and its settings.
TRAININGS: dict[str, tuple[str, dict[str, str]]] = {
    "luffy": ("train", {}),
    "hpt": ("short", HOT),
    "exgrpo": ("short", HOT | {"method__replay__start": "0.0"}),  # the third step is the first that replays
    "relift": ("train", {"method__buffer": "3"}),
    "uft": ("short", HOT),
    "sft": ("train", {"data__train_batch_size": "8"}),
}
RESUMED = "exgrpo"
FIGURES = ("actor/", "replay/", "relift/", "groups/", "reward/", "batch/")


def values() -> dict[str, Any]:
    """Return the figures of each step of each training, and the digests of the weights."""
    made: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for recipe, (split, settings) in TRAININGS.items():
            run = train(Path(folder), recipe, split, settings)
            steps = [record["data"] for record in run.metrics()]
            made[recipe] = [{name: round(step[name], 9) for name in sorted(step) if is_figure(name)} for step in steps]
            made[f"local/{recipe}"] = digest_file(run.out / "policy" / "model.safetensors")
    return made


def is_figure(name: str) -> bool:
    return name.startswith(FIGURES) and not name.startswith("actor/perf/")


def train(folder: Path, recipe: str, split: str, settings: dict[str, str]) -> Training:
    """Train three steps; `RESUMED` is interrupted after the second, and started again."""
    targets = write_targets(folder / f"{split}.parquet", 16, split=split)
    chosen = settings | {"trainer__total_training_steps": "3"}
    run = Training(folder / recipe, targets, recipe, **chosen)
    if recipe == RESUMED:
        run.wait_for_step(2)
        run.process.send_signal(signal.SIGTERM)
        run.end()
        run = Training(folder / recipe, targets, recipe, **chosen)
    if run.end():
        sys.exit(f"{recipe}: {run.said}")
    return run
