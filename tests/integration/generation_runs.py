"""The command that generates and the server of an endpoint, as the tests start them."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from processes import free_port

ROOT = Path(__file__).resolve().parents[2]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "evaluation", "generate", *map(str, arguments)]


def run(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done


@contextmanager
def served(model: Path, log: Path, *flags: str) -> Iterator[str]:
    """The URL of vLLM's own OpenAI-compatible server, which serves ``model`` as "tiny" to holders of the key s3cret."""
    port = free_port()
    arguments = ["--model", model, "--served-model-name", "tiny", "--host", "127.0.0.1", "--port", port]
    arguments += ["--dtype", "float32", "--enforce-eager", "--api-key", "s3cret", "--kv-cache-memory-bytes", 1 << 26]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TORCHDYNAMO_DISABLE": "1"}
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *map(str, arguments), *flags],
            stdout=output,
            stderr=output,
            env=environment,
        )
    try:
        while "Application startup complete" not in log.read_text():
            assert server.poll() is None, log.read_text()[-3000:]
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(60)


def answered(endpoint: str) -> int:
    """The requests that the server has finished, by its own count."""
    with urllib.request.urlopen(endpoint.removesuffix("/v1") + "/metrics") as metrics:
        lines = metrics.read().decode().splitlines()
    return int(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("vllm:request_success_total")))
