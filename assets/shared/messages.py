"""Read the messages of a program from a file of Dagster Pipes, one whole line at a time.

Dagster's own reader parses whatever the file holds. If it looks while a message is being written, it fails, and every
later message is lost.
"""

import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.pipes.context import PipesMessageHandler
from dagster_pipes import PipesDefaultMessageWriter, PipesParams

POLL_SECONDS = 0.05


class MessageFile(dg.PipesMessageReader):
    """Reads the messages that a program appends to a temporary file."""

    @contextmanager
    def read_messages(self, handler: PipesMessageHandler) -> Iterator[PipesParams]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "messages"
            file.touch()
            ended = threading.Event()
            reader = threading.Thread(target=self._read, args=(file, handler, ended), daemon=True)
            reader.start()
            try:
                yield {PipesDefaultMessageWriter.FILE_PATH_KEY: str(file)}
            finally:
                ended.set()
                reader.join()

    def no_messages_debug_text(self) -> str:
        return "Attempted to read messages from a local temporary file."

    def _read(self, file: Path, handler: PipesMessageHandler, ended: threading.Event) -> None:
        try:
            for message in messages(file, ended):
                handler.handle_message(message)
        except Exception:
            handler.report_pipes_framework_exception(f"{type(self).__name__} reader thread", sys.exc_info())
            raise


def messages(file: Path, ended: threading.Event) -> Iterator[Any]:
    """Yield the JSON value of each complete line of ``file``, until ``ended`` is set and all lines are read."""
    line = b""
    with file.open("rb") as stream:
        while True:
            last = ended.is_set()
            if part := stream.readline():
                line += part
                if line.endswith(b"\n"):
                    yield json.loads(line)
                    line = b""
            elif last:
                return
            else:
                ended.wait(POLL_SECONDS)
