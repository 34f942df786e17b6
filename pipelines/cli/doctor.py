"""``luffy doctor`` checks what this machine lacks, one line per check, and then runs the preflight of the training.

Before ``make setup``, and where an environment is broken, ``python3 -m pipelines.cli.doctor`` looks at the machine
with the standard library alone.
"""

import os
import subprocess
import sys
from pathlib import Path

from core import PROJECT
from core.existing_python import TRAIN_PYTHON
from training.diagnosis import HOST
from training.diagnosis.machine import Examination, checks_of, run_checks


def doctor(hardware: str = "cpu", port: int = 3000, *, machine_only: bool = True, python: Path = TRAIN_PYTHON) -> int:
    """Check this machine, and train on it unless told not to; return the exit status, which is 1 if a check fails."""
    failed = run_checks(checks_of(HOST), Examination(hardware, PROJECT / "var", python, port))
    if "training" in failed or "python" in failed:
        sys.stdout.write("the training environment was not tried\n")
        return 1
    command = [python, "-m", "training", "preflight", "--hardware", hardware]
    if machine_only:
        command.append("--machine-only")
    variables = {**os.environ, "PYTHONPATH": ":".join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))}
    return subprocess.run(command, cwd=PROJECT, env=variables, check=False).returncode or int(bool(failed))


if __name__ == "__main__":
    sys.exit(doctor())
