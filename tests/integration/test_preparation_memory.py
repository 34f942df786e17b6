"""No file of traces or benchmarks makes a preparation, all its processes together, use more than it states."""

import bz2
import gzip
import json
import lzma
import os
import signal
import string
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from thrift import Struct, edit_footer

from core.code_digest import PROJECT

STATED_MIB = 2048
TIMEOUT_S = 300
SHIPPED = PROJECT / "training" / "embedded_model" / "model"
MIB = b"x" * (1 << 20)
WHOLE_NUMBER = 6  # type of a 64-bit field
VALUES, BYTES, COMPRESSED, DATA_PAGE, DICTIONARY_PAGE = 5, 6, 7, 9, 11  # fields of a column in a footer
ROWS, GROUPS = 3, 4  # fields of a footer
Make = Callable[[Path], Path]


def good(number: int, **changes: Any) -> dict[str, Any]:
    total = str(2 * number)
    problem = f"A farmer has {number} sheep in the barn and buys {number} more at the market. How many has he now?"
    response = f"<think>\n{number} and {number} are {total}\n</think>\n\n\\boxed{{{total}}}"
    return {"problem": problem, "answer": total, "response": response, **changes}


def honest(folder: Path, response: pa.Array | None = None, **options: Any) -> Path:
    """A parquet file of ten good traces, or one whose responses are these."""
    table = pa.Table.from_pylist([good(number) for number in range(10)])
    if response is not None:
        text = pa.array(["2"] * len(response))
        table = pa.table({"problem": text, "answer": text, "response": response})
    pq.write_table(table, folder / "x.parquet", **options)
    return folder / "x.parquet"


def columns(footer: Struct) -> list[Struct]:
    return [column[3][1] for group in footer[GROUPS][1][1] for column in group[1][1][1]]


def lie(field: int, value: int, response: Callable[[], pa.Array] | None = None, **options: Any) -> Make:
    """A file whose footer says ``value`` in ``field`` of each column."""

    def make(folder: Path) -> Path:
        def edit(footer: Struct) -> None:
            for column in columns(footer):
                if field in column:
                    column[field] = (WHOLE_NUMBER, value)

        path = honest(folder, response() if response else None, **options)
        edit_footer(path, edit)
        return path

    return make


def rows_lie(rows: int) -> Make:
    def make(folder: Path) -> Path:
        def edit(footer: Struct) -> None:
            footer[ROWS] = footer[GROUPS][1][1][0][ROWS] = (WHOLE_NUMBER, rows)

        path = honest(folder)
        edit_footer(path, edit)
        return path

    return make


def hidden_dictionary(folder: Path) -> Path:
    """A dictionary that the footer does not name."""

    def edit(footer: Struct) -> None:
        for column in columns(footer):
            if DICTIONARY_PAGE in column:
                column[DATA_PAGE] = column.pop(DICTIONARY_PAGE)

    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 256, pa.int32()), pa.array(["x" * 40_000_000]))
    path = honest(folder, repeated, compression="zstd")
    edit_footer(path, edit)
    return path


def many_groups(folder: Path) -> Path:
    """A footer of 100,000 row groups."""

    def edit(footer: Struct) -> None:
        kind, (element, groups) = footer[GROUPS]
        footer[GROUPS] = (kind, (element, groups * 100_000))

    path = honest(folder)
    edit_footer(path, edit)
    return path


def many_columns(folder: Path) -> Path:
    row = {f"c{number}": 1 for number in range(50_000)} | good(1)
    pq.write_table(pa.Table.from_pylist([row]), folder / "x.parquet")
    return folder / "x.parquet"


def one_text(mebibytes: int) -> Callable[[], pa.Array]:
    return lambda: pa.array(["x" * (mebibytes << 20)], pa.large_string())


def delta(folder: Path) -> Path:
    """Texts that repeat the one before them."""
    texts = pa.array(["x" * 60_000_000] * 30, pa.large_string())
    return honest(folder, texts, use_dictionary=False, column_encoding={"response": "DELTA_BYTE_ARRAY"})


