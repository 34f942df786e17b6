"""Real trainings of the tests: start the command, see what it does, find and end its processes."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from core.machine.processes import Process, descendants, die_with_parent, start_ticks
from core.model.base_model import SHIPPED
from training.config.overrides import read_by

ROOT = Path(__file__).resolve().parents[2]
# A step of seconds: 4 prompts x 4 samples of the embedded model.
SMALL = {
    "data.train_batch_size": "4",
    "data.max_prompt_length": "64",
    "data.max_response_length": "96",
    "actor_rollout_ref.rollout.n": "4",
    "actor_rollout_ref.actor.optim.lr": "1e-4",
    "trainer.total_training_steps": "2",
    "trainer.save_freq": "1",
}


def own_environment() -> dict[str, str]:
    """Ours, without what would point a training to a cluster or a profile of the user's."""
    theirs = ("LUFFY", "RAY_ADDRESS", "RAY_JOB")
    return {name: value for name, value in os.environ.items() if not name.startswith(theirs)}


def family(pid: int) -> set[Process]:
    """The living descendants of ``pid``, and the process itself if it is alive."""
    since = start_ticks(pid)
    return set() if since is None else alive({Process(pid, since), *descendants(pid)})


def alive(processes: set[Process]) -> set[Process]:
    """Those of ``processes`` that still run."""
    return {process for process in processes if process.is_alive()}


def command_line(process: Process) -> str:
    try:
        return " ".join(psutil.Process(process.pid).cmdline())
    except psutil.NoSuchProcess:
        return ""


def check_ages(records: list[dict[str, Any]]) -> None:
    """What holds in every step of asynchronous rollouts: nothing is lost, and nothing is older than one step."""
    for data in records:
        assert data["batch/off_policy_samples"] == 4 and data["batch/generation_requests"] == 12
        assert data["batch/missing_samples"] == data["staleness/dropped_samples"] == 0
        assert data["reward/off_policy"] == 1 and data["actor/grad_norm"] > 0
        assert data["staleness/max"] <= 1
        assert 0 <= data["idle/trainer"] <= 1 and 0 <= data["idle/rollouts"] <= 1
        assert data.get("drift/age_0", 0.0) < 1e-5  # a token that the weights of its step sampled has no drift


class Training:
    """One ``python -m training`` process and what it said so far."""

    def __init__(
        self, out: Path, targets: Path, recipe: str = "luffy", *arguments: str, model: Path = SHIPPED, **settings: str
    ) -> None:
        command = [sys.executable, "-m", "training", "--recipe", recipe, "--targets", str(targets)]
        command += ["--model", str(model), "--out", str(out), *arguments]
        chosen = SMALL | {key.replace("__", "."): value for key, value in settings.items()}
        overrides, _ = read_by(recipe, [f"{key}={value}" for key, value in chosen.items()])
        command += [part for override in overrides for part in ("--set", override)]
        self.out = out
        self.lines: list[str] = []
        self.seen: set[Process] = set()
        environment = own_environment()
        parent = os.getpid()
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: die_with_parent(parent),  # a test that fails leaves nothing behind
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    @property
    def said(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, what: Callable[[], bool], seconds: float = 600) -> None:
        """Wait until ``what`` is true; an AssertionError with all output if the process ends before, or time does."""
        deadline = time.monotonic() + seconds
        while not what():
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.said}"
            assert time.monotonic() < deadline, f"waited {seconds} s:\n{self.said}"
            time.sleep(0.2)

    def wait_for_step(self, step: int) -> None:
        self.wait_for(lambda: f"training: step {step} of" in self.said)

    def end(self, seconds: float = 900) -> int:
        """Wait for the end; the exit status."""
        status = self.process.wait(seconds)
        self._reader.join(10)
        return status

    def find(self, words: str) -> int:
        """Pid of the first process of the training whose command line contains ``words``.

        What a supervisor runs, behind its ``--``, is no command line of its own.
        """
        self.remember()
        pids = [process.pid for process in self.seen if words in command_line(process).split(" -- ")[0]]
        assert pids, f"no process {words!r} among {[command_line(process)[:80] for process in self.seen]}"
        return min(pids)

    def remember(self) -> None:
        """Note which processes the training has."""
        self.seen |= family(self.process.pid)

    def gone(self, seconds: float) -> float:
        """Wait until none of the noted processes is alive; how long that took. AssertionError if some are left."""
        started = time.monotonic()
        while left := alive(self.seen):
            assert time.monotonic() - started < seconds, f"alive: {[command_line(process)[:120] for process in left]}"
            time.sleep(0.1)
        return time.monotonic() - started

    def rollouts(self, step: int) -> list[dict[str, Any]]:
        """The samples of a step."""
        return [json.loads(line) for line in (self.out / "rollouts" / f"{step}.jsonl").read_text().splitlines()]

    def metrics(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.out / "metrics.jsonl").read_text().splitlines()]
