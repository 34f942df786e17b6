"""Multiple-choice answers: find the option, or the options, that a response chose, and compare their labels."""

from collections import deque

from core.text.patterns import Match, compile_full_match, compile_quick_pattern
from grading.answers.extraction import POSITIONS, SEPARATOR, extract_boxed
from grading.answers.spelling import TEXT, normalize

_LETTER = compile_full_match(r"""["'\[{(]*([A-Ja-j1-9]|10)[)}\]"']*[.:]?""")  # without blanks
_ONLY_LETTER = compile_full_match(r"\(?([A-J])\)?\.?")
_LETTER_WITH_TEXT = compile_full_match(r"(?s)(?:\(([A-J])\)|([A-J]) ?[.):\-])\s*(\S.*)")
# "A" and "I" are words, too: after them only what does not start with a small letter is an option's text.
_LETTER_BEFORE_TEXT = compile_full_match(r"(?s)(?:([B-HJ]) +([^\s=<>+*/^].*)|([AI]) +([^\sa-z=<>+*/^].*))")
_SEVERAL = compile_quick_pattern(
    r"\A\W{0,3}[A-J]\)?\s?(?:(?:(?i:or|and|nor)(?![a-zA-Z])|[,/&])\s?(?i:option )?\(?[A-J](?![a-zA-Z'])|- ?[A-J]\Z)"
)
_OTHER_LABEL = compile_quick_pattern(r"(?:\A|[\s,;|)])\(?[A-J]\s?[.):]")
_OTHER_LETTER = compile_quick_pattern(r"(?<![a-zA-Z'])(?:[B-HJ](?![a-zA-Z'])|[AI](?![a-zA-Z']| [a-z]))")
_DENIED = compile_quick_pattern(
    r"\A\W{0,6}(?i:(?:is|was) (?:wrong|incorrect|false)\b"
    r"|(?:(?:is|was) not|(?:is|was)n.?t)(?: (?:the |a )?(?:correct|right|true|valid|answer|possible)\b|\W{0,4}\Z))"
)
_UNSURE = compile_quick_pattern(r"\A\W{0,3}(?i:is|was|isn.?t|or|nor|not|no|maybe|perhaps|possibly|versus|vs)\b")
_JOINED = compile_quick_pattern(
    r"\A(?:\W{0,4}(?:(?i:or|and|nor|versus|vs)(?![a-zA-Z])|[,/&;|])\W{0,4}(?i:(?:maybe|perhaps|possibly|option) ){0,2}"
    r"\(?[A-J](?![a-zA-Z'])|[)}*$]{0,4} \(?[B-HJ](?![a-zA-Z']))"
)
_TAKEN_BACK = compile_quick_pattern(r"\A(?:\s?\?|[\s)}*$,;:\-–—]{0,6}(?i:no|wait|or not|maybe not|actually)\b)")
_OF_WRONG = compile_quick_pattern(r"(?i)(?:wrong|incorrect|false|bad|worst|rejected|eliminated)\s?\Z")
# What follows an "A" or "I" that is a label; before other words these are words themselves.
_BEHIND_LABEL = compile_quick_pattern(
    r"\A (?:because|since|as|for|by|due|which|that|and|or|with|in|from|given|based|where|if|when|is|was)\b"
)
_WORD_FOLLOWS = compile_quick_pattern(r"\A [a-z]")
_OPTION = compile_quick_pattern(r"\A(?i:option|choice|answer)\s*(?=\(?[A-J]\b)")
_STATED = compile_quick_pattern(
    r"(?:(?i:answer|choice|option)\**+\s*+(?i:is|:|=)++|(?i:answer)\s)[*$\s]*+(?i:(?:option|choice)\s++)?\(?\s*+"
    r"(?:\\text\{\s*+\(?)?([A-J])(?![a-zA-Z'])"
)
_NEXT = r"(?: ?,? ?(?i:and) ?| ?[,;/&+]? ?)"  # between the labels of several options, for texts without repeated blanks
_BOXED_SET = compile_full_match(rf"(?i:options? )?\(?[A-J1-9]\)?(?:{_NEXT}\(?(?:[A-J]|[1-9])\)?){{1,9}}\.?")
_STATED_SET = compile_quick_pattern(
    r"(?i:answers?|choices?|options?)\**+ ?(?i:is|are|:|=) ?[*$]*+(?i:options? )?"
    rf"(\(?[A-J]\)?(?:{_NEXT}\(?[A-J]\)?){{1,9}}+)(?![a-zA-Z']| ?,? ?(?i:or)\b)"
)
_SET_LABEL = compile_quick_pattern(r"[A-J1-9]")
_SET_WORD = compile_quick_pattern(r"(?i)and|options?")


