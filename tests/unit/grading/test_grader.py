"""What the trainer's reward, the target filter and the benchmarks all rely on."""

import threading
from pathlib import Path

import pytest

from core.errors import InputError
from grading.answers.choices import extract_choice
from grading.answers.extraction import answer_part, extract_boxed
from grading.grader import Grader
from grading.verdict import Grade, Verdict

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def grader():
    with Grader(workers=2, limit_s=20.0) as grader:
        yield grader


def think(answer: str) -> str:
    return f"<think>\nsome work, perhaps \\boxed{{1}}\n</think>\n\nSo {answer}"


def test_answer_part_follows_the_last_closing_tag():
    assert answer_part("<think>a</think> b </think> c", thinking=True) == " c"
    assert answer_part("<think>never closed \\boxed{7}", thinking=True) is None
    assert answer_part("no thoughts \\boxed{7}", thinking=False) == "no thoughts \\boxed{7}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\boxed{1} then \\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed {5}", "5"),
        ("\\fbox{5}", "5"),
        ("\\boxed{ \\{1,2\\} }", "\\{1,2\\}"),
        ("$\\boxed 5$", "5"),
        ("\\boxed{1} and cut \\boxed{\\frac{1", None),
        ("\\boxed{}", None),
        ("nothing", None),
        ("\\boxedish{3}", None),
    ],
)
def test_last_box(text, expected):
    assert extract_boxed(text) == expected


def test_an_answer_must_be_boxed_after_the_thoughts(grader):
    assert grader.grade(think("\\boxed{42}"), "42").verdict is Verdict.CORRECT
    assert grader.grade(think("42"), "42").verdict is Verdict.NO_ANSWER
    assert grader.grade("<think> \\boxed{42}", "42") == Grade(Verdict.NO_THINK_END, None, "no </think>")
    assert grader.grade("\\boxed{42}", "42", thinking=False).score == 1.0
    truncated = grader.grade(think("\\boxed{42}"), "42", truncated=True)
    assert (truncated.verdict, truncated.score) == (Verdict.TRUNCATED, 0.0)


def test_what_is_nobodys_fault_is_not_called_wrong(grader):
    assert grader.verify("5", "") is Verdict.GOLD_UNPARSED
    assert grader.verify("5", "\\text{}^{") is Verdict.GOLD_UNPARSED
    assert grader.gold_problem("\\text{}^{")
    assert grader.gold_problem("\\left( 3, \\frac{\\pi}{2} \\right)") is None
    assert grader.verify("1" * 2000, "5") is Verdict.WRONG or grader.verify("1" * 2000, "5") is Verdict.ERROR
    assert grader.verify("x" * 2000, "5") is Verdict.ERROR


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\boxed{C}", "C"),
        ("\\boxed{\\text{C}}", "C"),
        ("\\boxed{(C)}", "C"),
        ("\\boxed{C) shorter days}", "C"),
        ("\\boxed{\\text{C. shorter days}}", "C"),
        ("ANSWER: B\nno, wait\nANSWER: C", "C"),
        ("**Answer:** C", "C"),
        ("The answer is (C).", "C"),
        ("Answer: $\\text{C}$", "C"),
        ("I think A, as a Car is red", None),
        ("answer: Can't say", None),
        ("\\boxed{J}", "J"),
        ("ANSWER: A, so \\boxed{D}", "D"),
        ("\\boxed{c}", "C"),
        ('\\boxed{"C"}', "C"),
        ("\\boxed{(C) It is not known}", "C"),
        ("\\boxed{C: vitamin D}", "C"),
        ("D", "D"),
        ("The answer is C. D is incorrect because it leaks.", "C"),
        ("The answer is C, not D", "C"),
        ("The answer is A because it floats", "A"),
        ("The answer is D. The wrong answer is C.", "D"),
        ("The answer is D. The answer C is incorrect.", "D"),
        ("The answer is A river, and I choose D", "D"),
        ("So the answer: A perfect answer cannot be found.", None),
        ("The answer is C? No.", None),
        ("The answer is C - wait, no", None),
        ("Answer: C or perhaps D", None),
        ("Answer: C; D", None),
        ("Answer: C D", None),
        ("Answer: C) No effect", "C"),
        ("The answer is (C) E. coli.", "C"),
        ("Answer: C; D is incorrect.", "C"),
        ("The answer is A so it floats", "A"),
        ("The correct option is A under these conditions", "A"),
        ("The incorrect option is (C).", "C"),
        ("Answer: C\n\nAnswer choice D ignores drag.", "C"),
        ("The incorrect answer is C.", None),
        ("The answer is C. No, wait, it is D.", None),
        ("If the answer is C then 1 = 2", None),
        ("Answer: C plus D", None),
        ("\\boxed{C. J. K. Rowling}", "C"),
        ("\\boxed{C. Both (A) and (B)}", "C"),
        ("\\boxed{C. Washington D.C.}", "C"),
        ("\\boxed{C Vitamin D}", "C"),
        ("\\boxed{\\textbf{(C)}\\ P(A, B)}", "C"),
    ],
)
def test_choice_extraction(text, expected):
    assert extract_choice(text) == expected


@pytest.mark.parametrize(
    "box",
    [
        "C D",
        "(C)(D)",
        "C. D. E.",
        "C: wrong, D: right",
        "C | D",
        "C\nD",
        "C is wrong",
        "C (or D)",
        "C maybe D",
        "C to E",
        "C -> D",
        "C. red D. blue",
        "C) red or D) blue",
        "C cannot be correct",
    ],
)
def test_a_box_with_several_options_or_a_denied_one_chooses_none(box):
    assert extract_choice(f"\\boxed{{{box}}}") not in ("C", "D", "E")


def test_many_keep_their_order_and_equal_ones_agree(grader):
    items = [(think(f"\\boxed{{\\frac{{{i % 3}}}{{2}}}}"), "0.5") for i in range(30)]
    grades = grader.grade_many(items)
    assert [g.score for g in grades] == [float(i % 3 == 1) for i in range(30)]


def test_threads_share_a_grader(grader):
    found = []

    def work(i):
        found.append((i, grader.verify(f"\\frac{{{2 * i}}}{{2}}", str(i if i % 2 else i + 1))))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert all((verdict is Verdict.CORRECT) == (i % 2 == 1) for i, verdict in found)


def test_the_published_rule_takes_any_answer_after_the_first_thoughts():
    with Grader(workers=1, limit_s=20.0, rule="whole-text") as published:
        verdicts = {
            text: published.grade(text, "4").verdict
            for text in (
                "<think>a</think> So the answer is 4.",
                "<think>a</think> $x = 4$",
                "<think>a</think> \\boxed{4} </think> nothing here",
                "<think>a</think> So the answer is 5.",
                "<think>a</think> none",
                "So the answer is 4.",
            )
        }
        assert [str(verdict) for verdict in verdicts.values()] == [
            *("correct", "correct", "correct"),
            *("wrong", "no_answer", "no_think_end"),
        ]
        assert published.grade("So the answer is 4.", "4", thinking=False).score == 1.0
        assert published.grade("<think>a</think> 4", "4", truncated=True).verdict is Verdict.TRUNCATED
    with pytest.raises(InputError, match="unknown rule 'last': expected one of boxed, whole-text"):
        Grader(rule="last")
