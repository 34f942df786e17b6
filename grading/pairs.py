"""Pairs of normalised answers: what can be said of them as strings, and how to write them so that algebra can compare.

There is no symbolic algebra here: `grading.equivalence` does that in worker processes. Every function treats its two
sides alike: which of them is the gold answer makes no difference.
"""

from decimal import Decimal
from fractions import Fraction

from core.text.patterns import compile_full_match, compile_quick_pattern
from grading.spelling import TEXT, UNIT_NAMES

_DECIMAL = compile_full_match(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")
_FRACTION = compile_full_match(r"([+-]?)(?:\\frac ?(?:\{([+-]?\d+)\} ?\{(\d+)\}|(\d)(\d))|(\d+) ?/ ?(\d+))")
_POWER_OF_TEN = compile_full_match(
    r"(?:([+-]?(?:\d+(?:\.\d*)?|\.\d+)) ?(?:\\times|\\cdot) ?)?10 ?\^ ?(?:\{ ?([+-]?\d{1,3}) ?\}|(\d))"
)
UNIT = compile_quick_pattern(r"(?<=[\d}]) ?\\(?:text|textrm|mathrm|mbox)\s*\{[^{}]*\}$")
_BASED = compile_full_match(r"(\d+)_\{?(\d{1,4})\}?")
CLOSE = Fraction(1, 1000)
LONGEST_NUMBER = 1000
SAME_DIGITS = 3  # so many digits that one side repeats with a base mean that the other has left the base out
_QUANTITY = compile_full_match(r"[+-]?[\d.]+\s*(?:\\text\{([a-zA-Z/ .]+)\}|([a-zA-Z]+))(?:\^\{?(-?\d)\}?)?")
_LABELLED = compile_quick_pattern(r"\(?([A-J])[.):]\)?\s*(?=\S)")
_OPTION = compile_full_match(r"\(?[A-J]\)?")
_LESS = compile_quick_pattern(r"(<|\\leq?(?![a-zA-Z])|\\leqslant|≤)")
_VARIABLE = compile_full_match(r"\s*[a-zA-Z]\s*")
_MEMBER = compile_quick_pattern(r"[a-zA-Z]\s*\\in\s*(?=[\[(\\{])")


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
    number = UNIT.sub("", text)
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
    answer, gold = _without_label(answer, gold), _without_label(gold, answer)
    answer, gold = _in_base_ten(answer, gold), _in_base_ten(gold, answer)
    answer, gold = _as_tuple(answer, gold), _as_tuple(gold, answer)
    if gold[:1] in "[(" and gold[-1:] in "])" and "," in gold:
        answer = _interval(answer)
    elif answer[:1] in "[(" and answer[-1:] in "])" and "," in answer:
        gold = _interval(gold)
    return answer, gold


def _without_label(text: str, other: str) -> str:
    """``text`` without the label of an option; only the label if ``other`` is one."""
    bare = TEXT.sub(r"\1 ", text)
    label = _LABELLED.match(bare)
    if label is None or _LABELLED.match(TEXT.sub(r"\1 ", other)):
        return text
    return label.group(1) if _OPTION(other) else bare[label.end() :].strip()


def _in_base_ten(text: str, other: str) -> str:
    """The value of a number in a base up to ten beside a plain number."""
    based = _BASED(text)
    if based is None or not _DECIMAL(other) or not 2 <= int(based.group(2)) <= 10 or len(based.group(1)) > 200:
        return text
    value, base = based.groups()
    if any(int(digit) >= int(base) for digit in value):
        return text
    return value if value == other and len(value) >= SAME_DIGITS else str(int(value, int(base)))


def _as_tuple(text: str, other: str) -> str:
    """A bare list beside a tuple, in parentheses: its order counts, too."""
    bare = "," in text and _bracket(other) == "tuple" and not any(bracket in text for bracket in "()[]{}=<>")
    return f"({text})" if bare else text


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
    numbers = [based.groups() if (based := _BASED(side)) else _DECIMAL(side) and side for side in (answer, gold)]
    if all(numbers) and (_BASED(answer) or _BASED(gold)) and numbers[0] != numbers[1]:
        return "another number or another base"
    units = [unit(side) for side in (answer, gold)]
    if all(units) and units[0] != units[1]:
        return f"units differ: {units[0]} and {units[1]}"
    return None


def _bracket(text: str) -> str | None:
    if text.startswith("\\{") and text.endswith("\\}") and "," in text:
        return "set"
    return "tuple" if text.startswith("(") and text.endswith(")") and "," in text else None


def unit(text: str) -> str | None:
    """The unit of a number with one, under its short name; None for any other text."""
    quantity = _QUANTITY(text)
    if quantity is None:
        return None
    name = (quantity.group(1) or quantity.group(2)).strip(" .").lower()
    name = name[:-1] if len(name) > 3 and name.endswith("s") else name
    return UNIT_NAMES.get(name, name) + (quantity.group(3) or "")
