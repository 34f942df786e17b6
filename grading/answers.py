"""Answers as strings: where a response states its answer, and what makes two spellings of an answer the same.

Pure string work, no symbolic algebra (that is `grading.equivalence`, in worker processes). Rules and traps:
the reward rule is seed 004's: last box after the last ``</think>``.
"""

import re
from decimal import Decimal
from fractions import Fraction

THINK_END = "</think>"

_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])\s*")
_SPACING = re.compile(r"\\[,;:> ]|\\q?quad(?![a-zA-Z])|~|\\displaystyle(?![a-zA-Z])")
_SIZING = re.compile(r"\\(?:left|right|bigg?l?r?|Bigg?l?r?)(?![a-zA-Z])\.?")
_TEXT = re.compile(r"\\(?:text|textbf|textrm|textit|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:(?:,\d{3})+|(?: \d{3})+)(?:\.\d+)?")
_SPACED_THOUSANDS = re.compile(r"(?<=\d),\\!\s*(?=\d{3}(?!\d))")  # in a list the comma stands alone
_SCIENTIFIC = re.compile(r"([+-]?\d+(?:\.\d+)?)[eE]([+-]?\d+)")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)")
_FRACTION = re.compile(r"([+-]?)(?:\\frac ?(?:\{([+-]?\d+)\} ?\{(\d+)\}|(\d)(\d))|(\d+) ?/ ?(\d+))")
_POWER_OF_TEN = re.compile(
    r"(?:([+-]?(?:\d+\.?\d*|\.\d+)) ?(?:\\times|\\cdot) ?)?10 ?\^ ?(?:\{ ?([+-]?\d{1,3}) ?\}|(\d))"
)
_UNIT = re.compile(r"(?<=[\d}]) ?\\(?:text|textrm|mathrm|mbox)\s*\{[^{}]*\}$")
_PERCENT = re.compile(r"(.*[^\s\\])\s*\\?%")
_BASED = re.compile(r"(\d+)_\{?(\d+)\}?")
_TH = r"\\(?:text|textrm|mathrm|mbox)\s*\{\s*(?:st|nd|rd|th)\s*\}"
_ORDINAL = re.compile(rf"(?<=\d)\s*(?:\^\{{\s*{_TH}\s*\}}|\^?{_TH})")
CLOSE = Fraction(1, 1000)
LONGEST_NUMBER = 1000
SAME_DIGITS = 3  # from so many digits on, a gold that an answer repeats with its base is taken to have left it out
WORD = 3  # so many letters are a word; fewer may be names of points or variables
_QUANTITY = re.compile(r"[+-]?[\d.]+\s*(?:\\text\{\s*([a-zA-Z/ .]+?)\s*\}|([a-zA-Z]+))(?:\^\{?(-?\d)\}?)?")
_LABELLED = re.compile(r"\(?([A-J])[.):]\)?\s*(?=\S)")
_LESS = r"(<|\\leq?(?![a-zA-Z])|\\leqslant|≤)"
_BETWEEN = re.compile(rf"([^<≤]+?)\s*{_LESS}\s*[a-zA-Z]\s*{_LESS}\s*([^<≤]+)")
_MEMBER = re.compile(r"[a-zA-Z]\s*\\in\s*(?=[\[(\\{])")

_LETTER = re.compile(r"\(?\s*([A-J1-9]|10)\s*\)?\s*[.:)]?")
_LETTER_WITH_TEXT = re.compile(r"(?:\(([A-J])\)|([A-J])[.):])\s*\S.*", re.DOTALL)
_STATED = re.compile(
    r"(?:(?i:answer|choice|option)\**\s*(?i:is|:|=)+\s*|(?i:answer)\s+)[*$\s]*(?i:option\s+)?\(?\s*(?:\\text\{\s*\(?)?([A-J])(?![a-zA-Z'])"
)


def answer_part(text: str, *, thinking: bool) -> str | None:
    """The part of a response that states the answer: what follows the LAST ``</think>``.

    None when ``thinking`` is expected and never closed; the whole text when there is no closing tag to expect.
    """
    _, closing, rest = text.rpartition(THINK_END)
    if closing:
        return rest
    return None if thinking else text


def extract_boxed(text: str) -> str | None:
    r"""Content of the last ``\boxed{…}`` or ``\fbox{…}`` (spaces before the brace allowed); None if there is none,
    if it is empty, or if its brace is never closed (a cut answer is no answer)."""
    boxes = [box.end() for box in _BOX.finditer(text)]
    if not boxes:
        return None
    rest = text[boxes[-1] :]
    content = braced(rest) if rest.startswith("{") else re.split(r"[\s$]", rest, maxsplit=1)[0]
    return content.strip() or None if content is not None else None


