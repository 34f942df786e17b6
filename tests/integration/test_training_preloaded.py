"""Workers that are forks of a process which has imported torch, vLLM and verl."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from processes import wait_until
from training_runs import command_line, family

from core import PROJECT
from core.machine.processes import Process
from training.config.to_verl import compose_run
from training.platforms.preloaded import INTERPRETER, preloaded_interpreter, recorded

WORKER = """
import json, os, sys
names = ["torch", "vllm", "verl", "training.verl_hooks.trainer"]
print(json.dumps({
    "imported": [name for name in names if name in sys.modules], "arguments": sys.argv[1:], "folder": os.getcwd(),
    "variable": os.environ.get("VARIABLE"), "parent": os.getppid(), "read": sys.stdin.read(), "main": __name__,
}))
"""


SPAWNING = """
import multiprocessing, os, sys, time
from multiprocessing.connection import wait

def work(connection):
    connection.send(("vllm" in sys.modules, os.getppid(), os.environ["VARIABLE"]))
    time.sleep(600)

if __name__ == "__main__":
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    os.environ["VARIABLE"] = "the engine's"
    process = spawning.Process(target=work, args=(theirs,))
    process.start()
    print(ours.recv() == (True, os.getppid(), "the engine's"))
    process.{end}()
    process.join()
    print(wait([process.sentinel], timeout=60) == [process.sentinel])
"""

DRAWING = """
from threading import Thread
from ray import ObjectID

def draw():
    print(ObjectID.from_random().hex())

draw()
thread = Thread(target=draw)
thread.start()
thread.join()
"""

DRIVER = """
import os, sys, time
from training.platforms.preloaded import preloaded_interpreter

def abort(error):
    sys.stderr.write(f"{error}\\n")
    sys.stderr.flush()
    os._exit(1)

with preloaded_interpreter(abort):
    time.sleep(600)
"""


def server_of(pid: int) -> Process:
    """The process that forks the workers of process ``pid``, once it runs."""
    return wait_until(
        lambda: next((one for one in family(pid) if "-m training.platforms.preloaded" in command_line(one)), None), 60
    )


@pytest.fixture(scope="module", autouse=True)
def platform() -> Iterator[None]:
    environment = compose_run("luffy", "cpu", (), run=Path("run")).environment
    with pytest.MonkeyPatch.context() as patch:
        for name in ("VERL_USE_EXTERNAL_MODULES", "TORCHDYNAMO_DISABLE", "OMP_NUM_THREADS"):
            patch.setenv(name, environment[name])
        yield


@pytest.fixture(scope="module")
def interpreter(platform: None) -> Iterator[str]:
    errors: list[BaseException] = []
    with preloaded_interpreter(errors.append) as command:
        server = server_of(os.getpid())
        yield command
    assert not server.is_alive() and not errors


def test_a_worker_is_a_fork_that_runs_a_command_as_an_interpreter_would(interpreter: str, tmp_path: Path):
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    worker = subprocess.run(
        [interpreter, str(script), "--number", "1"],
        input="input",
        env={**os.environ, "VARIABLE": "ours"},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert json.loads(worker.stdout) == {
        "imported": ["torch", "vllm", "verl", "training.verl_hooks.trainer"],
        "arguments": ["--number", "1"],
        "folder": str(tmp_path),
        "variable": "ours",
        "parent": server_of(os.getpid()).pid,
        "read": "input",
        "main": "__main__",
    }


def test_trackers_record_no_interpreter_because_each_attempt_has_another_one():
    config = compose_run("luffy", "cpu", (), run=Path("run"))
    attempts = [deepcopy(config), deepcopy(config)]
    for number, attempt in enumerate(attempts):
        OmegaConf.update(attempt, INTERPRETER, f"/tmp/{number}/python", force_add=True)
    assert recorded(attempts[0]) == recorded(attempts[1])
    assert OmegaConf.select(attempts[1], INTERPRETER) == "/tmp/1/python"


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_what_a_worker_spawns_is_a_fork_too_and_ends_with_its_process(interpreter: str, tmp_path: Path, end: str):
    script = tmp_path / "spawning.py"
    script.write_text(SPAWNING.replace("{end}", end))
    spawning = subprocess.run([interpreter, str(script)], stdout=subprocess.PIPE, text=True, check=True)
    assert spawning.stdout.splitlines() == ["True", "True"]


def test_no_two_workers_draw_the_same_numbers_for_ray(interpreter: str, tmp_path: Path):
    script = tmp_path / "drawing.py"
    script.write_text(DRAWING)
    drawn = [
        subprocess.run([interpreter, str(script)], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        for _ in range(3)
    ]
    assert len({number for numbers in drawn for number in numbers}) == 6


def test_a_training_ends_when_nothing_can_start_its_workers():
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-c", DRIVER]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as driver:
        server_of(driver.pid).send_signal(signal.SIGKILL)
        _, error = driver.communicate(timeout=60)
    assert driver.returncode == 1
    assert error.endswith("which starts the workers of the training, ended with status -9\n")
