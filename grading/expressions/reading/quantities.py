r"""Read a value: a number, an expression, quantities with units, a ratio, a range or a time of day."""

from core.text.patterns import compile_full_match
from grading.expressions.answer_tokens import Unread, divide, tokens
from grading.expressions.forms import LARGEST_BASE, Based, Form, Group, Value, items_of
from grading.expressions.reading.function_names import with_functions
from grading.expressions.reading.prose import as_words, prose_of
from grading.expressions.reading.terms import read_term
from grading.expressions.reading.wording import TO, with_base
from grading.expressions.unit_names import DEGREE
from grading.expressions.units import split_unit
from grading.vocabulary import FUNCTIONS

_BASED = compile_full_match(r"(\d{1,200}|(?=[A-Z]{0,200}\d)[\dA-Z]{2,200})_ ?\{? ?(\d{1,4}) ?\}?")
_DECIMAL = compile_full_match(r"[+-]?\d*\.(\d+)")
_CLOCK = compile_full_match(r"\d{1,2}(?: ?: ?\d\d){1,2}")
_DOUBLE = {"\\pm": "+-", "\\mp": "-+"}


def read_value(parts: list[str]) -> Form:
    """Read what has neither a relation nor a comma outside its brackets."""
    text = with_base("".join(parts).strip())
    if (based := _BASED(text)) and (based.group(1).isdigit() or _are_digits(*based.groups())):
        return Based(based.group(1), int(based.group(2)))
    rest, unit, power = split_unit(text)
    if unit == DEGREE and any(part[1:] in FUNCTIONS for part in with_functions(tokens(rest))):
        rest, unit = text, None  # the degrees of an angle in a function
    if unit is None and (words := as_words(prose_of(text), is_text="\\text" in text)):
        return words
    if unit and (form := _several_quantities(rest, text)):
        return form
    parts = with_functions(tokens(rest))
    for sign, kind in ((TO, "to"), (":", "time" if _CLOCK(rest) else "ratio")):
        pieces, signs = divide(parts, (sign,))
        if signs and (sign != TO or len(signs) == 1):
            return Group(kind, tuple(Value(read_term(piece), unit) for piece in pieces))
    if not _DOUBLE.keys().isdisjoint(parts):
        return _both_signs(parts, unit)
    digits = _DECIMAL(rest)
    expression = read_term(parts)
    return Value(
        expression * 10**power if power else expression, unit, len(digits.group(1)) if digits and not power else None
    )


def _are_digits(numeral: str, base: str) -> bool:
    """Return whether digits and letters are all digits of a base between 11 and 36."""
    return 10 < int(base) <= LARGEST_BASE and all(int(digit, LARGEST_BASE) < int(base) for digit in numeral)


def _both_signs(parts: list[str], unit: str | None) -> Form:
    if sum(part in _DOUBLE for part in parts) > 1:
        raise Unread("more than one ±")
    values = ([_DOUBLE[part][which] if part in _DOUBLE else part for part in parts] for which in (0, 1))
    return Group("list", tuple(Value(read_term(value), unit) for value in values))


def _several_quantities(rest: str, text: str) -> Form | None:
    r"""Read ``3 \text{ hours } 20 \text{ minutes}`` and ``4\text{ ft} \times 12\text{ ft}``; None for one quantity."""
    if "\\text" not in rest and not any(character.isalpha() for character in rest.replace("\\times", "")):
        return None
    factors, times = divide(tokens(text), ("\\times", "\\cdot", "*"))
    if times and all("\\text" in "".join(factor) or split_unit("".join(factor))[1] for factor in factors):
        return Group("product", tuple(map(read_value, factors)))
    if "\\text" not in rest:
        return None
    for position in range(len(rest) - 1, 0, -1):
        if rest[position - 1] in "} " and rest[position].isdigit():
            head = rest[:position].strip().removesuffix(",")
            if split_unit(head)[1]:
                quantities = (read_value(tokens(part)) for part in (head, text[position:]))
                return Group("quantity", tuple(item for form in quantities for item in items_of(form)))
    raise Unread("words in a formula")
