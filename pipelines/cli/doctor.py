"""``luffy doctor`` checks what this machine lacks, one line per check, and then runs the preflight of the training.

Before ``make setup``, and where an environment is broken, ``python3 -m pipelines.cli.doctor`` looks at the machine
with the standard library alone.
"""

import os
import subprocess
import sys
from pathlib import Path

from core import INSTALLED, PROJECT
from core.existing_python import TRAIN_PYTHON
from training.diagnosis.machine import HOST, Examination, checks_of, run_checks

RUN = b"LUFFY_DAGSTER_RUN="  # `assets.shared.interpreter_process` sets it for every process of a run
SUPERVISORS = {"core.backends.supervisor", "training"}  # modules


def doctor(hardware: str = "cpu", port: int = 3000, python: Path = TRAIN_PYTHON) -> int:
    """Check this machine; return the exit status, which is 1 if a check fails."""
    folder = Path.cwd() if INSTALLED else PROJECT
    failed = run_checks(checks_of(HOST), Examination(hardware, folder / "var", python, port))
    for line in leftovers():
        sys.stdout.write(f"{line}\n")
    if "training" in failed or "python" in failed:
        sys.stdout.write("the training environment was not tried\n")
        return 1
    command = [python, "-m", "training", "preflight", "--hardware", hardware]
    variables = {**os.environ, "PYTHONPATH": ":".join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))}
    return subprocess.run(command, cwd=PROJECT, env=variables, check=False).returncode or int(bool(failed))


def leftovers() -> list[str]:
    """List the processes that a run has started and that have no supervisor any more, with how to end them.

    A supervisor ends its descendants when its run ends; only one that was killed itself leaves them behind.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        if RUN not in _read(folder / "environ"):
            continue
        parent = _read(folder / "stat").decode(errors="replace").rpartition(")")[2].split()[1:2]
        command = _read(folder / "cmdline").replace(b"\0", b" ").decode(errors="replace")
        if RUN not in _read(Path("/proc", *parent, "environ")) and not SUPERVISORS & {*command.split()}:
            end = f"kill -9 {folder.name}"
            found.append(f"process {folder.name} is left over from a run, end it by {end}: {command[:80]}")
    return found


def _read(file: Path) -> bytes:
    """Return the content of a file of a process; nothing if it has ended, or belongs to another user."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    sys.exit(doctor())
