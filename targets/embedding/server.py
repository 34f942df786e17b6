"""Serve an embedding model from its folder with vLLM's own server, for as long as vectors are computed."""

import importlib.util
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from core.errors import InputError, TaskFailed
from core.existing_python import TRAIN_PYTHON, ExistingPython
from core.machine.loopback import LOOPBACK, SINGLE_NODE
from core.model.model_folder import check_model
from core.plugins.user_code import python_path
from core.text.patterns import compile_quick_pattern

MODULE = "vllm.entrypoints.openai.api_server"
START_S, POLL_S, STOP_S = 1200.0, 0.5, 60.0
ERROR = compile_quick_pattern(r"\b\w+Error: .+")
LONGEST_LOG = 1 << 20  # bytes of the server's log in which its error is looked for
QUOTED = 300  # characters of it
ON_CPU = ["--dtype", "float32", "--kv-cache-memory-bytes", str(1 << 30)]  # else it takes most of the memory
OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


@contextmanager
def serve(folder: Path) -> Iterator[tuple[str, str]]:
    """The URL and the key of a server on this machine that knows ``folder`` by its path; it ends with the block.

    Raises:
        InputError: the folder holds no whole model, no interpreter here has vLLM, or the preparation runs on the
            machines of a cluster.
        TaskFailed: the server does not start.
    """
    if os.environ.get("RAY_ADDRESS"):
        raise InputError(
            f"embedding.model: {folder}: a folder is served on this machine only, and RAY_ADDRESS names a cluster; "
            "serve the model with `vllm serve`, and give its address as embedding.url"
        )
    check_model(folder, "embed")
    key, port, python = secrets.token_hex(16), _free_port(), _python()
    command = [sys.executable, "-P", "-m", "core.backends.supervisor", "--", str(python), "-P", "-m", MODULE]
    command += ["--model", str(folder), "--served-model-name", str(folder), "--runner", "pooling"]
    command += ["--host", LOOPBACK, "--port", str(port), "--enforce-eager"]
    command += ON_CPU if ExistingPython.look(python).kind == "cpu" else []
    environment = {**OFFLINE, **SINGLE_NODE, **os.environ, "VLLM_API_KEY": key, "PYTHONPATH": python_path()}
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            _wait(server, f"http://{LOOPBACK}:{port}/health", log, folder)
            yield f"http://{LOOPBACK}:{port}/v1", key
        finally:
            server.terminate()
            try:
                server.wait(STOP_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _python() -> Path:
    """This interpreter if it has vLLM, else the training interpreter."""
    if importlib.util.find_spec("vllm"):
        return Path(sys.executable)
    if not TRAIN_PYTHON.is_file():
        raise InputError(
            f"embedding.model: vLLM serves a model folder, and there is no training interpreter at {TRAIN_PYTHON}: run "
            "`make setup`, or give an endpoint as embedding.url"
        )
    return TRAIN_PYTHON


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return probe.getsockname()[1]


def _wait(server: "subprocess.Popen[bytes]", url: str, log: IO[bytes], folder: Path) -> None:
    """Wait until the server answers; TaskFailed if it ends before, or takes too long."""
    until = time.monotonic() + START_S
    while server.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=POLL_S):
                return
        except OSError:
            time.sleep(POLL_S)
    state = "is still not ready" if server.poll() is None else f"ended with status {server.returncode}"
    raise TaskFailed(f"embedding.model: {folder}: vLLM's server {state}: {_first_error(log)}")


def _first_error(log: IO[bytes]) -> str:
    """The first error that the log names, from which the others follow, else its last line."""
    log.seek(0)
    lines = [line.strip() for line in log.read(LONGEST_LOG).decode("utf-8", "replace").splitlines() if line.strip()]
    errors = (found.group() for line in lines if (found := ERROR.search(line)))
    return next(errors, lines[-1] if lines else "no message")[:QUOTED]
