"""Answers of multiple choice: which option a response chose, and whether two labels name the same one."""

from core.text.patterns import compile_full_match, compile_quick_pattern
from grading.answers import extract_boxed
from grading.spelling import TEXT, normalize

_LETTER = compile_full_match(r"\(?([A-J1-9]|10)\)?[.:)]?")  # without blanks
_LETTER_WITH_TEXT = compile_full_match(r"(?s)(?:\(([A-J])\)|([A-J])[.):])\s*\S.*")
_POSITIONS = {str(position): letter for position, letter in enumerate("ABCDEFGHIJ", start=1)}
_STATED = compile_quick_pattern(
    r"(?:(?i:answer|choice|option)\**+\s*+(?i:is|:|=)++|(?i:answer)\s)[*$\s]*+(?i:option\s++)?\(?\s*+(?:\\text\{\s*+\(?)?"
    r"([A-J])(?![a-zA-Z'])"
)


def extract_choice(text: str) -> str | None:
    r"""The option that a response chose: ``\boxed{C}``, ``\boxed{(C) text}``, or else the last ``ANSWER: C``.

    >>> [extract_choice(text) for text in (r"\boxed{(C) blue}", "ANSWER: A, no, ANSWER: B", "It is A, I think")]
    ['C', 'B', None]
    """
    boxed = extract_boxed(text)
    if boxed is not None:
        content = TEXT.sub(r"\1", normalize(boxed)).strip()
        if match := _LETTER("".join(content.split())):
            return match.group(1)
        if match := _LETTER_WITH_TEXT(content):
            return match.group(1) or match.group(2)
        stated = _STATED.search(content)
        return stated.group(1) if stated else content
    stated = _STATED.findall(text)
    return stated[-1] if stated else None


def same_choice(answer: str, gold: str) -> bool:
    """Whether two option labels are the same; a gold answer from 1 to 10 also accepts the letter in that position.

    A digit against a gold letter is wrong, because it is more often an option's value than its position.

    >>> same_choice("C", "3"), same_choice("3", "C")
    (True, False)
    """
    gold = gold.strip().strip("()").upper()
    return answer == gold or (gold in _POSITIONS and answer == _POSITIONS[gold])