def braced(text: str) -> str | None:
    r"""Content of the brace that opens ``text``; ``\{`` and ``\}`` do not count. None if it is never closed."""
    depth, position = 0, 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 2
            continue
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return text[1:position]
        position += 1
    return None


def normalize(answer: str) -> str:
    r"""One spelling for what is typographically the same: spacing, sizing, ``\dfrac``, a lone ``\text{…}``, ``$…$``,
    thousands separators, a final full stop, ``3e8``, ``12^{\text{th}}``. Changes no value."""
    text = answer.strip().strip("$").strip()
    boxed = extract_boxed(text)
    if boxed is not None and _BOX.match(text):
        text = boxed
    text = _SPACED_THOUSANDS.sub(",", text).replace("\\!", "")
    text = _SIZING.sub("", _SPACING.sub(" ", text)).replace("{,}", ",")
    text = text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").replace("\u2212", "-")
    text = re.sub(r"\s+", " ", _ORDINAL.sub("", text)).strip()
    if "\\begin{" in text:  # math-verify reads 1/2 inside a matrix wrongly
        text = re.sub(r"(?<![\w.^)}/])(\d+)/(\d+)(?![\w./^{(\\])", r"\\frac{\1}{\2}", text)
    text = re.sub(r"^\\\$ ?(?=[\d.])", "", text)
    if whole := _TEXT.fullmatch(text):
        text = whole.group(1).strip()
    text = re.sub(r"(?<=[\w}\])])\.$|(?<=\d)\.(?=[/}\\])", "", text)
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "").replace(" ", "")
    if number := _SCIENTIFIC.fullmatch(text):
        text = f"{number.group(1)} \\times 10^{{{int(number.group(2))}}}"
    return text


def same_string(first: str, second: str) -> bool:
    """Equal after `normalize`, blanks and ``\\text`` wrappers aside; a word also with another case."""
    one, other = _letters(first), _letters(second)
    return one == other or (len(one) >= WORD and one.isalpha() and one.casefold() == other.casefold())


def _letters(text: str) -> str:
    return _TEXT.sub(r"\1", normalize(text)).replace(" ", "").rstrip(".")


def compare_numbers(answer: str, gold: str) -> bool | None:
    """True or False where both normalised strings are numbers, with a unit or without, and that settles it, else None.

    Equal values are equal; two unequal integers or fractions of integers are not, nor are two numbers that differ by
    more than `CLOSE`: math-verify rounds to six decimals and would take 4 \\times 10^{-19} for 3 \\times 10^{-19}.
    What is closer is left to its rounding. Numbers with a unit are never found equal here: the units may differ.
    """
    stated, wanted = _number(answer), _number(gold)
    if stated is None or wanted is None:
        return None
    (value, exact, bare), (expected, gold_exact, gold_bare) = stated, wanted
    if value == expected:
        return True if bare and gold_bare else None
    if (exact and gold_exact) or abs(value - expected) > CLOSE * max(abs(value), abs(expected)):
        return False
    return None


def _number(text: str) -> tuple[Fraction, bool, bool] | None:
    """Value of a normalised integer, decimal, fraction or ``a \\times 10^{b}``; whether it is exact; has no unit."""
    if len(text) > LONGEST_NUMBER:
        return None
    number = _UNIT.sub("", text)
    bare = number == text
    if _DECIMAL.fullmatch(number):
        return Fraction(number), "." not in number, bare
    if scientific := _POWER_OF_TEN.fullmatch(number):
        factor, braced_power, power = scientific.groups()
        return Fraction(factor or 1) * Fraction(10) ** int(braced_power or power), False, bare
    if fraction := _FRACTION.fullmatch(number):
        sign, *parts = (part for part in fraction.groups() if part is not None)
        over, under = map(int, parts)
        return (Fraction(-over if sign == "-" else over, under), True, bare) if under else None
    return None


