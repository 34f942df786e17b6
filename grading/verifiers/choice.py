"""Multiple choice: the answer names the option that the gold answer names, by its label or by its text."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from core.text.patterns import compile_full_match, compile_quick_pattern
from grading.answers.choices import (
    choice_in,
    extract_choice,
    extract_choices,
    label_with_text,
    same_choices,
    text_behind,
)
from grading.answers.extraction import BOXED, LETTERS, POSITIONS, SEPARATOR, extract_boxed
from grading.answers.spelling import TEXT, normalize, same_string
from grading.row_fields import OPTIONS, PROBLEM
from grading.verdict import Grade, UnfitGold, Verdict
from grading.verifiers.verifier import Verifier, VerifierOptions

_LABELS = compile_full_match(r"\(?(?:[A-J]|[1-9]|10)\)?(?:, (?:[A-J]|[1-9]|10))*")
_LINE = compile_quick_pattern(r"(?m)^[ \t]*\(?([A-J])[.):][ \t]+(\S.*)$")

_AND = compile_quick_pattern(r" ?[,;] ?(?:and )?| and ")


class ChoiceOptions(VerifierOptions):
    """``options``: how many options a question has at most, labelled from A."""

    options: int = Field(len(LETTERS), ge=2, le=len(LETTERS))


class ChoiceVerifier(Verifier):
    """By default the answer is the last box, or else the last "Answer: C".

    A gold answer is a label, several of them ("A, C", all of which have to be chosen), a position from 1, or the text
    of an option. Texts are known where the row has ``options`` (a list of texts, or the object with the lists ``label``
    and ``text``), or a ``problem`` with a line "A. text" for each option. A label counts before an equal text.
    """

    Options = ChoiceOptions

    def extract(self, part: str, gold: str, fields: Mapping[str, Any]) -> str | None:
        if self.options.answer != BOXED:
            return super().extract(part, gold, fields)
        boxed = extract_boxed(part)
        texts = option_texts(fields)
        if boxed and (named := _by_text(boxed, texts)):
            return named
        if SEPARATOR not in gold or not _LABELS(gold.strip()):
            return extract_choice(part) if boxed else _stated(part, texts)
        return (boxed and _listed(boxed, texts)) or extract_choices(part)

    def grade_answer(self, answer: str, gold: str, fields: Mapping[str, Any]) -> Grade:
        try:
            label, texts = self.expected(gold, fields), option_texts(fields)
        except UnfitGold as error:
            return Grade(Verdict.GOLD_UNPARSED, answer, str(error))
        chosen, by_text = answer, None
        if SEPARATOR in label:
            chosen = answer if self.options.answer == BOXED else extract_choices(f"\\boxed{{{answer}}}") or answer
        else:
            if self.options.answer != BOXED:
                chosen = _by_text(answer, texts) or _stated(answer, texts) or choice_in(answer)
            by_text = _label_with_text(chosen, texts)
        correct = same_choices(by_text or chosen, label) or _same_text(by_text or chosen, label, texts)
        reason = "by the text of an option" if by_text else "by letter"
        return Grade(Verdict.CORRECT if correct else Verdict.WRONG, chosen, reason)

    def expected(self, gold: str, fields: Mapping[str, Any]) -> str:
        texts = option_texts(fields)
        label, last = _label_of(gold, texts), LETTERS[self.options.options - 1]
        if not _LABELS(label):
            known = "the text of an option" if texts else "the text of an option where the row has its options"
            raise UnfitGold(f"{gold!r:.80} is no label of an option: expected A to {last}, or {known}")
        if gold.strip().isdigit() and label.isalpha() and label != LETTERS[int(gold) - 1 : int(gold)]:
            raise UnfitGold(f"{gold!r} is the position of one option and the text of another: give the letter")
        positions = [int(one) if one.isdigit() else LETTERS.index(one) + 1 for one in label.split(SEPARATOR)]
        if max(positions) > self.options.options:
            raise UnfitGold(
                f"{gold!r:.80} is beyond the last option: expected A to {last}; set options to the number of them"
            )
        return label


def option_texts(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a row by label; empty if it has none.

    >>> option_texts({"options": ["red", "blue"]}), option_texts({"problem": "Which?\\nA. red\\nB) blue"})
    ({'A': 'red', 'B': 'blue'}, {'A': 'red', 'B': 'blue'})
    """
    given = fields.get(OPTIONS)
    if isinstance(given, Mapping):
        pairs = zip(given.get("label") or (), given.get("text") or (), strict=False)
        return {POSITIONS.get(str(label), str(label)): str(text) for label, text in pairs}
    if isinstance(given, Sequence) and not isinstance(given, str):
        return dict(zip(LETTERS, map(str, given), strict=False))
    lines = {line.group(1): line.group(2) for line in _LINE.finditer(str(fields.get(PROBLEM) or ""))}
    return lines if list(lines) == list(LETTERS[: len(lines)]) else {}


def _label_of(gold: str, texts: Mapping[str, str]) -> str:
    """Return the label that a gold answer is, or the label of the option with its text; else the gold answer."""
    label = gold.strip()
    if by_text := _label_with_text(label, texts):
        return by_text
    return label.strip("()").upper() if _LABELS(label.upper()) else label


def _label_with_text(answer: str, texts: Mapping[str, str]) -> str | None:
    """Return the label of the first option with this text; None for an answer that is the label of an option itself."""
    return None if normalize(answer) in texts else _with_text(answer, texts)


def _same_text(answer: str, label: str, texts: Mapping[str, str]) -> bool:
    """Return whether two labels are of options with the same text: a question may have an option twice."""
    return answer in texts and label in texts and same_string(texts[answer], texts[label])


def _by_text(answer: str, texts: Mapping[str, str]) -> str | None:
    """Return the option that an answer names by its text, with or without the label; None if the text decides nothing.

    A label with the text of another option stays as it is, and names none.
    """
    if _label_with_text(answer, texts):  # as "C major", which starts like a label
        return answer
    label, text = label_with_text(normalize(answer)) or ("", "")
    if label and same_string(text, texts.get(label, "")):
        return label
    return answer if _with_text(text, texts) else None


def _stated(text: str, texts: Mapping[str, str]) -> str | None:
    """Return the label that a text states; with the text behind it if this is another option's."""
    label, behind = extract_choice(text), text_behind(text)
    named = behind and _with_text(behind, texts)
    return f"{label}. {behind}" if label and named and named != label else label


def _listed(boxed: str, texts: Mapping[str, str]) -> str | None:
    """Return the labels of options that a box lists by their texts, with or without labels; None for anything else."""
    labels: list[str | None] = []
    for one in _AND.split(" ".join(TEXT.sub(r" \1 ", normalize(boxed)).split())):
        label, text = label_with_text(one) or (None, one)
        named = one if one in texts else _with_text(text, texts)
        labels.append(named if label in (None, named) else None)
    return SEPARATOR.join(sorted({label for label in labels if label})) if all(labels) else None


def _with_text(text: str, texts: Mapping[str, str]) -> str | None:
    return next((label for label, option in texts.items() if same_string(text, option)), None)
