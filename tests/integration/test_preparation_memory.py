"""No file of traces or benchmarks makes a preparation, all its processes together, use more than it states."""

import gzip
import json
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

from core import PROJECT

STATED_MIB = 2048
TIMEOUT_S = 300
SHIPPED = PROJECT / "training" / "embedded_model" / "model"
MIB = b"x" * (1 << 20)
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


def large_row_group(folder: Path) -> Path:
    """600 MB of texts in one row group."""
    random = Random(2)
    words = ["".join(random.choices(string.ascii_lowercase, k=6)) for _ in range(20_000)]
    texts = [" ".join(random.choices(words, k=4_000)) for _ in range(300)]
    return honest(folder, pa.array((texts * 75)[:21_000], pa.large_string()), row_group_size=1 << 20)


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


TRACES: dict[str, Make] = {
    "a row group of 600 MB": large_row_group,
    "a line of 1.2 GiB (gzip)": long_line("x.jsonl.gz", partial(gzip.open, compresslevel=1)),
    "texts of a million characters": texts,
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


BENCHMARKS: dict[str, Make] = {
    "a text of 1 MB in 5,000 rows": benchmark_table(repeated(1_000_000, 5_000)),
    "a suite whose JSON lines have 1.2 GiB": suite(long_line("x.jsonl")),
}
QUICK = ("a line of 1.2 GiB (gzip)", "a text of 1 MB in 5,000 rows")


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