def nested_delta(folder: Path) -> Path:
    texts = pa.ListArray.from_arrays([0, 30], pa.array(["x" * 60_000_000] * 30, pa.large_string()))
    encoding = {"response.list.element": "DELTA_BYTE_ARRAY"}
    return honest(folder, texts, use_dictionary=False, column_encoding=encoding, write_statistics=False)


def lines(name: str, *parts: tuple[bytes, int], opened: Callable[..., Any] = Path.open) -> Make:
    def make(folder: Path) -> Path:
        with opened(folder / name, "wb") as file:
            for part, times in parts:
                for _ in range(times):
                    file.write(part)
        return folder / name

    return make


def row(**changes: Any) -> bytes:
    return json.dumps(good(1, **changes)).encode() + b"\n"


def long_line(name: str, opened: Callable[..., Any] = Path.open) -> Make:
    return lines(name, (row(), 1), (b'{"problem": "', 1), (MIB, 1200), (b'"}\n', 1), opened=opened)


def texts(folder: Path) -> Path:
    """Accepted answers of a million characters each, in more batches than one process filters."""
    random = Random(1)
    words = ["".join(random.choices(string.ascii_lowercase, k=random.randint(3, 9))) for _ in range(50_000)]
    with (folder / "x.jsonl").open("w") as file:
        for number in range(1, 40):
            thoughts = " ".join(random.choices(words, k=140_000))
            response = f"<think>\n{thoughts}\n</think>\n\n\\boxed{{{2 * number}}}"
            file.write(json.dumps(good(number, response=response)) + "\n")
    return folder / "x.jsonl"


def log_probabilities(folder: Path) -> Path:
    with (folder / "x.jsonl").open("w") as file:
        for number in range(1, 120):
            file.write(json.dumps(good(number, target_log_probs=[-0.5] * 800_000)) + "\n")
    return folder / "x.jsonl"


TRACES: dict[str, Make] = {
    "more rows than there are": rows_lie(1 << 40),
    "a negative number of rows": rows_lie(-5),
    "more values than there are": lie(VALUES, 1 << 25),
    "a negative number of values": lie(VALUES, -7),
    "more bytes than there are": lie(COMPRESSED, 1 << 40),
    "a dictionary beyond the end": lie(DICTIONARY_PAGE, 1 << 50),
    "data beyond the end": lie(DATA_PAGE, 1 << 50),
    "a dictionary that is not named": hidden_dictionary,
    **{
        f"a page that decompresses to 700 MiB ({codec})": lie(
            BYTES, 1000, one_text(700), compression=codec, use_dictionary=False, write_statistics=False
        )
        for codec in ("snappy", "gzip", "brotli", "zstd", "lz4")
    },
    "300 million nulls that count as 10": lie(
        VALUES,
        10,
        lambda: pa.ListArray.from_arrays([0, 300_000_000], pa.nulls(300_000_000, pa.string())),
        write_statistics=False,
    ),
    "texts that repeat the one before": delta,
    "texts in a list that repeat the one before": nested_delta,
    "100,000 row groups": many_groups,
    "50,000 columns": many_columns,
    "a line of 1.2 GiB": long_line("x.jsonl"),
    "a line of 1.2 GiB (gzip)": long_line("x.jsonl.gz", partial(gzip.open, compresslevel=1)),
    "a line of 1.2 GiB (bz2)": long_line("x.jsonl.bz2", bz2.open),
    "a line of 1.2 GiB (xz)": long_line("x.jsonl.xz", lzma.open),
    "deep rows": lines("x.jsonl", (row(), 1), (b'{"a":' * 100_000 + b"\n" + b"[" * 8_000_000 + b"\n", 1)),
    "a deep array": lines("x.json", (b"[" + row() + b"," + b"[" * 8_000_000, 1)),
    "texts of a million characters": texts,
    "95 million log-probabilities": log_probabilities,
}


