"""What is wrong with a source: which errors are of a row, and which of a file."""

import io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from grading.answers.extraction import SEPARATOR
from targets.read.json_rows import LARGEST_ROW
from tests.unit.targets.test_sources import read


def test_columns_that_fit_nothing_are_listed(jsonl: Any) -> None:
    path = jsonl({"question_text": "q", "solution": "s"})
    with pytest.raises(InputError, match=r"traces\.jsonl.*question_text, solution.*problem, answer, response") as error:
        read(path)
    assert "mapping" in str(error.value)
    with pytest.raises(InputError, match="no column gone"):
        read(path, mapping={"problem": "question_text", "answer": "gone", "response": "solution"})
    with pytest.raises(InputError, match=r"'opnr1' does not exist.*openr1"):
        read(path, mapping="opnr1")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"problem": "p", "answer": "4", "respo', "unreadable"),
        ("[" * 100_000, "unreadable"),
        (b'{"problem": "p\xff", "answer": "4", "response": "r"}', "bad_text"),
        ("17", "wrong_type"),
        ({"problem": 17, "answer": "4", "response": "r"}, "wrong_type"),
        ({"problem": "p", "answer": True, "response": "r"}, "wrong_type"),
        ({"problem": "p", "answer": ["1", {"x": 1}], "response": "r"}, "wrong_type"),
        ({"problem": "p", "answer": {"x": 1}, "response": "r"}, "wrong_type"),
        ({"problem": "p", "answer": "4", "response": {"x": 1}}, "wrong_type"),
        ({"problem": None, "answer": "4", "response": "r"}, "no_problem"),
        ({"problem": "p", "response": "r"}, "no_gold"),
        ({"problem": "p", "answer": "  ", "response": "r"}, "no_gold"),
        ({"problem": "p", "answer": "4", "response": ""}, "no_response"),
    ],
)
def test_an_error_of_a_row_stays_in_its_row(jsonl: Any, good: Any, line: Any, reason: str) -> None:
    traces = read(jsonl(good(1), line, good(2)))
    assert [trace.row for trace in traces] == [0, 1, 2]
    assert [trace.reasons for trace in traces] == [[], [reason], []]


def test_several_golds_are_one_answer_as_in_a_benchmark(jsonl: Any) -> None:
    row = {"problem": "p", "answer": ["A", "C"], "response": "r"}
    assert [trace.gold for trace in read(jsonl(row))] == [SEPARATOR.join(row["answer"])]


def test_bytes_that_are_not_utf8_spoil_one_row_of_a_parquet(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    raw = pa.array([b"p", b"\xff\xfe", b"q"], pa.binary())
    problem = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    texts = pa.array(["1", "2", "3"])
    pq.write_table(pa.table({"problem": problem, "answer": texts, "response": texts}), path)
    traces = read(path)
    assert [trace.reasons for trace in traces] == [[], ["bad_text"], []]


def test_a_parquet_damaged_in_the_middle_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    texts = pa.array([os.urandom(400).hex() for _ in range(2000)])
    pq.write_table(
        pa.table({"problem": texts, "answer": texts, "response": texts}), path, row_group_size=500, compression="zstd"
    )
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 20_000] = bytes(20_000)
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"t\.parquet: damaged after row \d+"):
        read(path)


def test_an_arrow_stream_without_its_end_is_refused(tmp_path: Path) -> None:
    path, texts = tmp_path / "t.arrow", pa.array(["1", "2", "3", "4"])
    table, content = pa.table({"problem": texts, "answer": texts, "response": texts}), io.BytesIO()
    with pa.ipc.new_stream(content, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
        written = content.tell()  # of a writer that is killed now
    path.write_bytes(content.getvalue())
    assert [trace.gold for trace in read(path)] == ["1", "2", "3", "4"]
    path.write_bytes(content.getvalue()[:written])
    with pytest.raises(InputError, match=r"t\.arrow: not a readable Arrow file: its end is missing"):
        read(path)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.csv", "t.tsv"])
def test_columns_of_the_same_name_are_refused(tmp_path: Path, name: str) -> None:
    names, path = ["problem", "answer", "response", "answer"], tmp_path / name
    table = pa.table([pa.array([text]) for text in ("p", "4", "r", "5")], names)
    if name == "t.parquet":
        pq.write_table(table, path)
    elif name == "t.arrow":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    else:
        delimiter = "," if name == "t.csv" else "\t"
        path.write_text(delimiter.join(names) + "\n" + delimiter.join("p4r5") + "\n")
    with pytest.raises(InputError, match=rf"{name}: several columns are called answer; rename or remove"):
        read(path)


def test_a_header_may_end_in_several_empty_names(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("problem,answer,response,,\np,4,r,,\n")
    assert [(trace.gold, trace.reasons) for trace in read(path)] == [("4", [])]


def test_a_row_that_is_too_large_is_told_with_its_size(tmp_path: Path, jsonl: Any, good: Any) -> None:
    rows = [good(1), good(2, response="x" * LARGEST_ROW), good(3)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "x.parquet")
    for path in (jsonl(*rows), tmp_path / "x.parquet"):
        traces = read(path)
        assert [trace.reasons for trace in traces] == [[], ["too_large"], []]
        assert "of 16,777," in (traces[1].detail or "") and "limit 16,777,216" in (traces[1].detail or "")


def test_dates_that_python_cannot_hold_spoil_one_row(tmp_path: Path) -> None:
    text, far = pa.array(["a", "b", "c"]), pa.array([0, 1 << 62, 0], pa.int64()).cast(pa.timestamp("us"))
    pq.write_table(pa.table({"problem": text, "answer": far, "response": text}), tmp_path / "x.parquet")
    traces = read(tmp_path / "x.parquet")
    assert [trace.reasons for trace in traces] == [["wrong_type"]] * 3 and "cannot hold" in (traces[1].detail or "")


@pytest.mark.parametrize("text", ["[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", '[{"a": ]', '["\\q"]', "[" * 5000])
def test_arrays_that_are_not_json_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match=r"x\.json: not JSON"):
        read(tmp_path / "x.json")
