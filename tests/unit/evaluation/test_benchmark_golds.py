"""Gold answers that no response can match are refused when a suite is made, with file, row and remedy."""

import json

import pytest
from benchmark_files import entry, write_lines

from core.errors import InputError
from evaluation.benchmarks.benchmark_problems import read_benchmark

ASKED = "Which is red?\nA) blood\nB) grass\nC) snow"


def refusal(tmp_path, benchmark) -> str:
    with pytest.raises(InputError) as caught:
        read_benchmark(benchmark, [tmp_path])
    return str(caught.value)


@pytest.mark.parametrize(
    ("gold", "kind"),
    [
        ("NaN", "the number nan"),
        ("Infinity", "the number inf"),
        ("true", "the boolean true"),
        ("false", "the boolean false"),
        ('{"value": 7}', "an object"),
        ('[["5"], ["6"]]', "a list in a list"),
        ('["5", null]', "an empty part of a list"),
        ('["5", true]', "the boolean true"),
        ('"nan"', "the text 'nan' of an empty cell"),
    ],
)
def test_a_gold_that_no_response_can_match_is_refused(tmp_path, gold, kind):
    write_lines(tmp_path / "mine.jsonl", {"q": "1+1", "a": "2"}, f'{{"q": "3+4", "a": {gold}}}')
    said = refusal(tmp_path, entry())
    assert said.startswith(f"benchmark mine: {tmp_path / 'mine.jsonl'}, row 2: column a: the gold answer is {kind}")
    assert "write the answer as a text or a number" in said and "\n" not in said


@pytest.mark.parametrize(
    ("gold", "text"), [(0, "0"), (-2.5, "-2.5"), ("Yes", "Yes"), ("None", "None"), ([1, "2"], "1, 2")]
)
def test_texts_numbers_and_lists_of_them_are_golds(tmp_path, gold, text):
    write_lines(tmp_path / "mine.jsonl", {"q": "3+4", "a": gold})
    assert read_benchmark(entry(), [tmp_path])["gold"].to_pylist() == [text]


@pytest.mark.parametrize("solution", [r"so \framebox{7}", "hence 7", r"\boxed{}", r"\boxed{7", r"\colorbox{red}{7}"])
def test_a_solution_that_boxes_nothing_is_no_answer(tmp_path, solution):
    write_lines(tmp_path / "mine.jsonl", {"q": "3+4", "a": solution})
    said = refusal(tmp_path, entry(answer_form="boxed"))
    assert r"row 1: column a: the solution has no \boxed{answer}" in said and "map the column" in said


def test_the_last_box_of_a_solution_is_the_answer(tmp_path):
    write_lines(tmp_path / "mine.jsonl", {"q": "3+4", "a": r"not \boxed{6}, but \fbox{7}"})
    assert read_benchmark(entry(answer_form="boxed"), [tmp_path])["gold"].to_pylist() == ["7"]


@pytest.mark.parametrize("gold", ["A) blood", "B.", "Yes", "D", "K", "0", "1", "", "blood", "A or B"])
def test_a_choice_that_is_no_label_of_the_question_is_refused(tmp_path, gold):
    write_lines(tmp_path / "mine.jsonl", {"q": ASKED, "a": gold})
    said = refusal(tmp_path, entry(grader="choice"))
    assert "row 1" in said
    assert "is empty" in said if not gold else "is not the label of any option in its text (A, B, C)" in said


@pytest.mark.parametrize(
    ("question", "golds"),
    [
        (ASKED, {"A": "A", "(C)": "C", "b": "B"}),
        ("Which? (A) 1.5 (B) 2.5", {"B": "B"}),
        ("Which?\n1. blood\n2. grass", {"2": "2", 1: "1", 2.0: "2"}),
        (r"Which? $\textbf{(A)}\ 3\qquad\textbf{(B)}\ 4$", {"B": "B"}),
        ("Which?\n**A.** 3\n**B.** 4", {"A": "A"}),
        ("Which of red, green, blue?", {"J": "J", "10": "10"}),  # no options to recognise: whatever the grader knows
    ],
)
def test_options_are_recognised_in_the_text_of_a_question(tmp_path, question, golds):
    for gold, letter in golds.items():
        write_lines(tmp_path / "mine.jsonl", {"q": question, "a": gold})
        assert read_benchmark(entry(grader="choice"), [tmp_path])["gold"].to_pylist() == [letter]


def test_without_options_in_its_text_a_gold_is_still_a_label(tmp_path):
    for gold in ("Yes", "K", "11", "0"):
        write_lines(tmp_path / "mine.jsonl", {"q": "Is 7 prime?", "a": gold})
        assert "is not the label of an option, A to J or 1 to 10" in refusal(tmp_path, entry(grader="choice"))


def test_positions_are_counted_from_the_index_base(tmp_path):
    options = {"problem": "q", "options": "o", "gold": "a"}
    for base, gold, letter in ((0, 0, "A"), (0, 2, "C"), (1, 3, "C"), (0, 1.0, "B")):
        write_lines(tmp_path / "mine.jsonl", {"q": "Which?", "o": ["red", "green", "blue"], "a": gold})
        listed = entry(grader="choice", index_base=base, columns=options)
        assert read_benchmark(listed, [tmp_path])["gold"].to_pylist() == [letter]
        write_lines(tmp_path / "mine.jsonl", {"q": ASKED, "a": gold})
        assert read_benchmark(entry(grader="choice", index_base=base), [tmp_path])["gold"].to_pylist() == [letter]
    write_lines(tmp_path / "mine.jsonl", {"q": "Which?", "o": ["red", "green", "blue"], "a": 3})
    said = refusal(tmp_path, entry(grader="choice", index_base=0, columns=options))
    assert "gold answer '3' is not the label of any of its 3 options (0, 1, 2)" in said
    write_lines(tmp_path / "mine.jsonl", {"q": "Which?", "o": ["red", "green", "blue"], "a": 0})
    assert "`index_base: 0` reads positions that are counted from 0" in refusal(
        tmp_path, entry(grader="choice", columns=options)
    )


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ([{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}], "user, assistant"),
        ([{"role": "user", "content": "x=1"}, {"role": "user", "content": "x+1?"}], "user, user"),
        ([{"role": "system", "content": "Think."}], "system"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "user"),
        ({"text": "1+1"}, "the problem is {'text': '1+1'}"),
        (True, "the problem is True"),
    ],
)
def test_a_problem_is_one_question(tmp_path, problem, message):
    write_lines(tmp_path / "mine.jsonl", {"q": problem, "a": "2"})
    said = refusal(tmp_path, entry())
    assert "row 1: column q: the problem" in said and message in said, json.dumps(problem)
