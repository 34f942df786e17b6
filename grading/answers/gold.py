"""Read the right answer to a problem from the columns of a file."""

import json
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Literal

from core.text.patterns import compile_full_match
from grading.answers.extraction import extract_boxed

# What a column of answers holds. text: the answer; boxed: a solution whose last box is the answer, or the answer where
# nothing is boxed; gsm8k: a solution that ends with the line "#### ANSWER".
AnswerForm = Literal["text", "boxed", "gsm8k"]
MARK = "####"
MOST = 0.9  # share of the golds from which on they are said to be of one kind
KINDS = {"choice": "letters", "code": "tests", "json": "JSON", "number": "numbers with a unit", "exact": "words"}
_LETTER = compile_full_match(r"\(?[A-J]\)?(?:, ?[A-J])*")
_QUANTITY = compile_full_match(r"[+-]?\d[\d.,]*(?:e[+-]?\d+)? ?[A-Za-zµ°%€$][\w°²³/*^.%-]*")
_WORDS = compile_full_match(r"[^\W\d_]{2,}(?:[ ,.'’-]+[^\W\d_]+)*[.!]?")


def split_solution(text: str) -> tuple[str, str | None]:
    """Split a solution into its text and the answer of its last line ``#### ANSWER``; None without such a line.

    >>> split_solution("He pays 2*3 = $<<2*3=6>>6.\\n#### 6")
    ('He pays 2*3 = $<<2*3=6>>6.', '6')
    """
    above, _, last = text.rstrip().rpartition("\n")
    answer = last.strip().removeprefix(MARK).strip()
    return (above.rstrip(), answer) if last.strip().startswith(MARK) and answer else (text, None)


def number_text(value: int | float | Decimal) -> str:
    """Return the text of a gold answer that a file holds as a number; pandas makes 24.0 of a whole one.

    >>> number_text(24.0), number_text(24), number_text(0.5)
    ('24', '24', '0.5')
    """
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def gold_answer(text: str, form: AnswerForm) -> str | None:
    r"""Return the answer that a column of ``form`` gives; None if it cannot be read.

    A plain answer that is a solution of GSM8K cannot: the grader would compare responses with all of its words.

    >>> gold_answer("2*3 = 6\n#### 6", "gsm8k"), gold_answer("2*3 = 6\n#### 6", "text")
    ('6', None)
    """
    if form == "boxed":
        return extract_boxed(text) or text
    answer = split_solution(text)[1]
    return answer if form == "gsm8k" else text if answer is None else None


def explain_unreadable(text: str, form: AnswerForm) -> str:
    """Explain why `gold_answer` cannot read a value, and what to do."""
    if form == "gsm8k":
        return (
            f"the answer does not end with a line '{MARK} ANSWER', which the mapping gsm8k (answer_form: gsm8k) expects"
        )
    return f"the answer is a solution that ends with '{MARK} {split_solution(text)[1]}': set answer_form: gsm8k"


def suggest(golds: Iterable[str]) -> str | None:
    """Suggest the verifier for gold answers that ``math`` cannot read; None if none clearly fits.

    >>> suggest(["A", "C", "B"]), suggest(["Paris", "Mount Everest"]), suggest(["x^2", "5"])
    ('the gold answers of 100% of the rows are letters: verifier: choice', \
'the gold answers of 100% of the rows are words: verifier: exact', None)
    """
    kinds = Counter(map(_kind, golds))
    kind, count = kinds.most_common(1)[0] if kinds else (None, 0)
    if kind is None or count < MOST * kinds.total():
        return None
    share = int(100 * count / kinds.total())
    return f"the gold answers of {share}% of the rows are {KINDS[kind]}: verifier: {kind}"


def _kind(gold: str) -> str | None:
    text = gold.strip()
    if _LETTER(text):
        return "choice"
    if text.startswith(("{", "[")):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if isinstance(value, dict):
            return "code" if value.keys() >= {"inputs", "outputs"} else "json"
        return "code" if value and all(str(one).startswith("assert ") for one in value) else None  # it may be a set
    if text.startswith("assert "):
        return "code"
    if _QUANTITY(text):
        return "number"
    return "exact" if _WORDS(text) else None
