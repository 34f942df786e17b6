"""``python -m training track``: publish a finished training, and its scorecard, into its MLflow and W&B runs."""

import sys
from collections.abc import Sequence
from pathlib import Path

from core.cli import Parser
from core.errors import InputError
from training.job.trackers import FILE, publish


def main(argv: Sequence[str]) -> int:
    """Run the command; its exit status.

    Raises:
        InputError: the training has no such runs or no policy, or a tracker does not answer.
    """
    parser = Parser(
        prog="python -m training track", description="Publish lineage and scorecard into the MLflow and W&B runs."
    )
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--scorecard", type=Path, help="folder of the scorecard of its policy")
    arguments = parser.parse_args(argv)
    lines = publish(arguments.run, arguments.scorecard)
    if not lines:
        raise InputError(f"--run {arguments.run}: no {FILE} in it: it was trained without mlflow and wandb")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0
