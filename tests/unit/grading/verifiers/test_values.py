"""Verifiers that read a value: any text is read in linear time or refused, and options that cannot work are named."""

import json
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grading.verdict import Grade
from grading.verifiers.json import read_strictly, same_value
from grading.verifiers.number import read_quantity
from grading.verifiers.spec import open_verifier, parse_spec


def grade(spec: Any, answer: str, gold: str) -> Grade:
    with open_verifier(parse_spec(spec, "test")) as verifier:
        return verifier.verify(answer, gold, thinking=False)


def problem(spec: Any, gold: str) -> str | None:
    with open_verifier(parse_spec(spec, "test")) as verifier:
        return verifier.gold_problem(gold)


def test_a_gold_that_does_not_fit_is_a_problem() -> None:
    units = {"type": "number", "units": {"km": 1000, "m": 1}}
    assert problem(units, "5 km") is None and "units has km, m" in str(problem(units, "5 miles"))
    assert "is no number" in str(problem({"type": "all_of", "verifiers": ["exact", "number"]}, "x+1"))
    assert problem("regex", "a+") is None and problem({"type": "regex", "pattern": "a"}, "(") is None
    assert "is not read" in str(problem("regex", "(?=a)")) and "is empty" in str(problem("regex", ""))
    assert "leads to itself" in grade({"type": "json", "json_schema": {"$ref": "#"}}, "[1]", "").reason


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_every_finite_number_is_read_as_python_writes_it(value: float) -> None:
    quantity = read_quantity(repr(value))
    assert quantity is not None and math.isclose(float(quantity.value), value, rel_tol=1e-12, abs_tol=0)


@given(st.text(max_size=60))
def test_any_text_is_a_number_or_none(text: str) -> None:
    read_quantity(text)


def test_what_hangs_elsewhere_takes_linear_time() -> None:
    began = time.monotonic()
    assert not grade({"type": "regex", "answer": "response", "pattern": "(a+)+b"}, "a" * 100_000, "").solved
    spec: dict[str, Any] = {"type": "json", "json_schema": {"items": {"pattern": "^(a+)+$"}, "uniqueItems": True}}
    assert not grade(spec, json.dumps(["a" * 50_000 + "b"]), "").solved
    many = json.dumps([{"a": number} for number in range(6_000)])
    assert grade(spec | {"json_schema": {"uniqueItems": True}}, many, "").solved
    for text in ("[" + "9" * 5000 + "]", "[" * 3000 + "]" * 3000, "x_{1}" * 200 + " {}"):
        assert not grade("json", text, "[9]").solved
    assert not grade({"type": "number", "answer": "response"}, "9" * 100_000, "5").solved
    assert time.monotonic() - began < 10


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, JSON)
def test_a_value_is_itself_and_no_other(first: Any, second: Any) -> None:
    assert same_value(first, read_strictly(json.dumps(first)))
    assert same_value(first, second) == same_value(second, first)
    if json.dumps(first) == json.dumps(second):
        assert same_value(first, second)


@pytest.mark.parametrize(
    ("weight", "threshold", "verdict"), [(1, 1.0, "partial"), (1, 0.5, "correct"), (3, 0.5, "partial")]
)
def test_a_weighted_mean_reaches_its_threshold_or_not(weight: int, threshold: float, verdict: str) -> None:
    shares = [{"verifier": {"type": "regex", "pattern": "b"}, "weight": weight}, {"verifier": "exact", "weight": 1}]
    one = grade({"type": "weighted", "verifiers": shares, "threshold": threshold}, "\\boxed{a}", "a")
    assert (str(one.verdict), one.score) == (verdict, 1 / (1 + weight))