def benchmark_table(problems: pa.Array) -> Make:
    def make(folder: Path) -> Path:
        name = pa.array(["x"] * len(problems))
        ids = pa.array([str(number) for number in range(len(problems))])
        table = pa.table({"benchmark": name, "id": ids, "problem": problems})
        pq.write_table(table, folder / "x.parquet", compression="zstd", write_statistics=False)
        return folder / "x.parquet"

    return make


def repeated(size: int, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x " * (size // 2)]))


def suite(file: Make) -> Make:
    """A suite with one benchmark, whose file this is."""

    def make(folder: Path) -> Path:
        source = {"file": str(file(folder)), "columns": {"problem": "problem", "gold": "answer"}}
        benchmark = {"name": "x", "group": "ood", "title": "X", "sources": [source]}
        (folder / "suite.yaml").write_text(json.dumps({"benchmarks": [benchmark]}))
        return folder / "suite.yaml"

    return make


def words(folder: Path) -> Path:
    """As many different words as there may be."""
    letters = string.ascii_lowercase
    four = [a + b + c + d for a in letters for b in letters for c in letters for d in letters]
    problems = [" ".join(four[start : start + 1000]) for start in range(0, 450_000, 1000)] * 12
    return benchmark_table(pa.array(problems))(folder)


BENCHMARKS: dict[str, Make] = {
    "a text of 40 MB in 256 rows": benchmark_table(repeated(40_000_000, 256)),
    "a text of 1 MB in 5,000 rows": benchmark_table(repeated(1_000_000, 5_000)),
    "one text of 30 MB": benchmark_table(pa.array(["ab " * 10_000_000])),
    "25 MB of words": words,
    "a suite whose parquet has a text of 40 MB in 256 rows": suite(
        lambda folder: honest(folder, repeated(40_000_000, 256))
    ),
    "a suite whose JSON lines have 1.2 GiB": suite(long_line("x.jsonl")),
    "a suite whose array is deep": suite(lines("x.json", (b"[" * 8_000_000, 1))),
    "a suite whose array has 5 million lists": suite(lines("x.json", (b"[", 1), (b"[]," * 5_000_000, 1), (b"[]]", 1))),
}
QUICK = ("more rows than there are", "a page that decompresses to 700 MiB (zstd)", "a text of 1 MB in 5,000 rows")


def cases(makes: dict[str, Make]) -> list[Any]:
    return [pytest.param(makes[name], id=name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in makes]


@pytest.mark.parametrize("make", cases(TRACES))
def test_traces_do_not_fill_the_memory(tmp_path: Path, make: Make) -> None:
    check(tmp_path, "--source", str(make(tmp_path)))


@pytest.mark.parametrize("make", cases(BENCHMARKS))
def test_benchmarks_do_not_fill_the_memory(tmp_path: Path, make: Make) -> None:
    check(tmp_path, "--set", "embedded_rows=1500", "--benchmarks", str(make(tmp_path)))


def check(folder: Path, *arguments: str) -> None:
    """A preparation ends well or with one message, and its processes together take no more than it states."""
    command = [sys.executable, "-m", "targets", "--out", str(folder / "out"), "--tokenizer", str(SHIPPED), *arguments]
    with (folder / "stderr").open("w+") as stderr:
        process = subprocess.Popen(
            command, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True
        )
        peak, began = 0, time.monotonic()
        while process.poll() is None and peak >> 20 < STATED_MIB and time.monotonic() - began < TIMEOUT_S:
            peak = max(peak, memory(process.pid))
            time.sleep(0.05)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        stderr.seek(0)
        said = stderr.read()
    print(f"{peak >> 20} MiB, {time.monotonic() - began:.0f} s, status {process.returncode}: {said[-300:]}")
    assert peak >> 20 < STATED_MIB, said[-600:]
    assert process.returncode in (0, 2), said[-2000:]
    assert "Traceback" not in said and said.count("error: ") == (process.returncode == 2), said[-2000:]


def memory(pid: int) -> int:
    """Bytes that a process and its descendants take, what they share counted once."""
    total = 0
    try:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for process in family:
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total
