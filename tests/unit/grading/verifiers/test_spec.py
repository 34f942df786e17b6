"""What a user may write as a verifier, and what is said of anything else."""

import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from grading.verifiers.spec import TYPES, parse_spec

SPECS: list[Any] = [
    "math",
    "math_whole_text",
    {"type": "choice", "options": 4},
    {"type": "choice", "answer": "tag:answer"},
    {"type": "exact", "ignore": ["case", "punctuation"], "answer": "last_line"},
]


@pytest.mark.parametrize("value", SPECS, ids=str)
def test_a_spec_is_read_again_from_its_json(value: Any) -> None:
    spec = parse_spec(value, "sources.law.verifier")
    again = parse_spec(json.loads(json.dumps(spec.to_json())), "metadata")
    assert again == spec and hash(again) == hash(spec) and again.digest == spec.digest
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_only_what_decides_a_verdict_is_part_of_the_digest() -> None:
    plain = parse_spec("choice", "x")
    assert parse_spec({"type": "choice", "options": 10, "answer": "boxed"}, "y") == plain
    others = [parse_spec(value, "x").digest for value in SPECS]
    assert len({plain.digest, *others}) == len(others) + 1


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("mth", ["no verifier 'mth'", "did you mean math?", *TYPES]),
        ("", ["no verifier ''", "expected one of math"]),
        (7, ["got 7", "the name of a verifier"]),
        (None, ["got None"]),
        ({"options": 4}, ["a mapping with its type"]),
        ({"type": ["math"]}, ["a mapping with its type"]),
        ({"type": "choice", "option": 4}, ["option is not a setting; did you mean options?", "answer, options"]),
        ({"type": "choice", "options": 1}, ["options: Input should be greater than or equal to 2 (got 1)"]),
        ({"type": "choice", "options": "many"}, ["options: Input should be a valid integer"]),
        ({"type": "exact", "ignore": ["accents"]}, ["'case', 'space', 'punctuation' or 'articles'", "'accents'"]),
        ({"type": "exact", "answer": "first_line"}, ["answer: expected one of boxed, after_thoughts, last_line"]),
        ({"type": "exact", "answer": "tag:"}, ["answer: expected one of", "tag:NAME"]),
        ({"type": "exact", "answer": "tag:a b"}, ["answer: expected one of"]),
        ({"type": "math_whole_text", "answer": "boxed"}, ["answer: math_whole_text takes any answer"]),
        ({"type": "json", "json_schema": {"type": "number of things"}}, ["not a JSON Schema"]),
        ({"type": "json", "json_schema": {"$ref": "http://localhost/x"}}, ["is outside the schema"]),
        ({"type": "json", "json_schema": {"items": {"$ref": "#/$defs/none"}}}, ["no schema at '#/$defs/none'"]),
        ({"type": "json", "json_schema": {"$ref": "#/required", "required": ["a"]}}, ["no schema at '#/required'"]),
        ({"type": "json", "json_schema": {"patternProperties": {"(a+)+": {}}}}, ["use propertyNames"]),
        ({"type": "json", "json_schema": {"items": {"pattern": "(?=a)"}}}, ["is not read"]),
        ({"type": "number", "units": {"km": 1000, "m": 0}}, ["units.m: Input should be greater than 0"]),
        ({"type": "regex", "pattern": "("}, ["is not read"]),
        ({"type": "number", "rel_tol": math.nan}, ["finite number"]),
        ({"type": "all_of", "verifiers": []}, ["at least 1 item"]),
        ({"type": "all_of", "verifiers": ["math", "mth"]}, ["no verifier 'mth'; did you mean math?"]),
        ({"type": "all_of", "verifiers": ["math"], "answer": "json"}, ["answer: give it to each"]),
        ({"type": "weighted", "verifiers": ["math"]}, ["verifiers"]),
        ({"type": "weighted", "verifiers": [{"verifier": "math", "weight": 0}]}, ["greater than 0"]),
        ({"type": "weighted", "verifiers": [{"verifier": "math"}], "threshold": 2}, ["less than or equal to 1"]),
    ],
    ids=str,
)
def test_a_spec_that_does_not_fit_is_refused_in_one_message(value: Any, parts: list[str]) -> None:
    with pytest.raises(InputError) as refused:
        parse_spec(value, "sources.law.verifier")
    message = str(refused.value)
    assert message.startswith("sources.law.verifier: ") and "\n" not in message
    assert [part for part in parts if part not in message] == []


def test_a_spec_is_a_spec(tmp_path: Path) -> None:
    spec = parse_spec("choice", "x")
    assert parse_spec(spec, "y", folder=tmp_path) is spec
