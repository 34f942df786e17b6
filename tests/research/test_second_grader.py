"""Where another grader judges otherwise is listed with both verdicts and why."""

import pyarrow as pa
import pytest

from core.errors import InputError
from core.schemas import BENCHMARK, SAMPLE
from grading.graded_table import Verifiers, grade_table
from research.second_grader import disagreements, disagreements_text

RESPONSES = {
    "agree right": "<think>\n2+2\n</think>\n\n\\boxed{4}",
    "agree wrong": "<think>\n2+2\n</think>\n\n\\boxed{5}",
    "never closed": "<think>\nso it is \\boxed{4}, but wait",  # the reference grades the whole text
    "never boxed": "<think>\n2+2\n</think>\n\nThe answer is $4$.",
    "closed twice": "<think>\na\n</think> \\boxed{4} </think>\n\nmore",  # the reference starts after the first
    "empty": "",
}


@pytest.fixture(scope="module")
def graded():
    rows = [
        {
            "benchmark": "b", "id": name, "sample": 0, "prompt": "2+2=?", "response": text, "tokens": len(text),
            "finish_reason": "stop", "seed": 1,
        }
        for name, text in RESPONSES.items()
    ]  # fmt: skip
    suite = [{"benchmark": "b", "id": name, "problem": "2+2=?", "gold": "4", "verifier": "math"} for name in RESPONSES]
    with Verifiers(workers=1, limit_s=20) as verifiers:
        return grade_table(
            pa.Table.from_pylist(rows, schema=SAMPLE), pa.Table.from_pylist(suite, schema=BENCHMARK), verifiers
        )


def test_whole_texts_find_answers_that_were_not_given(graded):
    found = disagreements({"b": graded}, "whole-text", limit_s=20)
    assert {row["id"]: (row["verdict"], row["second_verdict"]) for row in found.to_pylist()} == {
        "never closed": ("no_think_end", "correct"),
        "never boxed": ("no_answer", "correct"),
        "closed twice": ("no_answer", "correct"),
    }
    text = disagreements_text(found)
    assert text.startswith("3 of 6 verdicts differ from the grader whole-text (50.00%)")
    assert "no think end here, correct there" in text
    assert "b never closed/0: gold 4, answer nothing (no </think>" in text


def test_the_sympy_grader_is_verls(graded):
    with pytest.raises(InputError, match="comes with verl: run this in the training interpreter"):
        disagreements({"b": graded}, "prime")
