"""The store in which graders of several processes keep their verdicts."""

import multiprocessing
import sqlite3
from pathlib import Path

import pytest

from grading.grader import Grader
from grading.verdict_cache import VerdictStore


def _fill(file: Path, first: int) -> None:
    store = VerdictStore(file)
    for number in range(first, first + 200):
        store.keep(f"{number}", "gold", "wrong", f"reason {number}")
    store.close()


def test_a_pair_is_found_with_its_reason_and_no_other_pair(tmp_path: Path) -> None:
    store = VerdictStore(tmp_path / "verdicts")
    store.keep("a", "b", "correct", "same value")
    store.keep("a", "b", "wrong", "later")
    assert store.find("a", "b") == ("correct", "same value")
    assert store.find("b", "a") is None and store.find("", "ab") is None
    store.close()


@pytest.mark.parametrize("verdict", ["timeout", "error"])
def test_what_may_not_happen_again_is_not_kept(tmp_path: Path, verdict: str) -> None:
    store = VerdictStore(tmp_path / "verdicts")
    store.keep("a", "b", verdict, "")
    assert store.find("a", "b") is None
    store.close()


@pytest.mark.parametrize("text", ["\ud800", "\x00", "'; drop table verdicts", "\u00e9\u4e2d", ""])
def test_any_text_is_a_pair(tmp_path: Path, text: str) -> None:
    store = VerdictStore(tmp_path / "verdicts")
    store.keep(text, text, "wrong", text)
    assert store.find(text, text) == ("wrong", text)
    store.close()


def test_processes_write_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "verdicts"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_fill, args=(file, 100 * number)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    store = VerdictStore(file)
    assert all(store.find(f"{number}", "gold") == ("wrong", f"reason {number}") for number in range(400))
    store.close()


def test_a_full_disk_costs_the_cache_and_not_the_verdicts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    full = Path("/dev/full")  # every write to it fails as on a full disk
    for file in (full, tmp_path / "gone" / "verdicts"):
        caplog.clear()
        with Grader(workers=1, shared=file) as grader:
            assert grader.verify("x^2-1", "(x-1)(x+1)") == grader.verify("2x-1", "x+x-1") == "correct"
        (message,) = caplog.messages
        assert str(file) in message and "not cached" in message and "TMPDIR" in message


def test_a_disk_that_fills_up_later_costs_no_verdict(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "verdicts"
    store = VerdictStore(file)
    store.keep("a", "b", "correct", "")
    with sqlite3.connect(file) as other:
        other.execute("drop table verdicts")
    assert store.find("a", "b") is None
    store.keep("c", "d", "correct", "")
    assert store.find("c", "d") is None and len(caplog.messages) == 1
    store.close()
