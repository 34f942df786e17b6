"""Recompute the equations of whole texts: sums, differences, products and exact quotients of two numbers."""

from collections.abc import Iterator
from fractions import Fraction

from core.text.patterns import Match, compile_quick_pattern

NUMBER = r"(?:\d{1,3}(?:,\d{3})++|\d++)(?:\.\d++)?+"
OPERATORS = {"times": "*", "cdot": "*", "div": "/", "x": "*", "×": "*", "·": "*", "⋅": "*", "÷": "/", "−": "-"}
TERM = compile_quick_pattern(rf"(?<![\w.,:^])({NUMBER}) ?(?:([-+*/x×·⋅÷−])|\\(times|cdot|div)) ?({NUMBER}) ?$")
RESULT = compile_quick_pattern(
    rf"(?<!\d) ?([-−]?)({NUMBER})"
    r"(?![\w%^!√°]|\\[a-zA-Z]|[.,:]\d| ?[-+*/×·⋅÷−(√^]| ?\\(?:times|cdot|div|pm|frac|sqrt)|"
    r" \w{1,2}\b| ?\(?(?:mod|rem|base))"
)
LONGER = compile_quick_pattern(r"(?:[-+*/×·⋅÷−^%)\]}√]|\\[a-zA-Z]{1,8})$")  # before it: it is the end of a longer term
LONGEST_TERM = 40


def wrong_equations(text: str) -> Iterator[str]:
    """The equations of ``text`` that do not hold.

    What stands in a longer term is left out, and so are quotients that are no whole numbers: they are rounded, or have
    a remainder. Decimals may differ by one in their last place.

    >>> list(wrong_equations("47 × 66 = 3112, 2 + 3 = 5, 2 * 3 + 4 = 10, 7/2 = 3"))
    ['47 × 66 = 3112']
    """
    sign = text.find("=", 2)
    while sign > 0:
        if (text[sign - 1].isdigit() or text[sign - 2].isdigit()) and (result := RESULT.match(text, sign + 1)):
            term = TERM.search(text, max(0, sign - LONGEST_TERM), sign)
            before = text[max(0, term.start() - 9) : term.start()].rstrip() if term else ""
            if term and not LONGER.search(before) and not _holds(term, result):
                yield text[term.start() : result.end()]
        sign = text.find("=", sign + 1)


def _holds(term: Match, result: Match) -> bool:
    first, second, stated = (Fraction(text.replace(",", "")) for text in (term[1], term[4], result[2]))
    written = term[2] or term[3]
    operator = OPERATORS.get(written, written)
    if operator == "/":
        right = first / second if second else None
        if right is None or right.denominator != 1:
            return True
    else:
        right = {"+": first + second, "-": first - second, "*": first * second}[operator]
    places = len(result[2].partition(".")[2])
    margin = Fraction(1, 10**places) if "." in term[1] or "." in term[4] else 0
    return abs(right - (-stated if result[1] else stated)) <= margin
