"""Two versions side by side: what `luffy targets diff` prints."""

from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from targets.__main__ import main
from targets.check.version_diff import EXAMPLES, NOT_READ, compare_folders
from targets.prepare import prepare
from targets.settings import build_config


@pytest.fixture
def versions(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> tuple[Path, Path]:
    """Two preparations of two sources. In the second one, ``b`` has lost 30 rows, and two of its golds are others."""
    a = jsonl(*(good(k) for k in range(1, 11)), name="a.jsonl")
    b = jsonl(*(good(k) for k in range(100, 150)), name="b.jsonl")
    config = build_config({"source": [str(a), str(b)], "workers": 1})
    prepare(config, tmp_path / "before", tokenizer_json=tokenizer)
    jsonl(*(good(k, **({"answer": "1"} if k < 102 else {})) for k in range(100, 120)), name="b.jsonl")
    jsonl(*(good(k) for k in range(1, 14)), name="a.jsonl")
    prepare(config, tmp_path / "now", tokenizer_json=tokenizer)
    return tmp_path / "before", tmp_path / "now"


def test_counts_lengths_and_verdicts_of_each_source_are_side_by_side(versions: tuple[Path, Path]) -> None:
    lines = {what: (before, now) for what, before, now in compare_folders(*versions).lines}
    assert lines["traces read"] == (60, 33) and lines["targets"] == (60, 31)
    assert lines["from b.jsonl"] == (50, 18) and lines["from a.jsonl"] == (10, 13)
    assert lines["source b: wrong"] == (0, 2) and lines["source b: kept"] == (50, 18)
    assert lines["target tokens, mean"][0] > 0 and lines["mean target tokens from a.jsonl"][0] > 0


def test_problems_that_came_and_went_are_listed_with_what_became_of_them(versions: tuple[Path, Path]) -> None:
    difference = compare_folders(*versions)
    assert [row.id for row in difference.came] == ["a.jsonl:10", "a.jsonl:11", "a.jsonl:12"]
    assert {row.elsewhere for row in difference.came} == {NOT_READ}
    assert len(difference.went) == EXAMPLES  # of 32
    assert (difference.went[0].id, difference.went[0].elsewhere) == ("b.jsonl:0", "wrong")
    assert difference.went[0].gold == "200" and "100 sheep" in difference.went[0].problem
    assert difference.went[-1].elsewhere == NOT_READ
    assert compare_folders(versions[0], versions[0]).went == []


def test_the_command_prints_both_versions(versions: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *map(str, versions)]) == 0
    text = capsys.readouterr().out
    assert "problems that went\n  b.jsonl:0  " in text and "in the other version wrong" in text


def test_a_folder_without_a_preparation_is_an_error(versions: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give the folder of a preparation"):
        compare_folders(versions[0], tmp_path / "gone")
