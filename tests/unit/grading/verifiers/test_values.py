"""Verifiers that read a value: numbers with units, patterns, JSON; and several verifiers at once."""

import json
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from grading.verdict import Grade
from grading.verifiers.json import read_strictly, same_value
from grading.verifiers.number import read_quantity
from grading.verifiers.spec import open_verifier, parse_spec

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}

TREE = {
    "$id": "urn:tree",
    "$ref": "#node",
    "$defs": {"node": {"$anchor": "node", "items": {"$ref": "#"}, "type": "array"}},
}


def grade(spec: Any, response: str, gold: str, **options: Any) -> Grade:
    with open_verifier(parse_spec(spec, "test")) as verifier:
        return verifier.verify(response, gold, **{"thinking": False, **options})


def verdict(spec: Any, answer: str, gold: str) -> str:
    return str(grade({"answer": "after_thoughts", **spec}, answer, gold).verdict)


def problem(spec: Any, gold: str) -> str | None:
    with open_verifier(parse_spec(spec, "test")) as verifier:
        return verifier.gold_problem(gold)


@pytest.mark.parametrize(
    ("options", "answer", "gold", "expected"),
    [
        ({}, "1,500", "1500", "correct"),
        ({}, "1.5e3", "1500", "correct"),
        ({}, "1.5 \\times 10^{3}", "1500", "correct"),
        ({}, "$1{,}500$", "1500.0", "correct"),
        ({}, "\\frac{3}{2}", "1.5", "correct"),
        ({}, "−3", "-3", "correct"),
        ({}, "10^{-4}", "0.0001", "correct"),
        ({}, "-10^2 m", "-100 m", "correct"),
        ({}, "10^{2},10^{3}", "1", "wrong"),
        ({"unit": "ignored"}, "10^{2}, x", "1", "wrong"),
        ({}, "\\frac34", "0.75", "correct"),
        ({}, "\\frac345", "0.75", "wrong"),
        ({}, "2\\tfrac{1}{4}", "2.25", "correct"),
        ({}, "-2 1/4", "-2.25", "correct"),
        ({}, "2 1/0", "2", "wrong"),
        ({}, "2 3", "23", "wrong"),
        ({}, "30^\\circ", "30°", "correct"),
        ({}, "30^{\\circ} C", "30 °C", "correct"),
        ({}, "30 degrees Celsius", "30 °C", "correct"),
        ({}, "30 degrees Fahrenheit", "30 °C", "wrong"),
        ({}, "v_0 = 7", "7", "correct"),
        ({}, "\\approx 7", "7", "correct"),
        ({}, "x = 7 or 8", "7", "wrong"),
        ({}, "12 500.5", "12500.5", "correct"),
        ({}, "12\\,500", "12500", "correct"),
        ({}, "12\u202f500", "12500", "correct"),
        ({}, "12'500", "12500", "correct"),
        ({}, "1,00,000", "100000", "correct"),
        ({}, "1,000 000", "1000000", "wrong"),
        ({}, "12 5000", "125000", "wrong"),
        ({}, "1501", "1500", "wrong"),
        ({"rel_tol": 0.001}, "1501", "1500", "correct"),
        ({"rel_tol": 0.001}, "1502", "1500", "wrong"),
        ({"abs_tol": 0.5}, "0.5", "0", "correct"),
        ({"rel_tol": 0.0}, "0.1", "1/10", "correct"),
        ({}, "5 km", "5 km", "correct"),
        ({}, "5\\text{ km}", "5km", "correct"),
        ({}, "5", "5 km", "correct"),
        ({"unit": "required"}, "5", "5 km", "wrong"),
        ({}, "5 m", "5 km", "wrong"),
        ({}, "5 million", "5", "wrong"),
        ({}, "7", "7 million", "wrong"),
        ({"unit": "ignored"}, "7", "7 million", "wrong"),
        ({}, "7,000,000", "7 million", "correct"),
        ({}, "7 million", "7 thousand", "wrong"),
        ({}, "0.7 billion km", "700 million km", "correct"),
        ({}, "7", "7 dozen", "gold_unparsed"),
        ({}, "7", "7 or 8", "gold_unparsed"),
        ({"units": {"dozen": 12, "": 1}}, "84", "7 dozen", "wrong"),
        ({"units": {"dozen": 12, "": 1}}, "7 dozen", "84", "correct"),
        ({"unit": "ignored"}, "5 apples", "5", "correct"),
        ({"unit": "ignored"}, "5 °C", "5", "correct"),
        ({"unit": "ignored"}, "5 kg·m/s", "5", "correct"),
        ({"unit": "ignored"}, "5 J/(kg·K)", "5", "correct"),
        ({"unit": "ignored"}, "5 million", "5", "wrong"),
        ({"unit": "ignored"}, "5 or 7", "5", "wrong"),
        ({"unit": "ignored"}, "5z", "5", "wrong"),
        ({}, "5 m²", "5 m^2", "correct"),
        ({"units": {"m²": 1, "cm^{2}": 0.0001}}, "50000 cm²", "5 m^2", "correct"),
        ({}, "5 \u03bcm", "5 µm", "correct"),
        ({"units": {"km": 1000, "m": 1}}, "5000 m", "5 km", "correct"),
        ({"units": {"km": 1000, "m": 1}}, "5 m", "5 km", "wrong"),
        ({"units": {"km": 1000, "m": 1}}, "5 mm", "5 km", "wrong"),
        ({"units": {"": 1, "%": 0.01}}, "0.05", "5 %", "wrong"),
        ({"units": {"": 1, "%": 0.01}, "unit": "required"}, "0.05", "5 %", "correct"),
        ({}, "5 MW", "5 mW", "wrong"),
        ({}, "7 pounds", "7 lb", "wrong"),
        ({}, "7 grams", "7 g", "correct"),
        ({}, "7 km/h", "7 kilometers per hour", "correct"),
        ({"unit": "required"}, "7\\ \\mathrm{kg\\,m^{-3}}", "7 kg/m^3", "correct"),
        ({}, "7 metres per second squared", "7 m/s^2", "correct"),
        ({"unit": "required"}, "7\\,\\mu\\mathrm{s}", "7 microseconds", "correct"),
        ({"units": {"h": 3600, "s": 1}}, "2 hours", "7200 seconds", "correct"),
        ({}, "$5", "$5.00", "correct"),
        ({}, "about 5", "5", "wrong"),
        ({}, "1/0", "5", "wrong"),
        ({}, "nan", "5", "wrong"),
        ({}, "1e999", "5", "wrong"),
        ({}, "1e99999", "5", "wrong"),
        ({}, "9" * 100_000, "5", "wrong"),
        ({}, "5", "five", "gold_unparsed"),
    ],
    ids=str,
)
def test_number(options: dict[str, Any], answer: str, gold: str, expected: str) -> None:
    assert verdict({"type": "number", **options}, answer, gold) == expected


