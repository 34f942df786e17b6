"""``luffy train preflight``: look at this machine, then train, resume and evaluate the embedded model on it."""

import shutil
import signal
import sys
import tempfile
from pathlib import Path

from core.plugins.config_files import HARDWARE, config_file
from training.preflight.checks import TRAINING, TRAINING_GPU, Examination, run_checks
from training.preflight.machine_checks import checks_of
from training.preflight.trial import TRIALS


def preflight(hardware: str, out: Path, *, machine_only: bool) -> int:
    """Check this machine, and unless told not to train on it; the exit status: 1 if a check fails."""
    config_file(HARDWARE, hardware)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="preflight-", dir=out))
    examination = Examination(hardware, folder)
    failed = run_checks(checks_of(TRAINING, *([TRAINING_GPU] if hardware != "cpu" else [])), examination)
    if not failed and not machine_only:
        failed = run_checks(TRIALS, examination)
    if failed:
        sys.stdout.write(f"{len(failed)} of the checks failed; what they wrote is in {folder}\n")
        return 1
    shutil.rmtree(folder)
    sys.stdout.write("this machine can train\n")
    return 0
