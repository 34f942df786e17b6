"""Workers of a training that start with their modules imported: one process imports them and forks the workers.

Ray starts a worker by running an interpreter, so does vLLM for its engine, and each of them would import torch, vLLM
and verl for itself. What they run instead is ``forked_worker.py``, which hands its command to the process of this
module and stays until the worker has ended. This is for a training on one machine without GPUs: what has looked for a
GPU must not fork.
"""

import fcntl
import importlib
import json
import multiprocessing
import os
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from core.errors import TaskFailed

WORKER = Path(__file__).with_name("forked_worker.py")
INDEPENDENT = ("torch", "transformers.modeling_utils", "vllm")
# These import Ray, which reads its variables on import; the variables of a worker name its cluster.
OF_RAY = (
    "ray._private.workers.default_worker",
    "verl.workers.rollout.vllm_rollout.vllm_async_server",
    "verl.workers.engine_workers",
    "training.verl_hooks.asynchronous.trainers",
)

MOST_FILES = 253  # the most that Linux passes in one message
RUNTIME = "ray_kwargs.ray_init.runtime_env"
INTERPRETER = f"{RUNTIME}.py_executable"  # the key that tells Ray what to run


def recorded(config: DictConfig) -> DictConfig:
    """Return ``config`` as trackers record it: without what each attempt gives Ray anew.

    MLflow refuses a parameter that has changed, and verl then goes on without MLflow.
    """
    config = deepcopy(config)
    OmegaConf.update(config, RUNTIME, {}, merge=False, force_add=True)
    return config


@contextmanager
def preloaded_interpreter(abort: Callable[[BaseException], None]) -> Iterator[str]:
    """Yield what Ray is to run for a Python interpreter, as long as the block lasts.

    ``abort`` gets an error if the process that forks workers ends before: Ray would wait for the next one.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/socket"
        interpreter = _interpreter(path)
        interpreter.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-I", "-S", str(WORKER), path])} "$@"\n')
        interpreter.chmod(0o700)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()  # workers that are wanted while the modules are imported wait here
            descriptor = listener.fileno()
            command = [sys.executable, "-m", __name__, str(descriptor)]
            process = subprocess.Popen(command, pass_fds=[descriptor])
        ended = threading.Event()
        threading.Thread(target=_watch, args=(process, ended, abort), daemon=True).start()
        try:
            yield str(interpreter)
        finally:
            ended.set()
            process.terminate()
            process.wait()


def _watch(process: subprocess.Popen[bytes], ended: threading.Event, abort: Callable[[BaseException], None]) -> None:
    status = process.wait()
    if not ended.is_set():
        abort(TaskFailed(f"{__name__}, which starts the workers of the training, ended with status {status}"))


def fork_workers(listener: socket.socket) -> None:
    """Fork a worker for every command that comes, and run the command there."""
    from training.platforms import quirks  # it imports torch, for which whoever starts this process need not wait

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    while True:
        connection, _ = listener.accept()
        command, files = receive(connection)
        if OF_RAY[0] not in sys.modules:
            os.environ.update(command["environment"])
            quirks.apply(quirks.FORKS)
            for module in OF_RAY:
                importlib.import_module(module)
        if os.fork() == 0:
            break
        for descriptor in (connection.detach(), *files):
            os.close(descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    multiprocessing.set_executable(str(_interpreter(listener.getsockname())))
    listener.close()
    connection = _place(connection, dict(zip(command["files"], files, strict=True)))
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    os.environ.update(command["environment"])
    os.chdir(command["folder"])
    _run(command["arguments"])


def _run(arguments: list[str]) -> None:
    """Act as an interpreter that is started with a script, or with options and code as by `multiprocessing`."""
    if arguments[0].startswith("-"):
        code = arguments.index("-c")
        sys.argv[:] = ["-c", *arguments[code + 2 :]]
        exec(arguments[code + 1], {"__name__": "__main__"})
    else:
        sys.argv[:] = arguments
        runpy.run_path(arguments[0], run_name="__main__")


def _interpreter(path: str) -> Path:
    """Return the program that hands commands to the process that listens at ``path``."""
    return Path(path).with_name("python")


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive a command and its open files."""
    length, files, _, _ = socket.recv_fds(connection, 4, MOST_FILES)
    return json.loads(connection.recv(int.from_bytes(length), socket.MSG_WAITALL)), files


def _place(connection: socket.socket, files: dict[int, int]) -> socket.socket:
    """Give every file the number that the command knows it by; returns ``connection`` out of their way."""
    above = max(files) + 1
    aside = {number: fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, above) for number, file in files.items()}
    moved = socket.socket(fileno=fcntl.fcntl(connection, fcntl.F_DUPFD_CLOEXEC, above))
    for file in (connection.detach(), *files.values()):
        os.close(file)
    for number, file in aside.items():
        os.dup2(file, number)
        os.close(file)
    return moved


def _end_with(connection: socket.socket) -> None:
    """End this process with the one that stands for it: whoever started that one signals it, and waits for it."""
    connection.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    for name in INDEPENDENT:
        importlib.import_module(name)
    fork_workers(socket.socket(fileno=int(sys.argv[1])))
