"""The Dagster UI of a test, and pages of it in a browser."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from processes import free_port

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 120
SECONDS = 60_000  # of the browser, in its milliseconds


@contextmanager
def served(folder: Path, environment: Mapping[str, str], *arguments: str) -> Iterator[str]:
    """Serve the UI with its log in ``folder`` until the end; yields its address."""
    port = free_port()
    with (folder / "ui.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pipelines.cli.luffy", "ui", "--port", str(port), *arguments],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/server_info", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def open_page(browser: Any, address: str) -> Iterator[Any]:
    """Open a page on which an error in the console fails the test."""
    with browser.new_context(viewport={"width": 1500, "height": 1000}, base_url=address) as context:
        page = context.new_page()
        page.set_default_timeout(SECONDS)
        errors: list[str] = []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        yield page
    assert not errors


def _wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            assert process.poll() is None, "the UI ended before it answered"
            assert time.monotonic() < end, f"no answer at {url} after {START_SECONDS} s"
            time.sleep(0.5)
