"""Preparation under bad input, full disks and killed processes: one clear error or one rejected row, nothing lost."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from preparing import rows, run
from processes import children, descendants, wait_gone

from core.errors import InputError
from targets import engine
from targets.prepare import prepare
from targets.read import trace_files
from targets.settings import build_config

ROOT = Path(__file__).resolve().parents[2]


def test_a_damaged_cache_is_one_error(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    source, cache = jsonl(*(good(k) for k in range(1, 9))), tmp_path / "cache"
    run(source, tmp_path / "out", tokenizer, cache=cache)
    (kept,) = cache.glob("??/*.parquet")
    kept.write_bytes(kept.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"not a readable parquet.*delete it"):
        run(source, tmp_path / "other", tokenizer, cache=cache)


def test_a_killed_preparation_is_repeated_with_the_same_bytes(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any
) -> None:
    source = jsonl(*hard_rows(good, 120))
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "targets",
        "--source",
        str(source),
        "--out",
        str(out),
        "--tokenizer",
        str(tokenizer),
    ]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (out / ".preparing").is_dir() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    with pytest.raises(InputError, match="another process is preparing"):
        run(source, out, tokenizer)
    started = descendants(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_gone(started, 30)
    assert not (out / "prepared.parquet").exists()
    again = run(source, out, tokenizer)
    undisturbed = run(source, tmp_path / "other", tokenizer)
    assert again.prepared.read_bytes() == undisturbed.prepared.read_bytes()
    assert not (out / ".preparing").exists()


def pool_processes(parent: int) -> list[int]:
    """Return those that the fork servers of ``parent`` have forked."""
    return [pid for server in servers(parent) for pid in children(server)]


def servers(parent: int) -> list[int]:
    """Return the fork servers of ``parent``."""
    found = []
    for pid in children(parent):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "multiprocessing.forkserver" in " ".join(psutil.Process(pid).cmdline()):
                found.append(pid)
    return found


@pytest.mark.parametrize("later_s", [0, 1])
def test_ctrl_c_while_the_pool_starts_is_quiet(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any, later_s: float
) -> None:
    source = jsonl(*(good(k) for k in range(10, 3000)))
    command = [sys.executable, "-m", "targets", "--source", str(source), "--out", str(tmp_path / "out")]
    command += ["--tokenizer", str(tokenizer), "--set", "targets.workers=2"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 60
    while not servers(process.pid):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(later_s)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT and "Traceback" not in said, said


def hard_rows(good: Any, count: int) -> list[Any]:
    """Rows whose answers need symbolic algebra."""
    return [
        good(k, answer=f"\\sqrt{{{k}}}", response=f"<think>\nhm\n</think>\n\n\\boxed{{{k}^{{1/2}}}}.")
        for k in range(2, count)
    ]


def test_a_process_killed_in_the_middle_changes_nothing(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_files, "MARKED_ROWS", 8)
    monkeypatch.setattr(engine, "FEW_ROWS", 0)
    source = jsonl(*hard_rows(good, 200))
    killed: list[int] = []

    def kill_one(stage: str, done: int, total: int | None) -> None:
        if stage == "filter" and not killed:
            killed.append(pool_processes(os.getpid())[0])
            os.kill(killed[0], signal.SIGKILL)

    config = build_config({"source": str(source), "workers": 2})
    disturbed = prepare(config, tmp_path / "out", tokenizer_json=tokenizer, progress=kill_one)
    assert killed
    undisturbed = run(source, tmp_path / "other", tokenizer)
    for name in ("prepared", "profile", "rejected"):
        assert getattr(disturbed, name).read_bytes() == getattr(undisturbed, name).read_bytes()
    assert pool_processes(os.getpid()) == []


def test_a_process_that_keeps_dying_is_one_error(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_run", die)
    monkeypatch.setattr(trace_files, "MARKED_ROWS", 2)
    monkeypatch.setattr(engine, "FEW_ROWS", 0)
    with pytest.raises(RuntimeError, match=r"works on traces\.jsonl: rows 0 to \d+ died 3 times"):
        run(jsonl(*(good(k) for k in range(1, 12))), tmp_path / "out", tokenizer, workers=2)
    assert not (tmp_path / "out").exists()


def die(*_: Any) -> None:
    """What a pool process does that runs out of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


HOSTILE: list[tuple[Any, str]] = [
    ({"response": "<think>\n" + "x" * 10_000_000 + "\n</think>\n\n\\boxed{2}"}, "too_large"),
    ({"problem": "y" * 10_000_000}, "too_large"),
    ({"response": "<think>\na\0b\n</think>\n\n\\boxed{2}"}, "bad_text"),
    ({"answer": "9^{9^{9^9}}", "response": "<think>\nhm\n</think>\n\n\\boxed{9^{9^{9^8}}}"}, "wrong|verify|gold"),
    ({"answer": "(" * 5000 + "1" + ")" * 5000}, "verify|wrong|gold"),
    (
        {"response": "<think>\nhm\n</think>\n\n\\boxed{" + "{" * 5000 + "2" + "}" * 5000 + "}"},
        "verify|wrong|no_box|loop",
    ),
    ({"response": "<think>\nhm\n</think>\n\n\\boxed{" + "9" * 100_000 + "}"}, "wrong|verify"),
    ({"answer": "(1+x)^{5000}", "response": "<think>\nhm\n</think>\n\n\\boxed{(x+1)^{5001}}"}, "wrong|verify"),
    ({"answer": "1000000!", "response": "<think>\nhm\n</think>\n\n\\boxed{999999!}"}, "gold"),
    ({"response": {"deep": "struct"}}, "wrong_type"),
    ({"problem": ["a", "b"]}, "wrong_type"),
    ({"response": "<think>\n" + "a" * 300_000 + "\n</think>\n\n\\boxed{2}"}, "wrong"),
    ({"response": "\n" * 200_000}, "no_response"),
]


def test_hostile_rows_are_rejected_rows_and_the_others_are_kept(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any
) -> None:
    hostile = [good(k, **changes) for k, (changes, _) in enumerate(HOSTILE, 1)]
    truncated = '{"problem": "lost", "answer": "4", "resp'
    surrogate = '{"problem": "p \\udfff", "answer": "4", "response": "<think>a</think>\\\\boxed{4}"}'
    source = jsonl(*hostile, truncated, surrogate, b'{"problem": "\xff\xfe"}', "[" * 200_000, good(90), good(91))
    began = time.monotonic()
    prepared = run(source, tmp_path / "out", tokenizer, workers=2, grade_limit_s=1.0, min_compression_ratio=0)
    assert time.monotonic() - began < 90
    rejected = {row["row"]: row for row in rows(prepared.rejected)}
    reasons = [*(reason for _, reason in HOSTILE), "unreadable", "bad_text", "bad_text", "unreadable"]
    for number, reason in enumerate(reasons):
        assert any(rejected[number]["reason"].startswith(r) for r in reason.split("|")), (number, rejected[number])
        assert len(str(rejected[number])) < 20_000  # excerpts
    assert prepared.counts["kept"] == 2
    assert prepared.counts["read"] == len(reasons) + 2
