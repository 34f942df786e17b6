"""Named checks, each with one line: what it saw, or what is wrong and how to mend it. Standard library only."""

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from core.errors import InputError

HOST = "host"  # `luffy doctor`, in any Python, because an environment may be missing or broken
TRAINING = "training"  # `luffy train preflight`, in the training environment
TRAINING_GPU = "training on GPUs"


@dataclass(frozen=True)
class Examination:
    """What is examined: a hardware profile, a folder on the disk of the runs, the training interpreter, a port."""

    hardware: str
    out: Path
    python: Path = Path(sys.executable)
    port: int = 3000

    @property
    def kind(self) -> str:
        """The kind of training environment that the hardware needs, as ``make setup HARDWARE=`` calls it."""
        return "cpu" if self.hardware == "cpu" else "gpu"


@dataclass(frozen=True)
class Check:
    """A line of a doctor.

    Args:
        name: What the check looks at.
        look: says what it saw, or raises an InputError that says what is wrong.
        mend: What to do if it fails; ``{kind}`` stands for the kind of the examination.
        where: the doctors that have this line: `HOST`, `TRAINING`, `TRAINING_GPU`.
    """

    name: str
    look: Callable[[Examination], str]
    mend: str
    where: tuple[str, ...]


def run_checks(checks: Iterable[Check], examination: Examination) -> list[str]:
    """Run all of them and print a line for each; the names of those that failed."""
    failed: list[str] = []
    for check in checks:
        started = time.monotonic()
        try:
            line = f"ok    {check.name}: {check.look(examination)}"
        except InputError as error:
            line = f"FAIL  {check.name}: {error}: {check.mend.format(kind=examination.kind)}"
            failed.append(check.name)
        seconds = time.monotonic() - started
        sys.stdout.write(f"{line}{f' ({seconds:.0f} s)' if seconds > 1 else ''}\n")
        sys.stdout.flush()
    return failed
