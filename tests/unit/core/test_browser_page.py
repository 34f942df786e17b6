"""The page of rows: what is in it, and what it leaves out and says so. Its behaviour is tested in a browser."""

from dataclasses import replace
from pathlib import Path

import pytest
from pages import page_data

from core.browser import page as module
from core.browser.page import Page, Row, write_page
from core.errors import InputError

PAGE = Page("Rows", ("kind",), {"read": "3"})


def row(k: int, text: str = "text") -> Row:
    return Row(f"r:{k}", (f"kind {k % 2}",), f"p{k}", "1", text, len(text))


def test_rows_are_in_chunks_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_ROWS", 3)
    assert write_page(PAGE, (row(k) for k in range(8)), 8, tmp_path / "new" / "page.html") == 8
    index, texts = page_data(tmp_path / "new" / "page.html")
    assert index["chunks"] == [3, 3, 2] and [text[0] for text in texts] == [f"p{k}" for k in range(8)]
    assert index["facets"] == [{"name": "kind", "values": ["kind 0", "kind 1"], "codes": [0, 1] * 4}]


def test_turns_follow_the_notes(tmp_path: Path) -> None:
    turns = [("assistant", "call"), ("tool", "4")]
    write_page(PAGE, [replace(row(0), turns=turns), row(1)], 2, tmp_path / "page.html")
    called, plain = page_data(tmp_path / "page.html")[1]
    assert called[6] == [["assistant", "call"], ["tool", "4"]] and len(plain) == 6


def test_of_too_many_rows_every_second_is_in_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 5)
    assert write_page(PAGE, map(row, range(9)), 9, tmp_path / "page.html") == 5
    index, _ = page_data(tmp_path / "page.html")
    assert (index["ids"], index["step"], index["count"]) == ([f"r:{k}" for k in range(0, 9, 2)], 2, 9)


def test_a_long_text_loses_its_middle_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST", 4_000)
    write_page(PAGE, [row(0, "a" * 3_000 + "b" * 3_000)], 1, tmp_path / "page.html")
    index, [texts] = page_data(tmp_path / "page.html")
    assert texts[2] == f"{'a' * 2_000}\n\n[… 2,000 characters left out …]\n\n{'b' * 2_000}"
    assert index["lengths"] == [6_000]


def test_texts_that_are_no_valid_unicode_do_not_stop_it(tmp_path: Path) -> None:
    write_page(PAGE, [row(0, "lone \ud800 and \0")], 1, tmp_path / "page.html")
    assert page_data(tmp_path / "page.html")[1][0][2] == "lone ? and \0"


def test_a_page_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no row to show"):
        write_page(PAGE, [], 0, tmp_path / "page.html")
    with pytest.raises(ZeroDivisionError):
        write_page(PAGE, (row(1 // k) for k in (1, 0)), 2, tmp_path / "page.html")
    assert not list(tmp_path.iterdir())
