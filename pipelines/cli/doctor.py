"""``luffy doctor``: what this machine lacks, one line per check, then the preflight of the training.

Before ``make setup``, and where an environment is broken, ``python3.11 -m pipelines.cli.doctor`` looks at the machine
with the standard library alone.
"""

import subprocess
import sys

from training.preflight.checks import HOST, Examination, run_checks
from training.preflight.machine_checks import PROJECT, checks_of


def doctor(hardware: str = "cpu", port: int = 3000, *, machine_only: bool = True) -> int:
    """Check this machine, and unless told not to train on it; the exit status: 1 if a check fails."""
    failed = run_checks(checks_of(HOST), Examination(hardware, PROJECT / "var", port))
    if "training" in failed or "python" in failed:
        sys.stdout.write("the training environment was not tried\n")
        return 1
    command = [str(PROJECT / ".venv-train/bin/python"), "-m", "training", "preflight", "--hardware", hardware]
    if machine_only:
        command.append("--machine-only")
    return subprocess.run(command, cwd=PROJECT, check=False).returncode or int(bool(failed))


if __name__ == "__main__":
    sys.exit(doctor())
