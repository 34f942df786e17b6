"""Read the gold answers of a benchmark's rows, and refuse those that no response can match.

A benchmark with such a gold answer would report a score that says nothing about the model.
"""

import math
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any

from core.errors import InputError
from core.text.patterns import compile_quick_pattern
from grading.answers.extraction import LETTERS, POSITIONS, extract_boxed
from grading.answers.gold import AnswerForm, explain_unreadable, gold_answer, number_text

_BETWEEN = compile_quick_pattern(r"(?i)[,;/&+、，\s]|\band\b")  # the labels of one text
EMPTY_CELLS = ("nan", "<na>", "nat")  # what pandas writes for an empty cell


def is_empty_cell(value: Any) -> bool:
    """Return whether a cell holds nothing: null, blanks, NaN, or the text that stands for it in a table.

    >>> [is_empty_cell(value) for value in (None, " ", float("nan"), "NaN", 0, "0")]
    [True, True, True, True, False, False]
    """
    return value is None or str(value).strip().lower() in ("", *EMPTY_CELLS)


def read_golds(value: Any, form: AnswerForm, where: str) -> list[str]:
    """Return the gold answers in a cell: a text, a number or a list of them. None for an empty cell.

    Raises InputError, which starts with ``where``, for any other value, and for a text that has not the ``form``.
    """
    if value is None:
        return []
    golds = [_answer(part, form, where) for part in (value if isinstance(value, list) else [value])]
    return golds if all(golds) else []


def option_indices(
    golds: Sequence[str], labels: Sequence[str] | None, options: int, index_base: int | None, where: str
) -> list[int]:
    """Return the positions, from 0, of the options that gold answers name.

    Args:
        labels: the file's own labels of the options, in their order. None: A to J, or positions from 1.
        options: The number of options.
        index_base: the position of the first option, where gold answers are positions. None: they are labels.
    """
    if index_base is not None:
        names = [str(position) for position in range(index_base, index_base + options)]
    elif labels is not None:
        names = list(labels)
    else:
        names = list(POSITIONS if golds[0][:1].isdigit() else LETTERS)[:options]
    named = _labels(golds, names, f"any of its {options} options ({', '.join(names)})", where)
    return [names.index(label) for label in named]


def choice_labels(golds: Sequence[str], labels: Sequence[str], index_base: int | None, where: str) -> list[str]:
    """Return the labels that gold answers name, for a question with the options in its text.

    ``labels``: those that were recognised in the text; none: any that the grader knows. ``index_base``: see
    `option_indices`.
    """
    if index_base is not None:
        letters = [label for label in labels if label in LETTERS] or list(LETTERS)
        return [letters[index] for index in option_indices(golds, None, len(letters), index_base, where)]
    expected = f"any option in its text ({', '.join(labels)})" if labels else "an option, A to J or 1 to 10"
    return [label.upper() for label in _labels(golds, labels or (*LETTERS, *POSITIONS), expected, where)]


def _labels(golds: Sequence[str], known: Collection[str], expected: str, where: str) -> list[str]:
    """Split gold answers into labels, each once; one text may name several, as "A, C", "A and C" or "AC"."""
    labels = []
    for gold in golds:
        parts = _BETWEEN.sub(" ", gold).split()
        if gold.isalpha() and not _label(gold, known):
            parts = list(gold)
        named = [_label(gold, known)] if _label(gold, known) else [_label(part, known) for part in parts]
        if not all(named):
            raise InputError(
                f"{where}: gold answer {gold!r:.80} is not the label of {expected}; write the label alone, or map the "
                "file's own `labels`; `index_base: 0` reads positions that are counted from 0"
            )
        labels += named
    return list(dict.fromkeys(filter(None, labels)))


def _label(text: str, known: Collection[str]) -> str | None:
    bare = text[1:-1].strip() if text.startswith("(") and text.endswith(")") else text
    names = (bare, bare.upper(), bare.removesuffix(".0"))  # pandas makes 3.0 of a position
    return next((name for name in names if name in known), None)


def _answer(value: Any, form: AnswerForm, where: str) -> str:
    kind = _unmatchable(value)
    if kind:
        raise InputError(
            f"{where}: the gold answer is {kind}, which no response can match; write the answer as a text or a number, "
            "name the field that has it (`gold: COLUMN.FIELD`), or remove the row"
        )
    text = value.strip() if isinstance(value, str) else number_text(value)
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
    """Name the type of ``value`` if it is neither a text nor a finite number."""
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
