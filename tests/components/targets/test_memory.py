"""No file makes a preparation use more memory than it states, however little of the disk it takes."""

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core import PROJECT
from core.errors import InputError
from targets.read.json_rows import LARGEST_ROW
from targets.read.sources import read_source
from targets.settings import build_config

LIMIT_MIB = 700  # of the 2 GiB that a preparation states, for the process that reads
MEASURE = """
import sys
from collections import Counter
from itertools import chain
from targets.settings import build_config
from targets.read.sources import find_shards, observe
config = build_config({"source": sys.argv[1]})
reasons = Counter()
try:
    observe(config)
    for shard in find_shards(config):
        for batch in chain.from_iterable(piece.batches() for piece in shard.pieces()):
            reasons.update(reason for trace in batch for reason in trace.reasons or ["accepted"])
    result = dict(reasons)
except ValueError as error:
    result = f"{type(error).__name__}: {error}"
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak) // 1024, result)
"""
GOOD = {"problem": "1+1=?", "answer": "2", "response": "<think>\na\n</think>\n\n\\boxed{2}"}
Write = Callable[[Path], None]


def parquet(column: pa.Array, **options: Any) -> Write:
    def write(path: Path) -> None:
        text = pa.array(["2"] * len(column))
        pq.write_table(pa.table({"problem": text, "answer": text, "response": column}), path, **options)

    return write


def repeated(size: int, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * size]))


def zipped(*pieces: tuple[bytes, int]) -> Write:
    def write(path: Path) -> None:
        with gzip.open(path, "wb", compresslevel=1) as file:
            for piece, times in pieces:
                for _ in range(times):
                    file.write(piece)

    return write


MIB = b" " * (1 << 20)
BOMBS: dict[str, tuple[str, Write]] = {
    "a line of 400 MiB": (
        "x.jsonl.gz",
        zipped((json.dumps(GOOD).encode() + b'\n{"problem": "', 1), (b"x" * len(MIB), 400), (b'"}\n', 1)),
    ),
    "a CSV line of 400 MiB": (
        "x.csv.gz",
        zipped((b"problem,answer,response\np,1,", 1), (b"x" * len(MIB), 400), (b"\nq,2,r\n", 1)),
    ),
    "a CSV row of 5 million values": (
        "x.csv",
        lambda path: path.write_bytes(b"problem\n" + b"xx," * 5_000_000 + b"\n"),
    ),
    "400 MiB of blanks": ("x.jsonl.gz", zipped((MIB, 400), (json.dumps(GOOD).encode(), 1))),
    "a text of 400 MiB in an array": ("x.json.gz", zipped((b'[{"problem": "', 1), (b"x" * len(MIB), 400))),
    "an array of 4 million lists": ("x.json.gz", zipped((b"[", 1), (b"[]," * 40_000, 100), (b"[]]", 1))),
    "a row of 5 million lists": ("x.jsonl", lambda path: path.write_bytes(b'{"a": [' + b"[]," * 5_000_000 + b"[]]}\n")),
    "rows with new keys": (
        "x.jsonl",
        lambda path: path.write_text(
            "".join(json.dumps({f"{row}-{key}": 1 for key in range(40_000)}) + "\n" for row in range(9))
        ),
    ),
}


QUICK = ("a line of 400 MiB", "rows with new keys")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in BOMBS]
)
def test_a_small_file_does_not_fill_the_memory(tmp_path: Path, name: str) -> None:
    file, write = BOMBS[name]
    write(tmp_path / file)
    done = measured(tmp_path / file)
    mib, result = done.split(" ", 1)
    print(f"{name}: {mib} MiB, {result}")
    assert int(mib) < LIMIT_MIB, result


def measured(path: Path, before: str = "") -> str:
    """What `MEASURE` prints of a file, in a process that runs ``before`` first."""
    done = subprocess.run(
        [sys.executable, "-c", before + MEASURE, str(path)], cwd=PROJECT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(path: Path) -> list[Any]:
    return list(read_source(build_config({"source": str(path), "max_text_bytes": 1 << 30})))


def test_a_row_that_is_too_large_is_told_with_its_size(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        json.dumps(GOOD) + "\n" + json.dumps({**GOOD, "problem": "x" * LARGEST_ROW}) + "\n" + json.dumps(GOOD)
    )
    traces = read(path)
    assert [trace.reasons for trace in traces] == [[], ["too_large"], []]
    assert "a line of 16,777," in traces[1].detail and "limit 16,777,216" in traces[1].detail
    parquet(pa.array(["a", "x" * LARGEST_ROW, "b"]))(tmp_path / "x.parquet")
    traces = read(tmp_path / "x.parquet")
    assert [trace.reasons for trace in traces] == [[], ["too_large"], []]
    assert "limit 16,777,216" in traces[1].detail


def test_a_row_group_that_does_not_fit_into_memory_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet(repeated(2_000_000, 256))(tmp_path / "x.parquet")
    # This allocator reserves nothing in advance.
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "system")
    assert "{'too_large': 256}" in measured(tmp_path / "x.parquet")  # each row alone, by max_text_bytes
    limit = f"from core import parquet; parquet.READ_BYTES = {64 << 20}\n"
    expected = r"InputError: .*x\.parquet: row group 0: a part of it takes more than .*smaller row groups"
    assert re.search(expected, measured(tmp_path / "x.parquet", limit))


def test_an_ordinary_file_is_read_in_a_process_of_its_own(tmp_path: Path) -> None:
    response = "<think>\n" + "and so on, " * 2_000 + "\n</think>\n\n\\boxed{2}"
    parquet(pa.array([response] * 2_000), use_dictionary=False)(tmp_path / "x.parquet")
    assert "{'accepted': 2000}" in measured(tmp_path / "x.parquet")


def test_a_batch_of_long_rows_is_read_row_by_row(tmp_path: Path) -> None:
    responses = [f"{k}" * 1_000_000 for k in range(10)] * 3
    parquet(pa.array(responses))(tmp_path / "x.parquet")
    assert [trace.response for trace in read(tmp_path / "x.parquet")] == responses


def test_dates_that_python_cannot_hold_spoil_one_row(tmp_path: Path) -> None:
    dates = pa.array([datetime(2020, 1, 1), None, None], pa.timestamp("s"))
    far = pa.array([0, 1 << 62, 0], pa.int64()).cast(pa.timestamp("us"))
    for column in (dates, far):
        text = pa.array(["a", "b", "c"])
        pq.write_table(pa.table({"problem": text, "answer": column, "response": text}), tmp_path / "x.parquet")
        assert {reason for trace in read(tmp_path / "x.parquet") for reason in trace.reasons} <= {
            "wrong_type",
            "no_gold",
        }
    assert "cannot hold" in (read(tmp_path / "x.parquet")[1].detail or "")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("[]", 0),
        (' [ {"a": 1} , 2, "x", null ]\n', 4),
        ("[" + ", ".join(["12345678"] * 300_000) + "]", 300_000),
    ],
)
def test_arrays_are_read_element_by_element(tmp_path: Path, text: str, rows: int) -> None:
    from targets.read.json_rows import array_rows

    (tmp_path / "x.json").write_text(text)
    with (tmp_path / "x.json").open("rb") as stream:
        elements = list(array_rows(stream, "x"))
    assert len(elements) == rows == len(json.loads(text))


@pytest.mark.parametrize("text", ["[", "[1", "[1,", "[1,]", "[,1]", "[1 2]", '[{"a": ]', '["\\q"]', "[" * 5000])
def test_arrays_that_are_not_json_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"x\.json: not JSON"):
        read(path)
