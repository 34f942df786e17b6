"""A verifier is tried on a file of responses: counts, examples, and the rows that are not responses."""

import json
from pathlib import Path

import pytest

from core.errors import InputError
from grading.verdict import Verdict
from grading.verifier_trial import (
    SHOWN,
    check_fields,
    describe,
    only_errors,
    read_columns,
    read_responses,
    try_verifier,
)
from grading.verifiers.spec import parse_spec
from targets.read.sources import find_shards
from targets.settings import build_config


def written(folder: Path, rows: list[object]) -> Path:
    file = folder / "responses.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def test_each_row_gets_a_verdict_and_each_verdict_has_examples(tmp_path: Path) -> None:
    rows = [{"response": f"\\boxed{{{letter}}}", "gold": "B"} for letter in ("B", *"A" * 12)]
    rows += [{"response": "no box", "answer": "C"}, {"response": "\\boxed{A}", "gold": "maybe"}]
    tried = try_verifier(parse_spec("choice", "test"), read_responses(written(tmp_path, rows)), thinking=False)
    verdicts = [one.grade.verdict for one in tried]
    assert verdicts == [Verdict.CORRECT, *[Verdict.WRONG] * 12, Verdict.NO_ANSWER, Verdict.GOLD_UNPARSED]
    lines = list(describe(tried))
    assert lines[0].startswith("15 responses, mean score 0.067: 12 wrong, 1 correct, 1 no_answer, 1 gold_unparsed")
    assert f"\nwrong, the first {SHOWN} of 12" in lines
    assert sum("answer 'A', gold 'B'" in line for line in lines) == SHOWN


def test_an_example_says_what_the_verifier_knows(tmp_path: Path) -> None:
    (tmp_path / "near.py").write_text(
        "def score(data_source, solution_str, ground_truth, extra_info=None): return 0.25"
    )
    spec = parse_spec({"type": "python", "path": "near.py:score"}, "test", folder=tmp_path)
    tried = try_verifier(spec, read_responses(written(tmp_path, [{"response": "6", "gold": 7.0}])), thinking=False)
    assert list(describe(tried))[-1] == "  row 1: gold '7', score 0.250"


def test_fields_reach_the_verifier_and_thoughts_are_asked_for(tmp_path: Path) -> None:
    row = {"response": "the cat", "gold": "2", "options": ["the dog", "the cat"]}
    items = read_responses(written(tmp_path, [row]))
    spec = parse_spec({"type": "choice", "answer": "after_thoughts"}, "test")
    assert try_verifier(spec, items, thinking=False)[0].grade.solved
    assert try_verifier(spec, items, thinking=True)[0].grade.verdict is Verdict.NO_THINK_END


@pytest.mark.parametrize("fields", [[], {"unit": "unit.name", "gone": "unit.gone"}])
def test_a_function_gets_the_fields_that_the_preparation_gives_it(fields: object, tmp_path: Path) -> None:
    row = {"question": "Who?", "response": "B", "answer": "B", "unit": {"name": "g"}, "more": 7}
    file = written(tmp_path, [row])
    config = build_config({"source": [{"path": str(file), "fields": fields, "verifier": "exact"}]})
    (trace,) = find_shards(config)[0].traces()
    (item,) = read_responses(file, read_columns(json.dumps(fields)))
    assert item.fields == trace.verifier_fields


def test_fields_that_are_missing_and_a_verifier_that_only_fails_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--fields: the verifier gym reads the field 'entry'"):
        check_fields(parse_spec("gym", "test"), {}, Path("r.jsonl"))
    with pytest.raises(InputError, match=r"--fields: got '7', expected a list of columns"):
        read_columns("7")
    (tmp_path / "raises.py").write_text(
        "def score(data_source, solution_str, ground_truth, extra_info=None): return float(extra_info['unit'])"
    )
    spec = parse_spec({"type": "python", "path": "raises.py:score"}, "test", folder=tmp_path)
    file = written(tmp_path, [{"response": "6", "gold": 7}, {"response": "6", "gold": 7, "unit": 1}])
    assert only_errors(try_verifier(spec, read_responses(file, {}), thinking=False))
    for columns in ({"unit": "unit"}, None):
        assert not only_errors(try_verifier(spec, read_responses(file, columns), thinking=False))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no rows; expected one JSON object with response and gold per line"),
        ([{"response": "a", "gold": "A"}, ["a"]], "row 2: expected a JSON object, found list"),
        ([{"response": "a"}], "row 1: gold: expected a text or a number, found NoneType"),
        ([{"response": 7, "gold": "A"}], "row 1: response: expected a text, found int"),
        ([{"response": "a", "answer": True}], "row 1: answer: expected a text or a number, found bool"),
    ],
)
def test_what_is_no_response_is_named(tmp_path: Path, rows: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_responses(written(tmp_path, rows))
