"""Verifiers by example (``tests/golden/verifiers.tsv``), places of answers, and what no answer of a model can be."""

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grading.answers.gold import suggest
from grading.verdict import Grade, Verdict
from grading.verifiers.exact import normalize_text
from grading.verifiers.spec import open_verifier, parse_spec

FILE = Path(__file__).parents[3] / "golden" / "verifiers.tsv"


def grade(spec: Any, response: str, gold: str, fields: Mapping[str, Any] | None = None, **options: Any) -> Grade:
    with open_verifier(parse_spec(spec, "test")) as verifier:
        return verifier.verify(response, gold, fields=fields, **{"thinking": False, **options})


def problem(spec: Any, gold: str, fields: Mapping[str, Any] | None = None) -> str | None:
    with open_verifier(parse_spec(spec, "test")) as verifier:
        return verifier.gold_problem(gold, fields)


def rows() -> Iterator[dict[str, Any]]:
    with FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            spec = json.loads(row["verifier"]) if row["verifier"].startswith("{") else row["verifier"]
            read = {name: json.loads(row[name] or "{}") for name in ("gold", "response", "fields")}
            yield {**row, **read, "verifier": spec}


def test_each_listed_response_has_its_verdict() -> None:
    others, opened = [], {}
    with ExitStack() as stack:
        for row in rows():
            spec = parse_spec(row["verifier"], "test")
            if spec not in opened:
                opened[spec] = stack.enter_context(open_verifier(spec, workers=1))
            one = opened[spec].verify(row["response"], row["gold"], fields=row["fields"], thinking=False)
            others += [(row, one)] if one.verdict != row["verdict"] else []
            if (problem := opened[spec].gold_problem(row["gold"], row["fields"])) and one.verdict is Verdict.CORRECT:
                others.append((row, problem))
    assert not others


@pytest.mark.parametrize(
    ("answer", "response", "extracted"),
    [
        ("boxed", "<think>\\boxed{a}</think> \\boxed{b}", "b"),
        ("after_thoughts", "<think>a</think>\n b c \n", "b c"),
        ("last_line", "<think>a</think>\nb\n  c\n\n", "c"),
        ("tag:answer", "<think><answer>a</answer></think><answer>b</answer> <answer> c </answer> d", "c"),
        ("tag:answer", "<think></think><answer>b</answer> <answer>c", "b"),
        ("code_block", "<think></think>```\na\n```\nor\n```python\nb\n```", "b\n"),
        ("boxed", "\\boxed{7} in \\fbox{} and \\boxed { }", "7"),
        ("code_block", "1. So:\n   ~~~py\n   if a:\n       b\n \n   ~~~~\n", "if a:\n    b\n\n"),
        ("code_block", "````\n```\na\n```\n````\n", "```\na\n```\n"),
        ("json", '<think></think> {"a": 1} or [2] {', "[2]"),
        ("json", '<think></think> {"a": [1, {"b": 2}]}', '{"a": [1, {"b": 2}]}'),
        ("json", "<think></think> 42 ", "42"),
        ("response", "<think>a</think>b", "<think>a</think>b"),
    ],
)
def test_an_answer_is_taken_from_its_place(answer: str, response: str, extracted: str) -> None:
    assert grade({"type": "exact", "answer": answer}, response, "x").extracted == extracted


@pytest.mark.parametrize(
    ("answer", "response", "reason"),
    [
        ("boxed", "\\boxed{7} or \\boxed{8", "nothing boxed"),
        ("after_thoughts", " \n ", "nothing after the thoughts"),
        ("last_line", "\n\n", "nothing after the thoughts"),
        ("tag:answer", "</answer><answer>", "no tag <answer> with its end"),
        ("tag:answer", "<answer> </answer>", "no tag <answer> with its end"),
        ("code_block", "~~~python\na\n```", "no code block with its end"),
        ("json", "{a: 1}", "no JSON value"),
        ("json", "[" * 20_000, "no JSON value"),
    ],
)
def test_a_response_without_an_answer_at_its_place(answer: str, response: str, reason: str) -> None:
    assert grade({"type": "exact", "answer": answer}, response, "x") == Grade(Verdict.NO_ANSWER, None, reason)


@pytest.mark.parametrize("spec", ["math", "math_whole_text", "choice", "exact", {"type": "exact", "answer": "json"}])
def test_every_type_treats_thoughts_and_cut_responses_alike(spec: Any) -> None:
    assert grade(spec, "\\boxed{A}", "A", thinking=True).verdict is Verdict.NO_THINK_END
    cut = grade(spec, "\\boxed{A}", "A", truncated=True)
    assert (str(cut.verdict), cut.score, cut.solved) == ("truncated", 0.0, False)


def test_options_with_the_same_text_are_one_answer() -> None:
    fields = {"options": ["3", "x + 1", "$x+1$", "4"]}
    for gold in ("B", "C", "x+1"):
        solved = [letter for letter in "ABCD" if grade("choice", f"\\boxed{{{letter}}}", gold, fields).solved]
        assert solved == ["B", "C"] and grade("choice", "\\boxed{x+1}", gold, fields).solved


def test_choice_has_as_many_options_as_the_spec_says() -> None:
    four = {"type": "choice", "options": 4}
    assert problem(four, "D") is None and problem("choice", "J") is None
    assert "beyond the last option: expected A to D" in str(problem(four, "E"))
    assert "no label of an option" in str(problem(four, "x^2"))
    assert "position of one option and the text of another" in str(problem(four, "2", {"options": ["2", "3"]}))


@given(st.text(), st.sets(st.sampled_from(["case", "space", "punctuation", "articles"])))
def test_a_normalised_text_stays_as_it_is(text: str, ignored: set[Any]) -> None:
    once = normalize_text(text, tuple(ignored))
    assert normalize_text(once, tuple(ignored)) == once


def test_math_at_another_place() -> None:
    spec = {"type": "math", "answer": "last_line"}
    assert grade(spec, "so\n\\frac{1}{2}", "0.5").solved and not grade(spec, "1/2\n3", "0.5").solved


@pytest.mark.parametrize(
    ("golds", "hint"),
    [
        (["A", "(B)", "C, D"] * 10 + ["7"], "the gold answers of 96% of the rows are letters: verifier: choice"),
        (["Paris", "the Nile", "Saint-Denis"], "the gold answers of 100% of the rows are words: verifier: exact"),
        (["5 kg", "12%", "3.2e4 m/s"], "numbers with a unit: verifier: number"),
        (['{"a": 1}'], "JSON: verifier: json"),
        (['{"inputs": ["1"], "outputs": ["2"]}', "assert f(1) == 2"], "tests: verifier: code"),
        (["A", "7"], None),
        (["x^2", "5", "[1, 2]"], None),
        ([], None),
    ],
)
def test_a_verifier_is_suggested_by_the_golds(golds: list[str], hint: str | None) -> None:
    said = suggest(golds)
    assert said is None if hint is None else hint in str(said)
