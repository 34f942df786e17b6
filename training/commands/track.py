"""``python -m training track``: publish a finished training, and its scorecard, into its MLflow and W&B runs."""

import sys
from pathlib import Path

from core.errors import InputError
from training.job.trackers import FILE, publish


def track(run: Path, scorecard: Path | None) -> None:
    """Publish the lineage of ``run``, and its scorecard if it is given.

    Raises:
        InputError: the training has no such runs or no policy, or a tracker does not answer.
    """
    lines = publish(run, scorecard)
    if not lines:
        raise InputError(f"--run {run}: no {FILE} in it: it was trained without mlflow and wandb")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
