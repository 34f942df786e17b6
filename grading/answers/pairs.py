"""Compare normalised answers that need no algebra: plain numbers, and options with their values.

Which of the two sides is the gold answer makes no difference.
"""

from fractions import Fraction

from core.text.patterns import compile_full_match, compile_quick_pattern
from grading.answers.spelling import TEXT
from grading.vocabulary import PLAIN_DIGITS

LONGEST_NUMBER = 1_100
_DECIMAL = compile_full_match(r"[+-]?(?:\d+(?:\.(\d*))?|\.(\d+))")
_FRACTION = compile_full_match(
    r"([+-]?)(?:\\frac ?(?:\{([+-]?\d+)\} ?\{(\d+)\}|(\d)(\d))|(\d|[1-9]\d+) ?/ ?([1-9]\d*))"
)
_POWER_OF_TEN = compile_full_match(
    r"(?:([+-]?(?:\d+(?:\.\d*)?|\.\d+)) ?(?:\\times|\\cdot) ?)?10 ?\^ ?(?:\{ ?([+-]?\d{1,3}) ?\}|(\d))"
)
_BEHIND = r"(?:[^\d,]|(?<=\^)\d|(?<=\^\{)\d){0,60}"  # a unit
_COMMA = compile_full_match(
    rf"([^\d,([{{]{{0,30}})(\d{{1,3}}(?:[ .]\d{{3}}){{1,9}}|\d{{1,30}}),(\d{{1,30}})({_BEHIND})"
)
_POINT = compile_full_match(rf"[^\d,]{{0,30}}\d{{0,30}}\.\d{{1,30}}{_BEHIND}")
_WITH_UNIT = compile_full_match(r"\d[\d. ]{0,30},\d{1,30} ?(?:\\text ?\{ ?)?[^\W\d].*")
_LABELLED = compile_quick_pattern(r"\(?([A-J])[.):]\)?\s*(?=\S)")
_OPTION = compile_full_match(r"\(?[A-J]\)?")


def compare_numbers(answer: str, gold: str) -> bool | None:
    r"""Return whether two normalised numbers are equal; None if one of them is no plain number.

    They are compared exactly, but a decimal number with `PLAIN_DIGITS` digits after its point or more also stands for
    the fraction that it rounds or cuts.

    >>> compare_numbers("1/2", "0.5"), compare_numbers("1/3", "0.333333"), compare_numbers("x", "2")
    (True, True, None)
    >>> compare_numbers("0.3333334", "1/3"), compare_numbers(r"4 \times 10^{-19}", r"3 \times 10^{-19}")
    (False, False)
    """
    answered, expected = _number(answer), _number(gold)
    if answered is None or expected is None:
        return None
    (value, digits), (gold_value, gold_digits) = answered, expected
    if value == gold_value:
        return True
    if (digits is None) == (gold_digits is None):
        return False
    return _rounds(value, digits, gold_value) if digits is not None else _rounds(gold_value, gold_digits or 0, value)


def with_decimal_point(answer: str, gold: str) -> str:
    """Return an answer such as ``3,5`` with a point, if the gold answer is one number and this may be its spelling.

    >>> with_decimal_point("3,5", "3.5"), with_decimal_point("3,5", "3, 5"), with_decimal_point("0,125", "1/8")
    ('3.5', '3,5', '0.125')
    """
    if "," not in answer or "," in gold or not (number := _COMMA(answer)):
        return answer
    before, whole, decimals, behind = number.groups()
    if not _POINT(gold) and whole != "0" and (decimals.strip("0") or len(decimals) == 3):
        return answer
    return f"{before}{whole.replace(' ', '').replace('.', '')}.{decimals}{behind}"


def with_decimal_points(answer: str, gold: str) -> tuple[str, str]:
    """Return an answer and a gold answer with points for the decimal commas of either; a gold answer needs a unit.

    >>> with_decimal_points("2.5 kg", "2,5 kg"), with_decimal_points("2.5", "2,5")
    (('2.5 kg', '2.5 kg'), ('2.5', '2,5'))
    """
    if _WITH_UNIT(gold) and "," not in answer:
        gold = with_decimal_point(gold, answer)
    return with_decimal_point(answer, gold), gold


def is_number(text: str) -> bool:
    """Return whether a normalised text is a number that `compare_numbers` compares."""
    return _number(text) is not None


def _rounds(decimal: Fraction, digits: int, value: Fraction) -> bool:
    """Return whether a decimal number is ``value``, rounded or cut after ``digits`` digits."""
    if digits < PLAIN_DIGITS or abs(value - decimal) * 1000 > abs(decimal):
        return False
    scaled = abs(value) * 10**digits
    rounded, cut = int(scaled + Fraction(1, 2)), int(scaled)
    return abs(decimal) * 10**digits in (rounded, cut) and decimal * value > 0


def _number(text: str) -> tuple[Fraction, int | None] | None:
    r"""Return the value of a normalised number or fraction or ``a \times 10^{b}``, and the digits after its point."""
    if len(text) > LONGEST_NUMBER:
        return None
    if decimal := _DECIMAL(text):
        digits = decimal.group(1) or decimal.group(2)
        return Fraction(text), len(digits) if digits else None
    if scientific := _POWER_OF_TEN(text):
        factor, braced_power, power = scientific.groups()
        return Fraction(factor or 1) * Fraction(10) ** int(braced_power or power), None
    if fraction := _FRACTION(text):
        sign, *parts = (part for part in fraction.groups() if part is not None)
        over, under = map(int, parts)
        return (Fraction(-over if sign == "-" else over, under), None) if under else None
    return None


def without_label(text: str, other: str) -> str:
    """Return ``text`` without the label of an option (``B. 12``); only the label if ``other`` is one.

    >>> without_label("B. 12", "12"), without_label("B. 12", "B"), without_label("B. 12", "B. 13")
    ('12', 'B', 'B. 12')
    """
    bare = TEXT.sub(r"\1 ", text)
    label = _LABELLED.match(bare)
    if label is None or _LABELLED.match(TEXT.sub(r"\1 ", other)):
        return text
    return label.group(1) if _OPTION(TEXT.sub(r"\1", other).strip()) else bare[label.end() :].strip()
