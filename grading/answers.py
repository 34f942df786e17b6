"""Answers as strings: where a response states its answer, and when two spellings are the same answer.

There is no symbolic algebra here: `grading.equivalence` does that in worker processes. The rule of rewards, targets and
benchmarks is that the answer is in the last box after the last ``</think>``.
"""

from decimal import Decimal
from fractions import Fraction

from core.patterns import Match, compile_full_match, compile_quick_pattern

THINK_END = "</think>"

_BOX = compile_quick_pattern(r"\\(?:boxed|fbox)(?![a-zA-Z])\s*")
_BLANK = compile_quick_pattern(r"\s+")
_BARE_BOX = compile_quick_pattern(r"[^\s$]*")
_SPACING = compile_quick_pattern(r"\\[,;:> ]|\\q?quad(?![a-zA-Z])|~|\\displaystyle(?![a-zA-Z])")
_SIZING = compile_quick_pattern(r"\\(?:left|right|bigg?l?r?|Bigg?l?r?)(?![a-zA-Z])\.?")
_TEXT = compile_quick_pattern(r"\\(?:text|textbf|textrm|textit|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}")
_THOUSANDS = compile_full_match(r"[+-]?\d{1,3}(?:(?:,\d{3})+|(?: \d{3})+)(?:\.\d+)?")
_SPACED_THOUSANDS = compile_quick_pattern(r"(?<=\d),\\!\s*(?=\d{3}(?!\d))")  # in a list the comma stands alone
_QUOTIENT = compile_quick_pattern(r"(?<![\w.^)}/])(\d+)/(\d+)(?![\w./^{(\\])")
_DOLLARS = compile_quick_pattern(r"^\\\$ ?(?=[\d.])")
_FULL_STOP = compile_quick_pattern(r"(?<=[\w}\])])\.$|(?<=\d)\.(?=[/}\\])")
_SCIENTIFIC = compile_full_match(r"([+-]?\d+(?:\.\d+)?)[eE]([+-]?\d{1,4})")
_DECIMAL = compile_full_match(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")
_FRACTION = compile_full_match(r"([+-]?)(?:\\frac ?(?:\{([+-]?\d+)\} ?\{(\d+)\}|(\d)(\d))|(\d+) ?/ ?(\d+))")
_POWER_OF_TEN = compile_full_match(
    r"(?:([+-]?(?:\d+(?:\.\d*)?|\.\d+)) ?(?:\\times|\\cdot) ?)?10 ?\^ ?(?:\{ ?([+-]?\d{1,3}) ?\}|(\d))"
)
_UNIT = compile_quick_pattern(r"(?<=[\d}]) ?\\(?:text|textrm|mathrm|mbox)\s*\{[^{}]*\}$")
_BASED = compile_full_match(r"(\d+)_\{?(\d{1,4})\}?")
_TH = r"\\(?:text|textrm|mathrm|mbox)\s*\{\s*(?:st|nd|rd|th)\s*\}"
_ORDINAL = compile_quick_pattern(rf"(?<=\d)\s*(?:\^\{{\s*{_TH}\s*\}}|\^?{_TH})")
CLOSE = Fraction(1, 1000)
LONGEST_NUMBER = 1000
SAME_DIGITS = 3  # a gold answer of so many digits that an answer repeats with a base is taken to have left the base out
WORD = 3  # letters that make a word; fewer may name points or variables
_QUANTITY = compile_full_match(r"[+-]?[\d.]+\s*(?:\\text\{([a-zA-Z/ .]+)\}|([a-zA-Z]+))(?:\^\{?(-?\d)\}?)?")
_LABELLED = compile_quick_pattern(r"\(?([A-J])[.):]\)?\s*(?=\S)")
_LESS = compile_quick_pattern(r"(<|\\leq?(?![a-zA-Z])|\\leqslant|≤)")
_VARIABLE = compile_full_match(r"\s*[a-zA-Z]\s*")
_MEMBER = compile_quick_pattern(r"[a-zA-Z]\s*\\in\s*(?=[\[(\\{])")

_LETTER = compile_full_match(r"\(?([A-J1-9]|10)\)?[.:)]?")  # without blanks
_OPTION = compile_full_match(r"\(?[A-J]\)?")
_LETTER_WITH_TEXT = compile_full_match(r"(?s)(?:\(([A-J])\)|([A-J])[.):])\s*\S.*")
_POSITIONS = {str(position): letter for position, letter in enumerate("ABCDEFGHIJ", start=1)}
_STATED = compile_quick_pattern(
    r"(?:(?i:answer|choice|option)\**+\s*+(?i:is|:|=)++|(?i:answer)\s)[*$\s]*+(?i:option\s++)?\(?\s*+(?:\\text\{\s*+\(?)?"
    r"([A-J])(?![a-zA-Z'])"
)


def answer_part(text: str, *, thinking: bool) -> str | None:
    """The part of a response that states the answer: everything after the last ``</think>``.

    Without that tag it is None if ``thinking`` is expected, and the whole text otherwise.

    >>> answer_part("<think>2+2=4</think> So 4.", thinking=True)
    ' So 4.'
    >>> answer_part("<think>2+2=", thinking=True) is None
    True
    """
    _, closing, rest = text.rpartition(THINK_END)
    if closing:
        return rest
    return None if thinking else text


def extract_boxed(text: str) -> str | None:
    r"""The content of the last ``\boxed{…}`` or ``\fbox{…}``; spaces before the brace are allowed.

    None if there is no box, if it is empty, or if its brace is never closed: a truncated answer does not count.

    >>> extract_boxed(r"so \boxed{1}, no: \boxed{\frac{1}{2}}")
    '\\frac{1}{2}'
    >>> extract_boxed(r"so \boxed{\frac{1}") is None
    True
    """
    boxes = [box.end() for box in _BOX.finditer(text)]
    if not boxes:
        return None
    rest = text[boxes[-1] :]
    bare = _BARE_BOX.match(rest)
    content = braced(rest) if rest.startswith("{") or bare is None else bare.group()
    return content.strip() or None if content is not None else None


def braced(text: str) -> str | None:
    r"""The content of the brace that opens ``text``, or None if it is never closed; ``\{`` and ``\}`` do not count.

    >>> braced(r"{a{b}\}c} d")
    'a{b}\\}c'
    """
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
    r"""One spelling for answers that differ in typography alone; the value never changes.

    Unified are spacing, sizing, ``\dfrac``, a lone ``\text{…}``, ``$…$``, thousands separators, a final full stop,
    ``3e8`` and ``12^{\text{th}}``.

    >>> [normalize(text) for text in (r"\dfrac12", "1{,}000.", r"\text{ Evelyn }", "3e8", r"12^{\text{th}}")]
    ['\\frac12', '1000', 'Evelyn', '3 \\times 10^{8}', '12']
    """
    text = answer.strip().strip("$").strip()
    boxed = extract_boxed(text)
    if boxed is not None and _BOX.match(text):
        text = boxed
    text = _SPACED_THOUSANDS.sub(",", text).replace("\\!", "")
    text = _SIZING.sub("", _SPACING.sub(" ", text)).replace("{,}", ",")
    text = text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").replace("\u2212", "-")
    text = _BLANK.sub(" ", _ORDINAL.sub("", text)).strip()
    if "\\begin{" in text:  # math-verify reads 1/2 inside a matrix wrongly
        text = _QUOTIENT.sub(r"\\frac{\1}{\2}", text)
    text = _DOLLARS.sub("", text)
    if whole := _TEXT.fullmatch(text):
        text = whole.group(1).strip()
    text = _FULL_STOP.sub("", text)
    if _THOUSANDS(text):
        text = text.replace(",", "").replace(" ", "")
    if number := _SCIENTIFIC(text):
        text = f"{number.group(1)} \\times 10^{{{int(number.group(2))}}}"
    return text


def same_string(first: str, second: str) -> bool:
    r"""Whether two answers are equal after `normalize`, apart from spaces, ``\text`` and the case of words.

    >>> same_string(r"\text{Ellipse}", "ellipse"), same_string("AB", "ab"), same_string("0.5", "1/2")
    (True, False, False)
    """
    one, other = _letters(first), _letters(second)
    return one == other or (len(one) >= WORD and one.isalpha() and one.casefold() == other.casefold())


def _letters(text: str) -> str:
    return _TEXT.sub(r"\1", normalize(text)).replace(" ", "").rstrip(".")


def compare_numbers(answer: str, gold: str) -> bool | None:
    r"""Whether two normalised numbers, with or without units, are equal; None if that cannot be decided here.

    Integers and fractions of integers are equal or not; other numbers are unequal if they differ by more than `CLOSE`.
    math-verify rounds to six decimals and would take ``4 \times 10^{-19}`` for ``3 \times 10^{-19}``; what is closer is
    left to its rounding. Numbers with units are never called equal here, because the units may differ.

    >>> compare_numbers("1/2", "0.5"), compare_numbers("1/3", "1/2"), compare_numbers("x", "2")
    (True, False, None)
    """
    answered, expected = _number(answer), _number(gold)
    if answered is None or expected is None:
        return None
    (value, exact, bare), (gold_value, gold_exact, gold_bare) = answered, expected
    if value == gold_value:
        return True if bare and gold_bare else None
    if (exact and gold_exact) or abs(value - gold_value) > CLOSE * max(abs(value), abs(gold_value)):
        return False
    return None


def _number(text: str) -> tuple[Fraction, bool, bool] | None:
    r"""Value of a normalised integer, decimal, fraction or ``a \times 10^{b}``; whether it is exact; has no unit."""
    if len(text) > LONGEST_NUMBER:
        return None
    number = _UNIT.sub("", text)
    bare = number == text
    if _DECIMAL(number):
        return Fraction(number), "." not in number, bare
    if scientific := _POWER_OF_TEN(number):
        factor, braced_power, power = scientific.groups()
        return Fraction(factor or 1) * Fraction(10) ** int(braced_power or power), False, bare
    if fraction := _FRACTION(number):
        sign, *parts = (part for part in fraction.groups() if part is not None)
        over, under = map(int, parts)
        return (Fraction(-over if sign == "-" else over, under), True, bare) if under else None
    return None


def reconcile(answer: str, gold: str) -> tuple[str, str]:
    r"""Rewrite a normalised pair that differs in form alone, where math-verify would see different answers.

    Rewritten are an option's label before the value (``B. 12``), a number in a small base (``10_2`` where the gold
    answer is a plain number, or has the same digits because the problem states the base), and a chained inequality or
    ``x \in`` where the other side is an interval.

    >>> reconcile("B. 12", "12"), reconcile("10_2", "2"), reconcile(r"1 \le x < 2", "[1,2)")
    (('12', '12'), ('2', '2'), ('[1,2)', '[1,2)'))
    """
    bare = _TEXT.sub(r"\1 ", answer)
    label = _LABELLED.match(bare)
    if label and not _LABELLED.match(gold):
        answer = label.group(1) if _OPTION(gold) else bare[label.end() :].strip()
    based = _BASED(answer)
    if based and _DECIMAL(gold) and 2 <= int(based.group(2)) <= 10 and len(based.group(1)) <= 200:
        value, base = based.groups()
        if all(int(digit) < int(base) for digit in value):
            answer = value if value == gold and len(value) >= SAME_DIGITS else str(int(value, int(base)))
    if gold[:1] in "[(" and gold[-1:] in "])" and "," in gold:
        answer = _interval(answer)
    elif answer[:1] in "[(" and answer[-1:] in "])" and "," in answer:
        gold = _interval(gold)
    return answer, gold


def percent_forms(answer: str, gold: str) -> list[tuple[str, str]]:
    r"""The pairs to compare if one side of a normalised pair is a percentage: ``50\%`` is 0.5 and, loosely, 50.

    math-verify is not asked, because its parser for antlr 4.9 (in the training interpreter) cannot read percent signs.

    >>> percent_forms(r"50\%", "0.5")
    [('0.5', '0.5'), ('50', '0.5')]
    """
    of_answer, of_gold = _percentage(answer), _percentage(gold)
    if of_answer and of_gold:
        return [(of_answer, of_gold)]
    if of_answer:
        return [(_hundredth(of_answer), gold), (of_answer, gold)]
    if of_gold:
        return [(answer, _hundredth(of_gold)), (answer, of_gold)]
    return [(answer, gold)]


def _percentage(text: str) -> str | None:
    """What precedes a percent sign at the end; None if there is none, or nothing before it."""
    number = text.removesuffix("%").removesuffix("\\").rstrip()
    return number if text.endswith("%") and number and not number.endswith("\\") else None


def _hundredth(text: str) -> str:
    return f"{Decimal(text) / 100:f}" if _DECIMAL(text) and len(text) < 20 else f"\\frac{{{text}}}{{100}}"


def _interval(text: str) -> str:
    member = _MEMBER.match(text)
    text = text[member.end() :] if member else text
    parts = _LESS.split(text)
    if len(parts) == 5 and _VARIABLE(parts[2]) and parts[0].strip() and parts[4].strip():
        low, left, _, right, high = parts
        return f"{'(' if left == '<' else '['}{low.strip()},{high.strip()}{')' if right == '<' else ']'}"
    return text


def contradiction(answer: str, gold: str) -> str | None:
    r"""Why a normalised pair differs although math-verify would accept it, or None: brackets, number base or unit.

    >>> contradiction(r"\{1,2\}", "(1,2)"), contradiction(r"5\text{ m}", r"5\text{ cm}"), contradiction("5", "5")
    ('a set is not a tuple', 'units differ: m and cm', None)
    """
    if {_bracket(answer), _bracket(gold)} == {"set", "tuple"}:
        return "a set is not a tuple"
    based, expected = _BASED(answer), _BASED(gold)
    if based and (expected or _DECIMAL(gold)) and not (expected and based.groups() == expected.groups()):
        return "another number or another base"
    units = [_unit(_QUANTITY(side)) for side in (answer, gold)]
    if all(units) and units[0] != units[1]:
        return f"units differ: {units[0]} and {units[1]}"
    return None


def _bracket(text: str) -> str | None:
    if text.startswith("\\{") and text.endswith("\\}") and "," in text:
        return "set"
    return "tuple" if text.startswith("(") and text.endswith(")") and "," in text else None


def _unit(quantity: Match | None) -> str | None:
    if quantity is None:
        return None
    name = (quantity.group(1) or quantity.group(2)).strip(" .").lower()
    return (name[:-1] if len(name) > 3 and name.endswith("s") else name) + (quantity.group(3) or "")


def extract_choice(text: str) -> str | None:
    r"""The option that a response chose: ``\boxed{C}``, ``\boxed{(C) text}``, or else the last ``ANSWER: C``.

    >>> [extract_choice(text) for text in (r"\boxed{(C) blue}", "ANSWER: A, no, ANSWER: B", "It is A, I think")]
    ['C', 'B', None]
    """
    boxed = extract_boxed(text)
    if boxed is not None:
        content = _TEXT.sub(r"\1", normalize(boxed)).strip()
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