def reconcile(answer: str, gold: str) -> tuple[str, str]:
    """Rewrite a normalised pair so that a sound difference of form is none (math-verify's false negatives).

    An option label before the value (``B. 12``), a number written in a small base (``10_2`` where the gold is a plain
    number, or has the same digits and left the base to the problem), a chained inequality or ``x \\in`` where the gold
    is an interval.
    """
    bare = _TEXT.sub(r"\1 ", answer)
    label = _LABELLED.match(bare)
    if label and not _LABELLED.match(gold):
        answer = label.group(1) if re.fullmatch(r"\(?[A-J]\)?", gold) else bare[label.end() :].strip()
    based = _BASED.fullmatch(answer)
    if based and _DECIMAL.fullmatch(gold) and 2 <= int(based.group(2)) <= 10 and len(based.group(1)) <= 200:
        value, base = based.groups()
        if all(int(digit) < int(base) for digit in value):
            answer = value if value == gold and len(value) >= SAME_DIGITS else str(int(value, int(base)))
    if gold[:1] in "[(" and gold[-1:] in "])" and "," in gold:
        answer = _interval(answer)
    elif answer[:1] in "[(" and answer[-1:] in "])" and "," in answer:
        gold = _interval(gold)
    return answer, gold


def percent_forms(answer: str, gold: str) -> list[tuple[str, str]]:
    """The pairs to compare when one side of a normalised pair is a percentage: ``50\\%`` is 0.5 and, loosely, 50.

    Done here because latex2sympy's parser for antlr 4.9 (the training interpreter's) cannot read a percent sign.
    """
    percent = [_PERCENT.fullmatch(side) for side in (answer, gold)]
    if percent[0] and percent[1]:
        return [(percent[0].group(1), percent[1].group(1))]
    if percent[0]:
        return [(_hundredth(percent[0].group(1)), gold), (percent[0].group(1), gold)]
    if percent[1]:
        return [(answer, _hundredth(percent[1].group(1))), (answer, percent[1].group(1))]
    return [(answer, gold)]


def _hundredth(text: str) -> str:
    return f"{Decimal(text) / 100:f}" if _DECIMAL.fullmatch(text) and len(text) < 20 else f"\\frac{{{text}}}{{100}}"


def _interval(text: str) -> str:
    text = _MEMBER.sub("", text, count=1) if _MEMBER.match(text) else text
    if bounds := _BETWEEN.fullmatch(text):
        low, left, right, high = bounds.groups()
        return f"{'(' if left == '<' else '['}{low.strip()},{high.strip()}{')' if right == '<' else ']'}"
    return text


def contradiction(answer: str, gold: str) -> str | None:
    """Why a normalised pair cannot be the same although symbolic comparison would accept it, or None.

    Guards against math-verify's false positives: another kind of bracket, number base or unit.
    """
    if {_bracket(answer), _bracket(gold)} == {"set", "tuple"}:
        return "a set is not a tuple"
    based, expected = _BASED.fullmatch(answer), _BASED.fullmatch(gold)
    if based and (expected or _DECIMAL.fullmatch(gold)) and not (expected and based.groups() == expected.groups()):
        return "another number or another base"
    units = [_unit(_QUANTITY.fullmatch(side)) for side in (answer, gold)]
    if all(units) and units[0] != units[1]:
        return f"units differ: {units[0]} and {units[1]}"
    return None


def _bracket(text: str) -> str | None:
    if text.startswith("\\{") and text.endswith("\\}") and "," in text:
        return "set"
    return "tuple" if text.startswith("(") and text.endswith(")") and "," in text else None


def _unit(quantity: re.Match[str] | None) -> str | None:
    if quantity is None:
        return None
    name = (quantity.group(1) or quantity.group(2)).strip(" .").lower()
    return (name[:-1] if len(name) > 3 and name.endswith("s") else name) + (quantity.group(3) or "")


def extract_choice(text: str) -> str | None:
    r"""The option a response chose: ``\boxed{C}``, ``\boxed{(C) text}``, else the last ``ANSWER: C``."""
    boxed = extract_boxed(text)
    if boxed is not None:
        content = _TEXT.sub(r"\1", normalize(boxed)).strip()
        if match := _LETTER.fullmatch(content):
            return match.group(1)
        if match := _LETTER_WITH_TEXT.fullmatch(content):
            return match.group(1) or match.group(2)
        stated = _STATED.search(content)
        return stated.group(1) if stated else content
    stated = _STATED.findall(text)
    return stated[-1] if stated else None


def same_choice(answer: str, gold: str) -> bool:
    """Whether two option labels are the same; a gold labelled 1-10 also accepts the letter in that place.

    A digit against a gold letter stays wrong: it is more often an option's value than its place.
    """
    gold = gold.strip().strip("()").upper()
    if gold.isdigit():
        return answer == gold or answer == "ABCDEFGHIJ"[int(gold) - 1 : int(gold)]
    return answer == gold
