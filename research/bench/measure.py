"""What the measurements have in common: seconds, CPU seconds, the memory of all processes, and commands."""

import os
import resource
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from core import PROJECT
from core.errors import TaskFailed
from pipelines.api import luffy

ORCHESTRATION, TRAINING = PROJECT / ".venv/bin/python", PROJECT / ".venv-train/bin/python"
MODEL = PROJECT / "training/embedded_model/model"
SAMPLE_EVERY_S = 0.2


class Used:
    """Seconds, CPU seconds and peak memory (bytes, proportional set size) of the processes that a block starts.

    Other programs on the machine hardly change the CPU seconds.
    """

    def __init__(self) -> None:
        self.seconds = self.cpu = 0.0
        self.peak = 0
        self._ended = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> "Used":
        self._sampler.start()
        self.cpu = -_cpu_of_children()
        self.seconds = -time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter()
        self.cpu += _cpu_of_children()
        self._ended.set()
        self._sampler.join()

    def _sample(self) -> None:
        process = psutil.Process()
        while not self._ended.wait(SAMPLE_EVERY_S):
            size = 0
            for child in process.children(recursive=True):
                with suppress(psutil.Error):  # it has just ended
                    size += child.memory_full_info().pss
            self.peak = max(self.peak, size)


def call(*command: object, environment: Mapping[str, str] | None = None) -> str:
    """Run a command and return its standard output; TaskFailed with the end of its errors if it fails."""
    parts = [str(part) for part in command]
    done = subprocess.run(
        parts, cwd=PROJECT, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise TaskFailed(f"{' '.join(parts)} ended with status {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def attend(*command: object) -> None:
    """Run a command that tells its progress; TaskFailed if it fails."""
    if status := subprocess.run([str(part) for part in command], cwd=PROJECT, check=False).returncode:
        raise TaskFailed(f"{command[2]} ended with status {status}; its message is above")


def overrides(settings: Mapping[str, object]) -> list[str]:
    """Return the arguments that set each of ``settings``."""
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


def prepare(source: Path | str, out: Path, *more: object) -> None:
    """Prepare targets of ``source`` in the tokens of the embedded model."""
    luffy("targets", "--source", source, "--tokenizer", MODEL, "--out", out, *more)


def _cpu_of_children() -> float:
    """CPU seconds of the processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
