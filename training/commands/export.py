"""``python -m training export``: the model of a checkpoint as a Hugging Face folder, during the run or after it."""

from pathlib import Path

from core.errors import InputError
from core.files import atomic_folder
from training.export import DTYPES
from training.job.checkpoints import complete_steps, export_model
from training.job.run_folder import RunFolder


def export(run: Path, step: int | None, dtype: str, out: Path) -> None:
    """Write the model of the checkpoint of ``step`` (None: the newest) of ``run`` into the new folder ``out``.

    Raises:
        InputError: there is no such checkpoint or type, or the folder to create exists.
    """
    if dtype not in DTYPES:
        raise InputError(f"--dtype: got {dtype!r}, expected one of {', '.join(DTYPES)}")
    checkpoints = RunFolder(run).checkpoints
    steps = complete_steps(checkpoints)
    if not steps:
        raise InputError(f"--run {run}: no complete checkpoint in it: give the folder of a training run")
    step = steps[-1] if step is None else step
    if step not in steps:
        raise InputError(f"--step {step}: expected one of {', '.join(map(str, steps))}")
    if out.exists():
        raise InputError(f"--out {out}: exists already: give the name of a new folder")
    with atomic_folder(out) as temporary:
        export_model(checkpoints, step, temporary, dtype)
