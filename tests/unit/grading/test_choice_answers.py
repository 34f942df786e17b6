"""Several right options: all of them are to be chosen, however the response lists them."""

import pytest

from grading.answers.choices import extract_choice, extract_choices, same_choices


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{A, C}", r"\boxed{CA}", r"\boxed{A C}", r"\boxed{(A), (C)}", r"\boxed{\text{A and C}}",
        r"\boxed{A\text{ and }C}", r"\boxed{A, and C.}", r"\boxed{options A & C}", r"no \boxed{B}, but \boxed{A;C}",
        "Answer: A, C", "The answers are A and C.", "ANSWER: AC", "answer is **A, C**", "Answer: B, no. Answer: A,C",
        r"\boxed{\{A, C\}}", r"\boxed{[C, A]}",
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


@pytest.mark.parametrize(
    "text",
    [
        "**C**", "`C`", "$C$", "[C]", "Answer: [C]", "Answer: `C`", "The answer is \\textbf{(C)}.", "Answer - C",
        "answer: c", "The answer must be C", "The answer should be **C**.", "So the answer would be (C) red.",
        "Option C is correct.",
        "B is odd. Therefore, **C** is the correct answer.", "Answer: C. A student would say so, or a teacher.",
        "The answer is C because A and B are odd.", "Answer: C. Perhaps A man knew.",
        "Answer: C. However, if it rains, then the answer would be D",
        "The option that is not the correct answer is C.",
        "I choose C.", "So I would go with **C**.", "The answer is D only if B is false; I pick option C.",
        "Answer: D. That is wrong. Answer: C",
        "\u7b54\u6848\uff1aC", "\u6545\u9009\uff1aC", "\u6240\u4ee5\u9009\uff08C\uff09\u3002",
        "Die Antwort ist C.", "Antwort: C",
        "La respuesta es C.",
        "Thus, option (C).", "I'd go with option C", 'The answer is "C".', "We choose C.",
        "Hence, the correct option is (C).",
    ],
)  # fmt: skip
def test_an_option_is_chosen_in_many_words(text):
    assert extract_choice(text) == "C"


@pytest.mark.parametrize(
    "text",
    [
        "Answer: C (or D)", "Answer: C (maybe even D)", "Answer: **C**, possibly D", "Answer: C - or D?",
        "Answer: [C] or [D]",
        "Answer: C. Alternatively, option D.", "The answer is (C) if n is even, and (D) otherwise.",
        "The answer is C on odd days, but D in general", "The answer is C... hm, no, D.", "Answer: C; scratch that: D",
        "Some say that the answer is C. I disagree: D.", "Not the answer: C", "It is not the correct answer: c",
        "Answer: C looks easy, but wrong", "I doubt that option C is correct.", "The answer is c", r"\boxed{C \cup D}",
        "C is the best answer? No.", "Answer: C. That's wrong.", "The answer is C unless n is even.",
        "The answer is C only if D is false", r"\boxed{C. It is incorrect.}", "I think C, but my friend says D",
        "If I choose C, I lose", "I would not choose C", "Answer: C. Actually, D.",
        "The answer is C if it rains, otherwise D.", "Answer: I do not know", "The answer is A matter of taste",
    ],
)  # fmt: skip
def test_several_options_or_a_denied_one_are_no_choice(text):
    assert extract_choice(text) not in ("A", "C", "D", "I")
