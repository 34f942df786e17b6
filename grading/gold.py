"""What a file gives as the right answer to a problem."""

from typing import Literal

from grading.answers import extract_boxed

# What a column of answers holds. text: the answer; boxed: a solution whose last box is the answer, or the answer where
# nothing is boxed; gsm8k: a solution that ends with the line "#### ANSWER".
AnswerForm = Literal["text", "boxed", "gsm8k"]
MARK = "####"


def split_solution(text: str) -> tuple[str, str | None]:
    """A solution without its last line ``#### ANSWER``, and that answer; None if it does not end with such a line.

    >>> split_solution("He pays 2*3 = $<<2*3=6>>6.\\n#### 6")
    ('He pays 2*3 = $<<2*3=6>>6.', '6')
    """
    above, _, last = text.rstrip().rpartition("\n")
    answer = last.strip().removeprefix(MARK).strip()
    return (above.rstrip(), answer) if last.strip().startswith(MARK) and answer else (text, None)


def gold_answer(text: str, form: AnswerForm) -> str | None:
    r"""The answer that a column of ``form`` gives; None if it cannot be read.

    A plain answer that is a solution of GSM8K cannot: the grader would compare responses with all of its words.

    >>> gold_answer("2*3 = 6\n#### 6", "gsm8k"), gold_answer("2*3 = 6\n#### 6", "text")
    ('6', None)
    """
    if form == "boxed":
        return extract_boxed(text) or text
    answer = split_solution(text)[1]
    return answer if form == "gsm8k" else text if answer is None else None


def explain_unreadable(text: str, form: AnswerForm) -> str:
    """Why `gold_answer` reads nothing, and what to do."""
    if form == "gsm8k":
        return (
            f"the answer does not end with a line '{MARK} ANSWER', which the mapping gsm8k (answer_form: gsm8k) expects"
        )
    return f"the answer is a solution that ends with '{MARK} {split_solution(text)[1]}': set answer_form: gsm8k"
