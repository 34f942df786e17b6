"""The store in which graders of several processes keep their verdicts."""

import multiprocessing
from pathlib import Path

import pytest

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
