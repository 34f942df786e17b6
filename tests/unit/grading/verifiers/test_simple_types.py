"""Verifiers that compare texts: right, wrong, at the edge, and what no answer of a model can be."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grading.answers.gold import suggest
from grading.verdict import Grade, Verdict
from grading.verifiers.exact import normalize_text
from grading.verifiers.spec import open_verifier, parse_spec
from grading.verifiers.verifier import Item, Verifier

COLOURS = {"options": ["red", "blue", "green", "I do not know"]}
VITAMINS = {"options": ["D", "E", "K", "A"]}
LINES = {"problem": "Which one?\n(A) red\n(B) blue\n(C) green"}


def verdict(spec: Any, response: str, gold: str, fields: Mapping[str, Any] | None = None, **options: Any) -> str:
    return str(grade(spec, response, gold, fields, **options).verdict)


def grade(spec: Any, response: str, gold: str, fields: Mapping[str, Any] | None = None, **options: Any) -> Grade:
    with open_verifier(parse_spec(spec, "test")) as verifier:
        return verifier.verify(response, gold, fields=fields, **{"thinking": False, **options})


def problem(spec: Any, gold: str, fields: Mapping[str, Any] | None = None) -> str | None:
    with open_verifier(parse_spec(spec, "test")) as verifier:
        return verifier.gold_problem(gold, fields)


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
        ("boxed", "a", "nothing boxed"),
        ("after_thoughts", " \n ", "nothing after the thoughts"),
        ("last_line", "\n\n", "nothing after the thoughts"),
        ("tag:answer", "<answer>a", "no tag <answer> with its end"),
        ("tag:answer", "</answer><answer>", "no tag <answer> with its end"),
        ("tag:answer", "<answer> </answer>", "no tag <answer> with its end"),
        ("boxed", "\\boxed{7} or \\boxed{8", "nothing boxed"),
        ("code_block", "~~~python\na\n```", "no code block with its end"),
        ("code_block", "```python\na", "no code block with its end"),
        ("json", "{a: 1}", "no JSON value"),
        ("json", "[" * 20_000, "no JSON value"),
    ],
)
def test_a_response_without_an_answer_at_its_place(answer: str, response: str, reason: str) -> None:
    assert grade({"type": "exact", "answer": answer}, response, "x") == Grade(Verdict.NO_ANSWER, None, reason)


@pytest.mark.parametrize("spec", ["math", "math_whole_text", "choice", "exact", {"type": "exact", "answer": "json"}])
def test_every_type_treats_thoughts_and_cut_responses_alike(spec: Any) -> None:
    assert verdict(spec, "\\boxed{A}", "A", thinking=True) == "no_think_end"
    cut = grade(spec, "\\boxed{A}", "A", truncated=True)
    assert (str(cut.verdict), cut.score, cut.solved) == ("truncated", 0.0, False)


@pytest.mark.parametrize(
    ("response", "gold", "fields", "expected"),
    [
        ("\\boxed{C}", "C", None, "correct"),
        ("Answer: C", "(c)", None, "correct"),
        ("\\boxed{C}", "3", None, "correct"),
        ("\\boxed{B}", "C", None, "wrong"),
        ("A or B", "A", None, "no_answer"),
        ("\\boxed{A, C}", "A, C", None, "correct"),
        ("\\boxed{A}", "A, C", None, "wrong"),
        ("\\boxed{\\text{green and red}}", "A, C", COLOURS, "correct"),
        ("\\boxed{(A) red, (C) green}", "A, C", COLOURS, "correct"),
        ("\\boxed{A, green}", "A, C", COLOURS, "correct"),
        ("\\boxed{A. red, C. blue}", "A, C", COLOURS, "wrong"),
        ("\\boxed{red, green, violet}", "A, C", COLOURS, "wrong"),
        ("\\boxed{Blue}", "B", COLOURS, "correct"),
        ("\\boxed{blue}", "blue", COLOURS, "correct"),
        ("\\boxed{B}", "Blue", COLOURS, "correct"),
        ("\\boxed{B. blue}", "blue", LINES, "correct"),
        ("\\boxed{blue}", "B", LINES, "correct"),
        ("\\boxed{red}", "B", LINES, "wrong"),
        ("\\boxed{violet}", "B", LINES, "wrong"),
        ("\\boxed{B}", "B", {"options": {"label": ["1", "2"], "text": ["x", "y"]}}, "correct"),
        ("\\boxed{y}", "2", {"options": {"label": ["1", "2"], "text": ["x", "y"]}}, "correct"),
        ("\\boxed{E}", "E", None, "correct"),
        ("\\boxed{violet}", "violet", None, "gold_unparsed"),
        ("\\boxed{2}", "2", {"options": ["2", "3"]}, "gold_unparsed"),
        ("\\boxed{D minor}", "B", {"options": ["F minor", "D minor", "B minor"]}, "correct"),
        ("\\boxed{D minor}", "D", {"options": ["F minor", "D minor", "B minor", "A minor"]}, "wrong"),
        ("\\boxed{A. E. coli}", "A", {"options": ["E. coli", "S. aureus"]}, "correct"),
        ("\\boxed{AB}", "C", {"options": ["A", "B", "AB", "O"]}, "correct"),
        ("\\boxed{C. S. aureus}", "C", {"options": ["E. coli", "S. aureus", "B. subtilis"]}, "wrong"),
        ("\\boxed{(B) E. coli}", "A", {"options": ["E. coli", "S. aureus"]}, "wrong"),
        ("\\boxed{D}", "D", VITAMINS, "correct"),
        ("\\boxed{\\text{D}}", "D", VITAMINS, "correct"),
        ("\\boxed{A}", "D", VITAMINS, "wrong"),
        ("\\boxed{(D) A}", "D", VITAMINS, "correct"),
        ("\\boxed{B}", "A", {"options": ["B", "K", "P"]}, "wrong"),
        ("Answer: D", "D", VITAMINS, "correct"),
        ("\\boxed{K}", "C", VITAMINS, "correct"),
        ("\\boxed{E}", "B", VITAMINS, "correct"),  # no label of these four, and so a text
        ("\\boxed{B}", "E", VITAMINS, "correct"),
        ("\\boxed{B}", "B minor", {"options": ["F minor", "D minor", "B minor"]}, "wrong"),
        ("\\boxed{(C) B minor}", "B minor", {"options": ["F minor", "D minor", "B minor"]}, "correct"),
        ("\\boxed{B. green}", "B", COLOURS, "wrong"),
        ("Answer: **B. green**.", "B", COLOURS, "wrong"),
        ("The answer is $\\textbf{(B)}\\ \\text{red}$", "B", COLOURS, "wrong"),
        ("The answer is (B) blue.", "B", COLOURS, "correct"),
        ("The answer is B. Red and green are primary, too.", "B", COLOURS, "correct"),
    ],
    ids=str,
)
def test_choice(response: str, gold: str, fields: Mapping[str, Any] | None, expected: str) -> None:
    assert verdict("choice", response, gold, fields) == expected


def test_choice_has_as_many_options_as_the_spec_says() -> None:
    four = {"type": "choice", "options": 4}
    assert problem(four, "D") is None and problem("choice", "J") is None
    assert "beyond the last option: expected A to D" in str(problem(four, "E"))
    assert "no label of an option" in str(problem(four, "x^2"))
    assert "position of one option and the text of another" in str(problem(four, "2", {"options": ["2", "3"]}))


def test_choice_at_another_place_refuses_a_label_with_another_text() -> None:
    for response in ("<a>C. red</a>", "<a>The answer is C: red</a>"):
        assert verdict({"type": "choice", "answer": "tag:a"}, response, "C", COLOURS) == "wrong"


@pytest.mark.parametrize("response", ["<a>C</a>", "<a>(C) green</a>", "<a>The answer is C</a>", "<a>Green</a>"])
def test_choice_at_another_place(response: str) -> None:
    assert verdict({"type": "choice", "answer": "tag:a"}, response, "C", COLOURS) == "correct"
    assert verdict({"type": "choice", "answer": "tag:a"}, response, "B", COLOURS) == "wrong"


@pytest.mark.parametrize(
    ("ignore", "answer", "gold", "expected"),
    [
        (["space"], " New \n York ", "New York", "correct"),
        ([], "New  York", "New York", "wrong"),
        (["space"], "new york", "New York", "wrong"),
        (["case"], "STRASSE", "straße", "correct"),
        (["punctuation"], "U.S.A.", "USA", "correct"),
        (["articles", "space"], "the cat", "cat", "correct"),
        (["articles"], "theatre", "atre", "wrong"),
        (["articles"], "on\tthe\tmoon", "on\tmoon", "correct"),
        (["punctuation"], "-40", "40", "wrong"),
        (["punctuation"], "(-40)", "-40.", "correct"),
        (["punctuation"], "2.75", "275", "wrong"),
        (["punctuation"], "pages 2-4", "pages 24", "wrong"),
        (["punctuation"], "3/4", "34", "wrong"),
        (["punctuation"], "in 3:4", "in 34", "wrong"),
        (["punctuation"], "7,5", "75", "wrong"),
        (["punctuation"], "1,234,567", "1234567", "correct"),
        (["punctuation"], ".5", "5", "wrong"),
        (["punctuation"], "(3-year-old)", "3yearold", "correct"),
        (["space"], "\\text{Oslo}", "Oslo", "wrong"),  # outside a box, it is no typography
        (["space"], "e\u0301", "\u00e9", "correct"),
        (["punctuation"], "x", "!!!", "gold_unparsed"),
    ],
)
def test_exact(ignore: list[str], answer: str, gold: str, expected: str) -> None:
    spec = {"type": "exact", "ignore": ignore, "answer": "after_thoughts"}
    assert verdict(spec, answer, gold) == expected
    assert (problem(spec, gold) is None) == (expected != "gold_unparsed")


@pytest.mark.parametrize(
    ("answer", "gold"), [("\\text{Oslo}", "Oslo"), ("x", "\\textbf{x}"), ("\\mathrm{Fe}_2", "Fe_2")]
)
def test_exact_reads_words_in_a_box_without_their_command(answer: str, gold: str) -> None:
    assert verdict("exact", f"\\boxed{{{answer}}}", gold) == "correct"
    assert verdict("exact", f"\\boxed{{{answer}}}", gold.upper() + "!") == "wrong"


@given(st.text(), st.sets(st.sampled_from(["case", "space", "punctuation", "articles"])))
def test_a_normalised_text_stays_as_it_is(text: str, ignored: set[Any]) -> None:
    once = normalize_text(text, tuple(ignored))
    assert normalize_text(once, tuple(ignored)) == once


@pytest.fixture(scope="module")
def math() -> Iterator[Verifier]:
    with open_verifier(parse_spec("math", "test")) as verifier:
        yield verifier


def test_math_is_the_grader(math: Verifier) -> None:
    given = [("\\boxed{1/2}", "0.5"), ("\\boxed{x+1}", "1+x", None, True), ("no", "3"), ("\\boxed{x+1}", "1+x")]
    items = [Item(*one) for one in given]
    grades = math.verify_many(items, thinking=False)
    assert [str(one.verdict) for one in grades] == ["correct", "truncated", "no_answer", "correct"]
    assert math.gold_problem("x^2") is None and "not read to its end" in str(math.gold_problem("\\text{}^{"))


def test_math_at_another_place() -> None:
    spec = {"type": "math", "answer": "last_line"}
    assert verdict(spec, "so\n\\frac{1}{2}", "0.5") == "correct" and verdict(spec, "1/2\n3", "0.5") == "wrong"


@pytest.mark.parametrize(
    ("golds", "hint"),
    [
        (["A", "(B)", "C, D"] * 10 + ["7"], "the golds of 96% of the rows are letters: verifier: choice"),
        (["Paris", "the Nile", "Saint-Denis"], "the golds of 100% of the rows are words: verifier: exact"),
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
