"""Multiple choice with several right options: a response has to choose all of them, and no other."""

from core.text.patterns import compile_full_match, compile_quick_pattern
from grading.answers.choices import extract_choice
from grading.answers.extraction import SEPARATOR, extract_boxed
from grading.answers.spelling import TEXT, normalize

_NEXT = r"(?: ?,? ?(?i:and) ?| ?[,;/&+]? ?)"  # for texts without repeated blanks
_BOXED = compile_full_match(rf"(?i:options? )?\(?[A-J1-9]\)?(?:{_NEXT}\(?(?:[A-J]|[1-9])\)?){{1,9}}\.?")
_STATED = compile_quick_pattern(
    r"(?i:answers?|choices?|options?)\**+ ?(?i:is|are|:|=) ?[*$]*+(?i:options? )?"
    rf"(\(?[A-J]\)?(?:{_NEXT}\(?[A-J]\)?){{1,9}}+)(?![a-zA-Z']| ?,? ?(?i:or)\b)"
)
_LABEL = compile_quick_pattern(r"[A-J1-9]")
_WORD = compile_quick_pattern(r"(?i)and|options?")


def extract_choices(text: str) -> str | None:
    r"""Return the options that a response chose, in the order of the alphabet: of the last box, or else as last stated.

    >>> [extract_choices(text) for text in (r"\boxed{C, A}", r"\boxed{AC}", "The answers are A and C.", r"\boxed{C}")]
    ['A, C', 'A, C', 'A, C', 'C']
    """
    boxed = extract_boxed(text)
    if boxed is not None:
        content = " ".join(TEXT.sub(r" \1 ", normalize(boxed)).split())
        return _joined(content) if _BOXED(content) else extract_choice(text)
    stated = _STATED.findall(" ".join(text.split()))
    return _joined(stated[-1]) if stated else extract_choice(text)


def same_choices(answer: str, gold: str) -> bool:
    """Return whether two sets of labels are the same; golds from 1 to 10 also accept the letters in these positions.

    >>> same_choices("A, C", "A, C"), same_choices("A, C", "1, 3"), same_choices("A", "A, C")
    (True, True, False)
    """
    labels = gold.split(SEPARATOR)
    letters = ["ABCDEFGHIJ"[int(label) - 1] if label.isdigit() else label for label in labels]
    return set(answer.split(SEPARATOR)) in (set(labels), set(letters))


def _joined(listed: str) -> str:
    return SEPARATOR.join(sorted(set(_LABEL.findall(_WORD.sub(" ", listed)))))
