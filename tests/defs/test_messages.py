"""The messages of a program: each arrives, however its line is written."""

import json
import threading
import time
from pathlib import Path

from assets.shared.messages import messages


def test_a_message_that_is_seen_half_written_arrives_and_so_does_the_next(tmp_path: Path) -> None:
    file, ended, read = tmp_path / "messages", threading.Event(), []
    file.touch()
    reader = threading.Thread(target=lambda: read.extend(messages(file, ended)))
    reader.start()
    sent = [{"step": 1, "text": "ä" * 5000}, {"step": 2}]
    data = "".join(json.dumps(message, ensure_ascii=False) + "\n" for message in sent).encode()
    with file.open("ab", buffering=0) as stream:
        for part in (data[:1], data[1:4096], data[4096:4097], data[4097:]):  # the second ends within a letter
            stream.write(part)
            time.sleep(0.2)
    ended.set()
    reader.join()
    assert read == sent


def test_what_is_written_last_is_read_before_the_end(tmp_path: Path) -> None:
    file, ended = tmp_path / "messages", threading.Event()
    file.write_text('{"step": 1}\n{"step": 2}\n{"cut')  # the program was killed while it wrote
    ended.set()
    assert list(messages(file, ended)) == [{"step": 1}, {"step": 2}]
