"""The right answers of a benchmark's row; one that no response can match is refused.

A benchmark with such a gold answer would report a score that says nothing about the model.
"""

import math
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any

from core.errors import InputError
from evaluation.benchmarks.options import LETTERS, POSITIONS
from grading.answers import extract_boxed
from grading.gold import AnswerForm, explain_unreadable, gold_answer

EMPTY_CELLS = ("nan", "<na>", "nat")  # what pandas writes for an empty cell


def read_gold(value: Any, form: AnswerForm, where: str) -> str:
    """The gold answer in a cell: a text or a number; the parts of a list are joined by commas. "" for an empty cell.

    Raises InputError, which starts with ``where``, for any other value, and for a text that has not the ``form``.
    """
    if value is None:
        return ""
    return ", ".join(_answer(part, form, where) for part in (value if isinstance(value, list) else [value]))


def option_index(gold: str, labels: Sequence[str] | None, options: int, index_base: int | None, where: str) -> int:
    """The place, from 0, of the option that ``gold`` names.

    Args:
        labels: the file's own labels of the options, in their order. None: A to J, or positions from 1.
        options: how many there are.
        index_base: the position of the first option, where gold answers are positions. None: they are labels.
    """
    if index_base is not None:
        names = [str(position) for position in range(index_base, index_base + options)]
    elif labels is not None:
        names = list(labels)
    else:
        names = list((POSITIONS if gold.removesuffix(".0").isdigit() else LETTERS)[:options])
    return names.index(_label(gold, names, f"any of its {options} options ({', '.join(names)})", where))


def choice_label(gold: str, labels: Sequence[str], index_base: int | None, where: str) -> str:
    """The label of the option that ``gold`` names, of a question whose text has the options.

    ``labels``: those that were recognised in the text; none: any that the grader knows. ``index_base``: see
    `option_index`.
    """
    if index_base is not None:
        letters = [label for label in labels if label in LETTERS] or list(LETTERS)
        return letters[option_index(gold, None, len(letters), index_base, where)]
    expected = f"any option in its text ({', '.join(labels)})" if labels else "an option, A to J or 1 to 10"
    return _label(gold, labels or (*LETTERS, *POSITIONS), expected, where)


def _label(gold: str, labels: Collection[str], expected: str, where: str) -> str:
    bare = gold[1:-1].strip() if gold.startswith("(") and gold.endswith(")") else gold
    for name in (bare, bare.upper(), bare.removesuffix(".0")):  # pandas makes 3.0 of a position
        if name in labels:
            return name
    raise InputError(
        f"{where}: gold answer {gold!r:.80} is not the label of {expected}; write the label alone, or map the file's "
        "own `labels`; `index_base: 0` reads positions that are counted from 0"
    )


def _answer(value: Any, form: AnswerForm, where: str) -> str:
    kind = _unmatchable(value)
    if kind:
        raise InputError(
            f"{where}: the gold answer is {kind}, which no response can match; write the answer as a text or a number, "
            "name the field that has it (`gold: COLUMN.FIELD`), or remove the row"
        )
    text = str(value).strip()
    if form == "boxed" and text and extract_boxed(text) is None:
        raise InputError(
            f"{where}: the solution has no \\boxed{{answer}}, which `answer_form: boxed` expects: {text!r:.80}; map "
            "the column that has the answer, or leave `answer_form` out if this is the answer"
        )
    gold = gold_answer(text, form)
    if gold is None and text:
        raise InputError(f"{where}: {explain_unreadable(text, form)}")
    return gold or ""


def _unmatchable(value: Any) -> str | None:
    """What ``value`` is, if it is no text and no finite number."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str):
        return f"the text {value!r} of an empty cell" if value.strip().lower() in EMPTY_CELLS else None
    if isinstance(value, int | float | Decimal):
        return None if math.isfinite(value) else f"the number {value}"
    if value is None:
        return "an empty part of a list"
    kinds = {dict: "an object", list: "a list in a list"}
    return f"{kinds.get(type(value), f'a {type(value).__name__}')} ({value!r:.60})"
