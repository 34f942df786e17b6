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
from typing import Any, cast

import dagster as dg
from dagster_pipes import (
    PIPES_PROTOCOL_VERSION,
    PIPES_PROTOCOL_VERSION_FIELD,
    PipesDefaultMessageWriter,
    PipesMessage,
    PipesParams,
)

POLL_SECONDS = 0.05
ENDS = ("opened", "closed")  # the first and the last message of a program


class MessageFile(dg.PipesMessageReader):
    """Reads the messages that a program appends to a temporary file."""

    def __init__(self) -> None:
        self._received: set[str] = set()

    @contextmanager
    def read_messages(self, handler: Any) -> Iterator[PipesParams]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "messages"
            file.touch()
            ended = threading.Event()
            reader = threading.Thread(target=self._read, args=(file, handler, ended), daemon=True)
            reader.start()
            completed = False
            try:
                yield {PipesDefaultMessageWriter.FILE_PATH_KEY: str(file)}
                completed = True
            finally:
                ended.set()
                reader.join()
                if not completed:  # the step stopped the program, whose missing last words are no news
                    for method in (method for method in ENDS if method not in self._received):
                        message = {PIPES_PROTOCOL_VERSION_FIELD: PIPES_PROTOCOL_VERSION, "method": method, "params": {}}
                        handler.handle_message(cast("PipesMessage", message))

    def no_messages_debug_text(self) -> str:
        return "Attempted to read messages from a local temporary file."

    def _read(self, file: Path, handler: Any, ended: threading.Event) -> None:
        try:
            for message in messages(file, ended):
                self._received.add(message["method"])
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