def test_a_gold_whose_unit_has_no_factor_is_a_problem() -> None:
    spec = {"type": "number", "units": {"km": 1000, "m": 1}}
    assert problem(spec, "5 km") is None and "units has km, m" in str(problem(spec, "5 miles"))
    assert "is no number" in str(problem("number", "x+1"))


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_every_finite_number_is_read_as_python_writes_it(value: float) -> None:
    quantity = read_quantity(repr(value))
    assert quantity is not None and math.isclose(float(quantity.value), value, rel_tol=1e-12, abs_tol=0)


@given(st.text(max_size=60))
def test_any_text_is_a_number_or_none(text: str) -> None:
    read_quantity(text)


@pytest.mark.parametrize(
    ("options", "answer", "gold", "expected"),
    [
        ({}, "abc", "a.c", "correct"),
        ({}, "abcd", "a.c", "wrong"),
        ({"match": "partial"}, "xabcd", "a.c", "correct"),
        ({"pattern": "(?i)yes"}, "YES", "", "correct"),
        ({"pattern": "a"}, "\ud800", "", "wrong"),
        ({}, "a", "(", "gold_unparsed"),
        ({}, "aa", "(a)\\1", "gold_unparsed"),
    ],
    ids=str,
)
def test_regex(options: dict[str, Any], answer: str, gold: str, expected: str) -> None:
    assert verdict({"type": "regex", **options}, answer, gold) == expected


def test_a_pattern_that_hangs_elsewhere_takes_linear_time() -> None:
    began = time.monotonic()
    assert verdict({"type": "regex", "pattern": "(a+)+b"}, "a" * 100_000, "") == "wrong"
    spec = {"type": "json", "json_schema": {"items": {"pattern": "^(a+)+$"}, "uniqueItems": True}}
    assert verdict(spec, json.dumps(["a" * 50_000 + "b"]), "") == "wrong"
    many = json.dumps([{"a": number} for number in range(6_000)])
    assert verdict(spec | {"json_schema": {"uniqueItems": True}}, many, "") == "correct"
    assert time.monotonic() - began < 10


