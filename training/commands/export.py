"""``python -m training export``: the model of a checkpoint as a Hugging Face folder, during the run or after it."""

from collections.abc import Sequence
from pathlib import Path

from core.cli import Parser
from core.errors import InputError
from core.files import atomic_folder
from training.export import DTYPES
from training.job.checkpoints import complete_steps, export_model
from training.job.run_folder import RunFolder


def main(argv: Sequence[str]) -> int:
    """Run the command; its exit status.

    Raises:
        InputError: there is no such checkpoint, or the folder to create exists.
    """
    parser = Parser(
        prog="python -m training export", description="Write the model of a checkpoint as a Hugging Face folder."
    )
    parser.add_argument("--run", type=Path, required=True, help="folder of the run")
    parser.add_argument("--step", type=int, help="step of the checkpoint (default: the newest)")
    parser.add_argument("--dtype", choices=DTYPES, default=DTYPES[0], help="type of its weights (default %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="the folder to create")
    arguments = parser.parse_args(argv)
    checkpoints = RunFolder(arguments.run).checkpoints
    steps = complete_steps(checkpoints)
    if not steps:
        raise InputError(f"--run {arguments.run}: no complete checkpoint in it: give the folder of a training run")
    step = steps[-1] if arguments.step is None else arguments.step
    if step not in steps:
        raise InputError(f"--step {step}: expected one of {', '.join(map(str, steps))}")
    if arguments.out.exists():
        raise InputError(f"--out {arguments.out}: exists already: give the name of a new folder")
    with atomic_folder(arguments.out) as temporary:
        export_model(checkpoints, step, temporary, arguments.dtype)
    return 0