def extract_choice(text: str) -> str | None:
    r"""Return the option that a response chose: ``\boxed{C}``, ``\boxed{(C) text}``, or else the last ``ANSWER: C``.

    A box without an option's label counts only if no answer is stated beside it. "A or B" is no choice.

    >>> [extract_choice(text) for text in (r"\boxed{(C) blue}", "ANSWER: A, no, ANSWER: B", "It is A, I think")]
    ['C', 'B', None]
    >>> [extract_choice(text) for text in (r"\boxed{x^2} Answer: D", "Answer: A or B", r"\boxed{\text{Option E}}")]
    ['D', None, 'E']
    """
    boxed = extract_boxed(text)
    stated = _stated(text)
    if boxed is not None:
        return choice_in(boxed, stated)
    alone = _ONLY_LETTER(text.strip())
    return alone.group(1) if alone else stated


def choice_in(answer: str, stated: str | None = None) -> str:
    """Return the option that a bare answer, such as the content of a box, names; ``stated`` is the one beside it.

    >>> choice_in("(C) blue"), choice_in("Option B"), choice_in("blue")
    ('C', 'B', 'blue')
    """
    content = _OPTION.sub("", " ".join(TEXT.sub(r"\1", normalize(answer)).split()))
    if _SEVERAL.match(content):
        return content
    label = _label(content)
    if label and (label.isalpha() or not stated):  # a number is more often a value than an option's position
        return label
    return _stated(content) or stated or content


def _label(content: str) -> str | None:
    """Return the label that the content of a box consists of or starts with, if it neither denies it nor has others."""
    if letter := _LETTER("".join(content.split())):
        return letter.group(1).upper()
    if match := _LETTER_WITH_TEXT(content):
        label, text = (group for group in match.groups() if group)
        return None if _OTHER_LABEL.search(text) or _DENIED.match(text) else label
    if match := _LETTER_BEFORE_TEXT(content):
        label, text = (group for group in match.groups() if group)
        return None if _OTHER_LETTER.search(text) or _UNSURE.match(text) else label
    return None


def _stated(text: str) -> str | None:
    """Return the last "Answer: C" in a text that is not taken back; None if it states several options."""
    last = next(iter(deque(filter(_is_statement, _STATED.finditer(text)), maxlen=1)), None)
    return None if last is None or _JOINED.match(_behind(last)) else last.group(1)


def _is_statement(stated: Match) -> bool:
    behind = _behind(stated)
    if (
        _DENIED.match(behind)
        or _TAKEN_BACK.match(behind)
        or _OF_WRONG.search(stated.string[max(0, stated.start() - 12) : stated.start()])
    ):
        return False
    return stated.group(1) not in "AI" or not _WORD_FOLLOWS.match(behind) or bool(_BEHIND_LABEL.match(behind))


def _behind(stated: Match) -> str:
    return stated.string[stated.end(1) : stated.end(1) + 40]


def same_choice(answer: str, gold: str) -> bool:
    """Return whether two option labels are the same; a gold answer from 1 to 10 also accepts the letter of its rank.

    A digit against a gold letter is wrong, because it is more often an option's value than its position.

    >>> same_choice("C", "3"), same_choice("3", "C")
    (True, False)
    """
    gold = gold.strip().strip("()").upper()
    return answer == gold or (gold in POSITIONS and answer == POSITIONS[gold])


def extract_choices(text: str) -> str | None:
    r"""Return the options that a response chose, in the order of the alphabet: of the last box, or else as last stated.

    >>> [extract_choices(text) for text in (r"\boxed{C, A}", r"\boxed{AC}", "The answers are A and C.", r"\boxed{C}")]
    ['A, C', 'A, C', 'A, C', 'C']
    """
    boxed = extract_boxed(text)
    if boxed is not None:
        content = " ".join(TEXT.sub(r" \1 ", normalize(boxed)).split())
        return _joined(content) if _BOXED_SET(content) else extract_choice(text)
    stated = _STATED_SET.findall(" ".join(text.split()))
    return _joined(stated[-1]) if stated else extract_choice(text)


def same_choices(answer: str, gold: str) -> bool:
    """Return whether two sets of labels are the same; golds from 1 to 10 also accept the letters in these positions.

    >>> same_choices("A, C", "A, C"), same_choices("A, C", "1, 3"), same_choices("A", "A, C")
    (True, True, False)
    """
    labels = gold.split(SEPARATOR)
    return set(answer.split(SEPARATOR)) in (set(labels), {POSITIONS.get(label, label) for label in labels})


def _joined(listed: str) -> str:
    return SEPARATOR.join(sorted(set(_SET_LABEL.findall(_SET_WORD.sub(" ", listed)))))
