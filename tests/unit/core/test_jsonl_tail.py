"""The events of a program: each arrives, however its line is written."""

import json
from pathlib import Path

from core.machine.jsonl_tail import RecordFile


def test_a_record_that_is_seen_half_written_arrives_and_so_does_the_next(tmp_path: Path) -> None:
    file, read = tmp_path / "events", []
    sent = [{"step": 1, "text": "ä" * 5000}, {"step": 2}]
    data = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in sent).encode()
    records = RecordFile(file)
    assert list(records.new_records()) == []  # nothing is written yet
    with file.open("ab", buffering=0) as stream:
        for part in (data[:1], data[1:4096], data[4096:4097], data[4097:]):  # the second ends within a letter
            stream.write(part)
            read.extend(records.new_records())
    assert read == sent
    assert list(records.new_records()) == []


def test_what_is_written_last_is_read_before_the_end(tmp_path: Path) -> None:
    file = tmp_path / "events"
    file.write_text('{"step": 1}\n{"step": 2}\n{"cut')  # the program was killed while it wrote
    assert list(RecordFile(file).new_records()) == [{"step": 1}, {"step": 2}]
