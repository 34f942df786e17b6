"""A preparation that is told to end leaves no process and says nothing about its insides."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
from processes import clean_environment

from core import PROJECT

WORKERS = 2


def test_sigterm_ends_the_workers_quietly(tmp_path: Path):
    options = ["--set", "targets.embedded_rows=20000", "--set", f"targets.workers={WORKERS}"]
    options += ["--out", str(tmp_path / "out")]
    model = PROJECT / "training" / "embedded_model" / "model"
    command = [sys.executable, "-m", "targets", *options, "--source", "embedded", "--tokenizer", str(model)]
    preparing = psutil.Popen(command, cwd=PROJECT, env=clean_environment(), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(started := preparing.children(recursive=True)) < WORKERS + 2:  # Python's own two, and the workers
        assert preparing.is_running() and time.monotonic() < deadline
        time.sleep(0.05)
    preparing.terminate()
    said = preparing.stderr.read()
    assert preparing.wait(timeout=60) == 143
    assert "resource_tracker" not in said and "Traceback" not in said
    assert psutil.wait_procs(started, timeout=10)[1] == []