def test_gold_patterns_are_checked() -> None:
    assert problem("regex", "a+") is None and problem({"type": "regex", "pattern": "a"}, "(") is None
    assert "is not read" in str(problem("regex", "(?=a)")) and "is empty" in str(problem("regex", ""))


@pytest.mark.parametrize(
    ("options", "answer", "gold", "expected"),
    [
        ({}, '{"a": 1, "b": [2]}', '{"b": [2.0], "a": 1.0}', "correct"),
        ({}, "[1, 2]", "[2, 1]", "wrong"),
        ({}, "[true]", "[1]", "wrong"),
        ({}, "[null]", "[false]", "wrong"),
        ({}, '{"a": 1, "a": 1}', '{"a": 1}', "wrong"),
        ({}, '{"a": 1, "a": 2}', '{"a": 2}', "wrong"),
        ({}, "[NaN]", "[1]", "wrong"),
        ({}, "[Infinity]", "[1]", "wrong"),
        ({}, "{'a': 1}", '{"a": 1}', "wrong"),
        ({}, "[" + "9" * 5000 + "]", "[9]", "wrong"),
        ({}, "[" * 3000 + "]" * 3000, "[]", "wrong"),
        ({}, "[1]", "[1", "gold_unparsed"),
        ({"json_schema": POINT}, '{"x": 1}', "", "correct"),
        ({"json_schema": POINT}, '{"x": "1"}', "", "wrong"),
        ({"json_schema": POINT}, '{"x": 1, "y": 2}', "", "wrong"),
        ({"json_schema": POINT, "equals_gold": True}, '{"x": 1}', '{"x": 2}', "wrong"),
        ({"json_schema": POINT, "equals_gold": True}, '{"x": 2}', '{"x": 2}', "correct"),
        ({"json_schema": POINT, "equals_gold": True}, '{"x": 2}', '{"y": 2}', "gold_unparsed"),
        ({"json_schema": {"$ref": "#"}}, '{"x": 2}', "", "wrong"),
        ({"json_schema": {"items": {"multipleOf": 0.01}}}, "[0.07, 1, 1.1]", "", "correct"),
        ({"json_schema": {"items": {"multipleOf": 0.01}}}, "[0.075]", "", "wrong"),
        ({"json_schema": TREE}, '[[], ["a"]]', "", "wrong"),
        ({"json_schema": TREE}, "[[], [[]]]", "", "correct"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_json(options: dict[str, Any], answer: str, gold: str, expected: str) -> None:
    assert verdict({"type": "json", **options}, answer, gold) == expected


def test_json_is_found_in_a_response_by_default() -> None:
    assert grade("json", 'The answer is:\n```json\n{"a": [1]}\n```', '{"a": [1]}').solved
    assert str(grade("json", "none", "[]").verdict) == "no_answer"
    assert grade("json", '{"a": [1]} (see [4, 5])', '{"a": [1]}').solved
    assert grade({"type": "json", "json_schema": POINT}, '{"x": 1} [2]', "").solved
    assert grade("json", '{"a": [1]} is not [4, 5]', "[4, 5]").solved
    assert not grade("json", '{"a": [1]}, or [{"b": 2}]', '{"a": [1]}').solved
    assert "leads to itself" in grade({"type": "json", "json_schema": {"$ref": "#"}}, "[1]", "").reason
    assert grade("json", "x_{1}" * 200 + ' {"a": [1]}', '{"a": [1]}').solved
    assert grade("json", 'First {"a": oops. Answer: {"a": [1]}', '{"a": [1]}').solved
    assert grade("json", 'On [0, 1), for all, {"a": [1]}', '{"a": [1]}').solved
    for broken in (
        '{b: {"a": [1]}}',
        '{{"a": [1]}}',
        '{"b":\n\n    {"a": [1]}',
        '{"b": {"a": [1]}',
        '[{"a": [1]}, ',
        '{"b": bad, "c": {"a": [1]}}',
        '{\n  "b": "x. y",\n  c: {"a": [1]}\n}',
        '{"b" {"a": [1]}}',
        '{"b": "open {"a": [1]}',
        '{"b": {"c": 2} then {"a": [1]}',
    ):
        assert str(grade("json", broken, '{"a": [1]}').verdict) == "no_answer"
    assert "beyond what a number can hold" in grade("json", '{"a": 1e999}', '{"a": 5}').reason


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
    ("spec", "said"),
    [
        ({"type": "json", "json_schema": {"type": "number of things"}}, "not a JSON Schema"),
        ({"type": "json", "json_schema": {"$ref": "http://localhost/x"}}, "is outside the schema"),
        ({"type": "json", "json_schema": {"items": {"$ref": "#/$defs/none"}}}, "no schema at '#/$defs/none'"),
        ({"type": "json", "json_schema": {"$dynamicRef": "#none"}}, "no schema at '#none'"),
        ({"type": "json", "json_schema": {"$ref": "#/required", "required": ["a"]}}, "no schema at '#/required'"),
        ({"type": "number", "units": {"km": 1000, "m": 0}}, "units.m: Input should be greater than 0"),
        ({"type": "number", "units": {"km": -1, "m": 1}}, "units.km: Input should be greater than 0"),
        ({"type": "json", "json_schema": {"patternProperties": {"(a+)+": {}}}}, "use propertyNames"),
        ({"type": "json", "json_schema": {"items": {"pattern": "(?=a)"}}}, "is not read"),
        ({"type": "json", "json_schema": "point.json"}, "Input should be a mapping of keys to values"),
        ({"type": "regex", "pattern": "("}, "is not read"),
        ({"type": "number", "rel_tol": -1}, "greater than or equal to 0"),
        ({"type": "number", "rel_tol": math.nan}, "finite number"),
        ({"type": "all_of", "verifiers": []}, "at least 1 item"),
        ({"type": "all_of", "verifiers": ["math", "mth"]}, "no verifier 'mth'; did you mean math?"),
        ({"type": "all_of", "verifiers": ["math"], "answer": "json"}, "answer: give it to each"),
        ({"type": "weighted", "verifiers": ["math"]}, "verifiers"),
        ({"type": "weighted", "verifiers": [{"verifier": "math", "weight": 0}]}, "greater than 0"),
        ({"type": "weighted", "verifiers": [{"verifier": "math"}], "threshold": 2}, "less than or equal to 1"),
    ],
    ids=str,
)
def test_options_that_cannot_work_are_refused(spec: Any, said: str) -> None:
    with pytest.raises(InputError, match=f"^sources.x: verifier {spec['type']}: ") as refused:
        parse_spec(spec, "sources.x")
    assert said in str(refused.value) and "\n" not in str(refused.value)


FORMAT = {"type": "regex", "answer": "response", "pattern": "(?s)<think>.*</think>.*"}
BOTH = {"type": "all_of", "verifiers": [FORMAT, {"type": "exact"}]}
SHARES = {"type": "weighted", "verifiers": [{"verifier": FORMAT, "weight": 1}, {"verifier": "exact", "weight": 3}]}


@pytest.mark.parametrize(
    ("response", "both", "shares"),
    [
        ("<think></think>\\boxed{a}", ("correct", 1.0), ("correct", 1.0)),
        ("\\boxed{a}", ("wrong", 0.0), ("partial", 0.75)),
        ("<think></think>\\boxed{b}", ("wrong", 0.0), ("partial", 0.25)),
        ("<think></think>", ("no_answer", 0.0), ("partial", 0.25)),
        ("\\boxed{b}", ("wrong", 0.0), ("wrong", 0.0)),
    ],
)
def test_several_verifiers(response: str, both: tuple[str, float], shares: tuple[str, float]) -> None:
    for spec, expected in ((BOTH, both), (SHARES, shares)):
        one = grade(spec, response, "a")
        assert (str(one.verdict), one.score) == expected
    assert grade({**SHARES, "threshold": 0.75}, response, "a").solved == (shares[1] >= 0.75)


def test_decimal_weights_add_up_to_their_decimal_sum() -> None:
    parts = [("yes|maybe", 0.7), ("yes", 0.1), ("never", 0.2)]
    verifiers = [{"verifier": {"type": "regex", "pattern": pattern}, "weight": weight} for pattern, weight in parts]
    one = grade({"type": "weighted", "verifiers": verifiers, "threshold": 0.8}, "\\boxed{yes}", "")
    assert one.solved and one.score == 0.8
    assert grade({"type": "weighted", "verifiers": verifiers, "threshold": 0.8}, "\\boxed{maybe}", "").score == 0.7


def test_a_gold_that_one_of_several_cannot_use_is_a_problem_of_all() -> None:
    spec = {"type": "all_of", "verifiers": [FORMAT, "number"]}
    assert "is no number" in str(problem(spec, "x")) and problem(spec, "5") is None
    assert str(grade(spec, "\\boxed{5}", "x").verdict) == "gold_unparsed"
