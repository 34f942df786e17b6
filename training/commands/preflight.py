"""``python -m training preflight``: look at this machine, then train, resume and evaluate the embedded model on it."""

import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from core.cli import Parser
from training.job.configuration import names
from training.preflight.checks import run_checks
from training.preflight.machine_checks import machine_checks
from training.preflight.trial import trial_checks


def main(argv: Sequence[str]) -> int:
    """Run the command; its exit status: 1 if a check fails."""
    parser = Parser(
        prog="python -m training preflight",
        description="Say whether this machine can train: one line for each check, with what to do if it fails.",
    )
    parser.add_argument(
        "--hardware", default="cpu", choices=names("hardware"), help="the hardware profile (default %(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("var"), help="a folder on the disk of the runs (default %(default)s)"
    )
    parser.add_argument("--machine-only", action="store_true", help="do not train: a few seconds instead of minutes")
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    arguments.out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="preflight-", dir=arguments.out))
    failed = run_checks(machine_checks(arguments.hardware, folder))
    if not failed and not arguments.machine_only:
        failed = run_checks(trial_checks(arguments.hardware, folder))
    if failed:
        sys.stdout.write(f"{failed} of the checks failed; what they wrote is in {folder}\n")
        return 1
    shutil.rmtree(folder)
    sys.stdout.write("this machine can train\n")
    return 0
