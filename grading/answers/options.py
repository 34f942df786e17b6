"""Read multiple-choice options from a column in any of its forms, or recognise them in the text of a question.

In prompts, options are labelled A to J. A file may hold them as a list, as a mapping from label to text, or as one text
with a label before each option, and may have written its own labels into the texts.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import InputError
from core.text.patterns import compile_quick_pattern
from grading.answers.extraction import LETTERS, POSITIONS

ALPHABETS = (tuple(LETTERS), tuple(LETTERS.lower()), tuple(POSITIONS))
# "A)", "(A)", "[A]", "A.", "A:", bold or not; "1.5" and "1:5" are values, not the option 1 with the text 5.
LABEL = compile_quick_pattern(
    r"(?<![^\s{$*])[(\[（]?([A-Ja-j]|10|[1-9])(?:[)\]）．、]|(?<=[A-Ja-j])[:：]|\.(?!\d)|[:：](?!\d))[}*]*\s*"
)
FORMS = "a list of texts, a mapping from label to text, or one text with a label such as A) before each option"


@dataclass(frozen=True)
class Options:
    """Options in their order: their texts without labels, and the labels by which the file's gold answer names them."""

    texts: tuple[str, ...]
    labels: tuple[str, ...] | None  # None: the file has none


def read_options(value: Any, labels: Sequence[Any] | None, where: str) -> Options:
    """Read the options in a cell; ``labels`` are the values of the file's own column, if it has one.

    Labels that stand before the texts are taken off, and name the options unless ``labels`` does.

    Raises InputError for another form, an empty option, and a number of options that cannot be labelled.
    """
    if isinstance(value, dict):
        value = {label: text for label, text in value.items() if text is not None}  # parquet has all labels in all rows
        labels, value = labels or list(value), list(value.values())
    elif isinstance(value, str):
        value = _split(value)
    if not isinstance(value, list) or not 2 <= len(value) <= len(LETTERS):
        raise InputError(f"{where}: expected a list of 2 to {len(LETTERS)} options; they may be {FORMS}")
    for number, option in enumerate(value, start=1):
        if isinstance(option, bool) or not isinstance(option, str | int | float) or not str(option).strip():
            raise InputError(
                f"{where}: option {number} is {option!r:.80}, which is no text; the options may be {FORMS}"
            )
    texts, written = _without_labels([str(option) for option in value])
    named = written if labels is None else tuple(str(label).strip() for label in labels)
    if named is not None and (len(named) != len(texts) or len(set(named)) != len(named)):
        raise InputError(
            f"{where}: {len(texts)} options and the labels {', '.join(named)}; expected a different label for each"
        )
    return Options(tuple(texts), named)


def with_options(question: str, options: Sequence[str]) -> str:
    r"""Return a question and its options (at most ten) in the form of LUFFY's ARC and GPQA files.

    >>> with_options("Which?", ["red", "green"])
    'Which?\n\nA) red\nB) green\n'
    """
    lines = [f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=False)]
    return f"{question.rstrip()}\n\n" + "\n".join(lines) + "\n"


def shuffled(options: Sequence[str], key: str) -> list[int]:
    """Order the positions of options by ``key`` and their texts alone."""
    return sorted(range(len(options)), key=lambda index: hashlib.sha256(f"{key}/{options[index]}".encode()).digest())


def labels_in(text: str) -> list[str]:
    r"""Return the labels of the options in a question's text, for each alphabet that it uses; none if it lists none.

    >>> labels_in("Which is even?\n(A) 1\n(B) 2"), labels_in("Is 7 prime?")
    (['A', 'B'], [])
    """
    return [label for run in _runs(text) for label, _, _ in run]


def _runs(text: str) -> list[list[tuple[str, int, int]]]:
    """Return runs of two labels or more by alphabet: (label, where it starts, where its option starts)."""
    marks = [(match.group(1), match.start(), match.end()) for match in LABEL.finditer(text)]
    runs = []
    for alphabet in ALPHABETS:
        run: list[tuple[str, int, int]] = []
        for mark in marks:
            if len(run) < len(alphabet) and mark[0] == alphabet[len(run)]:
                run.append(mark)
        if len(run) >= 2:
            runs.append(run)
    return runs


def _split(text: str) -> list[str]:
    """Split one text into options, each with its label; without labels, return the whole text."""
    for run in _runs(text):
        if not text[: run[0][1]].strip():
            ends = [start for _, start, _ in run[1:]] + [len(text)]
            return [text[start:end].strip() for (_, start, _), end in zip(run, ends, strict=True)]
    return [text]


def _without_labels(options: list[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """Split the labels off the options' texts; return both, or None unless all begin with labels of an alphabet.

    Texts stay as they are if one would be empty, because it is no text apart from its label.
    """
    matches = [LABEL.match(option.strip()) for option in options]
    written = tuple(match.group(1) for match in matches if match)
    if not any(sorted(written) == sorted(alphabet[: len(options)]) for alphabet in ALPHABETS):
        return options, None
    texts = [option.strip()[match.end() :] for option, match in zip(options, matches, strict=True) if match]
    return (texts, written) if all(texts) else (options, None)
