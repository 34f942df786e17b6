"""Workers that are forks of a process which has imported torch, vLLM and verl."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import wait_until
from training_runs import command_line, family

from core.code import PROJECT
from core.machine.processes import Process
from training.platforms.preloaded import preloaded_interpreter
from training.run.configuration import compose_run

WORKER = """
import json, os, sys
names = ["torch", "vllm", "verl", "training.mixed.trainer"]
print(json.dumps({
    "imported": [name for name in names if name in sys.modules], "arguments": sys.argv[1:], "folder": os.getcwd(),
    "variable": os.environ.get("VARIABLE"), "parent": os.getppid(), "read": sys.stdin.read(), "main": __name__,
}))
"""


DRIVER = """
import time
from training.platforms.preloaded import preloaded_interpreter
with preloaded_interpreter():
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def platform(monkeypatch: pytest.MonkeyPatch):
    environment = compose_run("luffy", "cpu", (), run=Path("run")).environment
    for name in ("VERL_USE_EXTERNAL_MODULES", "TORCHDYNAMO_DISABLE", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, environment[name])


def server_of(pid: int) -> Process:
    """The process that forks the workers of process ``pid``, once it runs."""
    return wait_until(
        lambda: next((one for one in family(pid) if "-m training.platforms.preloaded" in command_line(one)), None), 60
    )


def test_a_worker_is_a_fork_that_runs_a_command_as_an_interpreter_would(tmp_path: Path):
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    with preloaded_interpreter() as interpreter:
        server = server_of(os.getpid())
        for number in ("1", "2"):
            worker = subprocess.run(
                [*shlex.split(interpreter), str(script), "--number", number],
                input=f"input {number}",
                env={**os.environ, "VARIABLE": number},
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            assert json.loads(worker.stdout) == {
                "imported": ["torch", "vllm", "verl", "training.mixed.trainer"],
                "arguments": ["--number", number],
                "folder": str(tmp_path),
                "variable": number,
                "parent": server.pid,
                "read": f"input {number}",
                "main": "__main__",
            }
    assert not server.is_alive()


def test_a_training_ends_when_nothing_can_start_its_workers():
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-c", DRIVER]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as driver:
        server_of(driver.pid).send_signal(signal.SIGKILL)
        _, error = driver.communicate(timeout=60)
    assert driver.returncode == 1
    assert error.endswith("which starts the workers of the training, ended with status -9\n")
