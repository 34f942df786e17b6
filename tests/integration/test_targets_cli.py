"""``python -m targets`` on the embedded source, and its one-line errors."""

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from targets.__main__ import main


def test_it_prepares_splits_and_checks(tmp_path: Path, tokenizer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    settings = [
        "--set",
        "targets.embedded_rows=100",
        "--benchmarks",
        "embedded",
        "--set",
        "split.heldout_share=0.1",
        "--check",
    ]
    assert main(["--out", str(out), "--tokenizer", str(tokenizer), *settings]) == 0
    files = {path.name for path in out.iterdir()}
    names = ("prepared", "profile", "rejected", "train", "heldout", "left_out")
    assert files == {".decisions", ".preparing.lock", *(f"{name}.parquet" for name in names)}
    rows = {path.stem: pq.read_metadata(path).num_rows for path in out.glob("*.parquet")}
    assert rows["prepared"] == rows["profile"] == rows["train"] + rows["heldout"] == 100 - rows["rejected"]
    shown = capsys.readouterr().out
    assert (
        re.search(r"^(\d+) of \1 checks passed$", shown, re.MULTILINE) and "have nothing to compare with yet" in shown
    )


def test_a_second_run_does_nothing(tmp_path: Path, tokenizer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    arguments = ["--out", str(out), "--tokenizer", str(tokenizer), "--set", "targets.embedded_rows=50"]
    assert main(arguments) == 0
    stamps = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main([*arguments, "--previous", str(out), "--set", "targets.workers=1"]) == 0
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()} == stamps
    shown = capsys.readouterr().out
    assert "nothing was done" in shown and "targets that the other version does not have" in shown


def test_a_check_that_blocks_gives_status_1(
    tmp_path: Path, tokenizer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["--set", "targets.embedded_rows=20", "--set", "targets.min_rows=21", "--check"]
    assert main(["--out", str(tmp_path / "out"), "--tokenizer", str(tokenizer), *settings]) == 1
    printed = capsys.readouterr().out
    assert "FAILED  enough_rows" in printed
    assert "expected: There are at least min_rows targets (min_value " in printed


def test_the_columns_that_auto_chose_are_said(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    source = {"question": "What is two and two?", "answer": "It is four.\n#### 4", "teacher": good(2)["response"]}
    settings = ["--tokenizer", str(tokenizer), "--source", str(jsonl(source))]
    assert main(["--out", str(tmp_path / "out"), *settings]) == 0  # none of the known columns is the teacher's
    said = "source traces: reads problem from question, answer from answer, response from answer\n"
    assert said in capsys.readouterr().out
    chosen = "targets.mapping={problem: question, answer: answer, response: teacher, answer_form: gsm8k}"
    assert main(["--out", str(tmp_path / "own"), *settings, "--set", chosen]) == 0
    assert "reads" not in capsys.readouterr().out
