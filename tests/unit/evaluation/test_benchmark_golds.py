"""Gold answers that no response can match are refused when a suite is made, with file, row and remedy."""

import json

import pyarrow as pa
import pytest
from benchmark_files import entry, write_lines

from core.errors import InputError
from core.files import write_table
from core.schemas import SAMPLE
from evaluation.benchmarks.benchmark_problems import read_benchmark, read_suite
from evaluation.sample_tables import read_suite_file
from grading.graded_table import Verifiers, grade_table

ASKED = "Which is red?\nA) blood\nB) grass\nC) snow"


def refusal(tmp_path, benchmark) -> str:
    with pytest.raises(InputError) as caught:
        read_benchmark(benchmark, [tmp_path])
    return str(caught.value)


def test_a_whole_number_that_pandas_wrote_is_the_text_of_a_whole_number(tmp_path):
    write_lines(tmp_path / "mine.jsonl", '{"q": "3+4", "a": 7.0}', '{"q": "1/4", "a": 0.25}')
    assert read_benchmark(entry(), [tmp_path])["gold"].to_pylist() == ["7", "0.25"]


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


@pytest.mark.parametrize(
    "gold", ["A) blood", "B.", "Yes", "D", "K", "0", "1", "", "blood", "A or B", "A, D", ["A", "K"]]
)
def test_a_choice_that_is_no_label_of_the_question_is_refused(tmp_path, gold):
    write_lines(tmp_path / "mine.jsonl", {"q": ASKED, "a": gold})
    said = refusal(tmp_path, entry(verifier="choice"))
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
        assert read_benchmark(entry(verifier="choice"), [tmp_path])["gold"].to_pylist() == [letter]


def test_positions_are_counted_from_the_index_base(tmp_path):
    options = {"problem": "q", "options": "o", "gold": "a"}
    for base, gold, letter in ((0, 0, "A"), (0, 2, "C"), (1, 3, "C"), (0, 1.0, "B")):
        write_lines(tmp_path / "mine.jsonl", {"q": "Which?", "o": ["red", "green", "blue"], "a": gold})
        listed = entry(verifier="choice", index_base=base, columns=options)
        assert read_benchmark(listed, [tmp_path])["gold"].to_pylist() == [letter]
        write_lines(tmp_path / "mine.jsonl", {"q": ASKED, "a": gold})
        assert read_benchmark(entry(verifier="choice", index_base=base), [tmp_path])["gold"].to_pylist() == [letter]
    write_lines(tmp_path / "mine.jsonl", {"q": "Which?", "o": ["red", "green", "blue"], "a": 3})
    said = refusal(tmp_path, entry(verifier="choice", index_base=0, columns=options))
    assert "gold answer '3' is not the label of any of its 3 options (0, 1, 2)" in said
    write_lines(tmp_path / "mine.jsonl", {"q": "Which?", "o": ["red", "green", "blue"], "a": 0})
    assert "`index_base: 0` reads positions that are counted from 0" in refusal(
        tmp_path, entry(verifier="choice", columns=options)
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


def graded(tmp_path, benchmark, *responses) -> list[tuple[str, float]]:
    """(gold, score) of responses to the first problem of a benchmark, through the suite's file."""
    suite = read_suite([benchmark], [tmp_path])
    write_table(suite, tmp_path / "suite.parquet")
    suite = read_suite_file(tmp_path / "suite.parquet")
    problem = {"benchmark": "mine", "id": suite["id"][0].as_py()}
    rows = [{**problem, "sample": k, "response": f"</think>{text}"} for k, text in enumerate(responses)]
    with Verifiers() as verifiers:
        table = grade_table(pa.Table.from_pylist(rows, schema=SAMPLE), suite, verifiers)
    return list(zip(table["gold"].to_pylist(), table["score"].to_pylist(), strict=True))


def test_any_gold_of_a_list_may_be_the_right_one(tmp_path):
    write_lines(tmp_path / "mine.jsonl", {"q": "A root of x^2=4?", "a": ["2", -2]})
    answers = (r"\boxed{2}", r"\boxed{-2}", r"\boxed{4}", "2")
    assert graded(tmp_path, entry(gold_list="any"), *answers) == [("2", 1), ("-2", 1), ("2", 0), ("2", 0)]
    assert graded(tmp_path, entry(), *answers, r"\boxed{2, -2}") == [("2, -2", 0)] * 4 + [("2, -2", 1)]


@pytest.mark.parametrize("gold", ["A, C", "AC", "C and A", "(A) (C)", "A;C", ["C", "A"], "a,c"])
def test_several_letters_are_all_to_be_chosen_or_any_of_them(tmp_path, gold):
    write_lines(tmp_path / "mine.jsonl", {"q": ASKED, "a": gold})
    answers = (r"\boxed{A, C}", r"\boxed{CA}", "ANSWER: A and C", r"\boxed{A}", r"\boxed{A, B, C}", r"\boxed{C}", "No.")
    every = graded(tmp_path, entry(verifier="choice"), *answers)
    assert every == [("A, C", score) for score in (1, 1, 1, 0, 0, 0, 0)]
    either = graded(tmp_path, entry(verifier="choice", gold_list="any"), *answers[:2], *answers[3:])
    assert either == [("A", 0), ("A", 0), ("A", 1), ("A", 0), ("C", 1), ("A", 0)]


@pytest.mark.parametrize("shuffle", [False, True])
def test_several_right_options_keep_their_texts(tmp_path, shuffle):
    texts = ["red", "blue", "cat", "dog"]
    columns = {"problem": "q", "options": "o", "gold": "a"}
    for gold, more in (
        ("A, B", {}),
        (["A", "B"], {}),
        ([0, 1], {"index_base": 0}),
        ("1,2", {}),
        ("1,2", {"index_base": 1}),
    ):
        write_lines(tmp_path / "mine.jsonl", {"q": "Which are colours?", "o": texts, "a": gold})
        benchmark = entry(verifier="choice", columns=columns, shuffle_options=shuffle, **more)
        row = read_benchmark(benchmark, [tmp_path], seed=5).to_pylist()[0]
        lines = dict(line.split(") ") for line in row["problem"].split("\n")[2:6])
        assert sorted(lines[label] for label in row["gold"].split(", ")) == ["blue", "red"]


def test_a_suite_without_alternatives_is_one_with_none(tmp_path):
    write_lines(tmp_path / "mine.jsonl", {"q": "1+1", "a": 2})
    suite = read_suite([entry()], [tmp_path])
    assert suite["alternatives"].to_pylist() == [None]
    write_table(suite.drop_columns("alternatives"), tmp_path / "suite.parquet")
    assert read_suite_file(tmp_path / "suite.parquet").equals(suite)
