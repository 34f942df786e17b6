"""Several right options: all of them are to be chosen, however the response lists them."""

import pytest

from grading.answers.choices import extract_choices, same_choices


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{A, C}", r"\boxed{CA}", r"\boxed{A C}", r"\boxed{(A), (C)}", r"\boxed{\text{A and C}}",
        r"\boxed{A\text{ and }C}", r"\boxed{A, and C.}", r"\boxed{options A & C}", r"no \boxed{B}, but \boxed{A;C}",
        "Answer: A, C", "The answers are A and C.", "ANSWER: AC", "answer is **A, C**", "Answer: B, no. Answer: A,C",
        "The correct options are (A) and (C), since B is odd.",
    ],
)  # fmt: skip
def test_lists_of_options_are_read(text):
    assert extract_choices(text) == "A, C" and same_choices("A, C", "A, C")


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        (r"\boxed{C}", "C"),
        (r"\boxed{A, C, D}", "A, C, D"),
        (r"\boxed{1, 3}", "1, 3"),
        ("The answer is A Big one", "A"),
        ("none of them", None),
        ("", None),
    ],
)
def test_what_is_no_such_list_is_not_made_one(text, choice):
    extracted = extract_choices(text)
    assert extracted == choice and (extracted is None or not same_choices(extracted, "A, B"))


def test_one_or_another_is_no_set_of_options():
    for text in ("Answer: A, B or D", "Answer: A or B", "Answer: A, B, or D"):
        assert extract_choices(text) in (None, "A")


def test_sets_of_labels_are_compared_as_sets():
    assert same_choices("C, A", "A, C") and same_choices("A, C", "1, 3") and same_choices("1, 3", "1, 3")
    assert not same_choices("A", "A, C") and not same_choices("A, B, C", "A, C") and not same_choices("1, 3", "A, C")
