"""A filter of the user's: a function that says what is wrong with a trace."""

from pathlib import Path
from typing import Any

import pytest
from preparing import rows, run

from core.errors import InputError
from targets.settings import build_config


def test_a_filter_of_the_users_is_a_function(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    """The rejected rows and the counts follow, and what the function imports is part of the identity."""
    (tmp_path / "limits.py").write_text("MOST = 3\n")
    (tmp_path / "own.py").write_text(
        'from limits import MOST\n\n\ndef exclaims(trace):\n    """The text exclaims too often."""\n'
        "    count = trace.target.count('!')\n"
        "    return f'{count} exclamation marks' if count > MOST else None\n"
    )
    own = f"{tmp_path}/own.py:exclaims"
    source = jsonl(good(1), good(2, response="<think>\nOh!!!!\n</think>\n\n\\boxed{4}"), good(3, answer="7"))
    prepared = run(source, tmp_path / "out", tokenizer, filters=[own])
    assert prepared.counts == {"read": 3, "kept": 1, "exclaims": 1, "wrong": 1}
    first, second = prepared.filter_counts
    assert (first["filter"], first["title"], first["left"]) == ("exclaims", "The text exclaims too often", 2)
    assert second["filter"] == "wrong"
    assert {row["reason"]: row["detail"] for row in rows(prepared.rejected)}["exclaims"] == "4 exclamation marks"
    before = prepared.config.digest()
    (tmp_path / "limits.py").write_text("MOST = 4\n")
    assert build_config({"filters": [own]}).digest() != build_config({}).digest()
    assert prepared.config.digest() != before


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return trace.question", r"'question', for trace .*; a trace has problem, gold, target, conclusion, metadata"),
        ("return 1 / 0", r"own\.py:f raised ZeroDivisionError: division by zero, for trace "),
        ("return True", r"own\.py:f returned True for trace .*; expected a text that says what is wrong, or None"),
        ("return ' '", r"own\.py:f returned ' ' for trace .*; expected a text that says what is wrong, or None"),
    ],
)
def test_a_filter_that_fails_ends_the_preparation(
    tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any, body: str, message: str
) -> None:
    (tmp_path / "own.py").write_text(f"def f(trace):\n    {body}\n")
    with pytest.raises(InputError, match=message):
        run(jsonl(good(1)), tmp_path / "out", tokenizer, filters=[f"{tmp_path}/own.py:f"])
    assert not list((tmp_path / "out").glob("*.parquet"))


def test_a_filter_that_does_not_exist_is_refused(tmp_path: Path, tokenizer: Path, jsonl: Any, good: Any) -> None:
    (tmp_path / "own.py").write_text("def wrong(trace): ...\ndef two(trace, more): ...\n")
    for name, message in (
        ("wrong", "wrong is the name of a filter of the project; rename the function"),
        ("two", r"expected a function of \(trace\); missing a required argument: 'more'"),
        ("none", "there is no such function in it"),
    ):
        with pytest.raises(InputError, match=message):
            run(jsonl(good(1)), tmp_path / "out", tokenizer, filters=[f"{tmp_path}/own.py:{name}"])
    with pytest.raises(InputError, match=r"there is no filter 'mine'; expected FILE\.py:FUNCTION"):
        build_config({"filters": ["mine"]})
