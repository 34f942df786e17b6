"""Workers of a training that start with their modules imported: one process imports them and forks the workers.

Ray starts a worker by running an interpreter, and each worker of a training would import torch, vLLM and verl for
itself. What Ray runs instead is ``forked_worker.py``, which hands its command to the process of this module and stays
until the worker has ended. This is for a training on one machine without GPUs: what has looked for a GPU must not fork.
"""

import importlib
import json
import os
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

INTERPRETER = Path(__file__).with_name("forked_worker.py")
INDEPENDENT = ("torch", "transformers.modeling_utils", "vllm")
# These import Ray, which reads its variables on import; the variables of a worker name its cluster.
OF_RAY = (
    "ray._private.workers.default_worker",
    "verl.workers.rollout.vllm_rollout.vllm_async_server",
    "verl.workers.engine_workers",
    "training.mixed.asynchronous.trainers",
)


@contextmanager
def preloaded_interpreter() -> Iterator[str]:
    """What Ray is to run for a Python interpreter, as long as the block lasts."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/socket"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()  # workers that are wanted while the modules are imported wait here
            descriptor = listener.fileno()
            command = [sys.executable, "-m", __name__, str(descriptor)]
            process = subprocess.Popen(command, pass_fds=[descriptor])
        ended = threading.Event()
        threading.Thread(target=_watch, args=(process, ended), daemon=True).start()
        try:
            yield shlex.join([sys.executable, "-I", "-S", str(INTERPRETER), path])
        finally:
            ended.set()
            process.terminate()
            process.wait()


def _watch(process: subprocess.Popen[bytes], ended: threading.Event) -> None:
    """End this process if the one that forks ends before it: Ray would wait for the next worker until a timeout."""
    status = process.wait()
    if not ended.is_set():
        sys.stderr.write(f"error: {__name__}, which starts the workers of the training, ended with status {status}\n")
        os._exit(1)


def fork_workers(listener: socket.socket) -> None:
    """Fork a worker for every command that comes, and run the command there."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    while True:
        connection, _ = listener.accept()
        command, files = receive(connection)
        os.environ.update(command["environment"])
        for module in OF_RAY:
            importlib.import_module(module)
        if os.fork() == 0:
            break
        for descriptor in (connection.detach(), *files):
            os.close(descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    listener.close()
    for standard, descriptor in enumerate(files):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    os.chdir(command["folder"])
    sys.argv[:] = command["arguments"]
    runpy.run_path(sys.argv[0], run_name="__main__")  # the end of the process closes ``connection``


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A command, and the files that are its standard input, output and error."""
    text, files, _, _ = socket.recv_fds(connection, 65536, 3)
    while part := connection.recv(65536):
        text += part
    return json.loads(text), files


if __name__ == "__main__":
    for name in INDEPENDENT:
        importlib.import_module(name)
    fork_workers(socket.socket(fileno=int(sys.argv[1])))
