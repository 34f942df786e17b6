r"""Read a normalised answer completely into a form.

`read` takes the text apart at the signs that divide it (commas, brackets, relations, set operations) and has each piece
read by `grading.expressions.terms`. What has a part that nothing reads is not read at all; there is no fallback.
"""

from functools import lru_cache

from sympy import S

from core.text.patterns import Match, compile_full_match, compile_quick_pattern
from grading.expressions.answer_tokens import TEXT, Unread, divide, enclosed, strip, tokens
from grading.expressions.forms import (
    LARGEST_BASE,
    Based,
    Builder,
    Congruence,
    Form,
    Group,
    Region,
    Relation,
    Value,
    Words,
)
from grading.expressions.names import is_abbreviation, name_of
from grading.expressions.regions import numbers_of
from grading.expressions.terms import read_term, with_functions
from grading.expressions.units import DEGREE, split_unit
from grading.expressions.wording import TO, in_signs, label_of, unwrap, with_base
from grading.vocabulary import FUNCTIONS, WORD, is_word

MOST_ITEMS = 200
RELATIONS = {
    "=": "=", "<": "<", ">": ">", "\\le": "<=", "\\ge": ">=", "\\neq": "!=", "\\in": "in", "\\notin": "notin",
    "\\equiv": "equiv", "\\approx": "approx",
}  # fmt: skip
MODULO = ("\\pmod", "\\bmod", "\\mod")
SET_OPERATIONS = ("\\cup", "\\cap", "\\setminus", "\\backslash")
NUMBER_SETS = {
    f"\\mathbb{{{letter}}}": name
    for letter, name in zip("NZQRC", ("Naturals", "Integers", "Rationals", "Reals", "Complexes"), strict=True)
}
DOTS = ("\\ldots", "\\cdots", "\\dots", "...")
WHERE = "\\where"  # stands for a word before the conditions of a formula
_CONDITIONAL = frozenset(("for", "where", "if", "when", "with"))
_JUNCTIONS = {"or": " \\lor ", "and": " \\land "}
DOT_WORDS = Words("...")

_PROSE = compile_full_match(r"[a-zA-Z][a-zA-Z '\-]*[a-zA-Z.!?]")
_JOIN = compile_quick_pattern(r"(?<![a-zA-Z\\{])(and|or)(?![a-zA-Z}])")
_CONSTANT = compile_quick_pattern(r"(?<![a-zA-Z\\])C ?_(?= ?\{? ?\d)")
_SMALL_CONSTANT = compile_quick_pattern(r"(?<![a-zA-Z\\])c ?_ ?\{? ?\d")
_BASED = compile_full_match(r"(\d{1,200}|(?=[A-Z]{0,200}\d)[\dA-Z]{2,200})_ ?\{? ?(\d{1,4}) ?\}?")
_DECIMAL = compile_full_match(r"[+-]?\d*\.(\d+)")
_OPTION = compile_full_match(r"\(?([A-J])[.):]\)? (\S.*)")
_NO_SOLUTION = compile_full_match(
    r"(?:there (?:is|are) )?no (?:real |integer )?(?:solutions?|roots?)(?: exists?)?\.?|no (?:real )?values?|none\.?"
)
_CLOCK = compile_full_match(r"\d{1,2}(?: ?: ?\d\d){1,2}")


@lru_cache(maxsize=4096)
def read(text: str) -> Form | None:
    """Return the form of a normalised answer; None if a part of it cannot be read."""
    try:
        return _read(text)
    except Unread:
        return None


def _read(text: str) -> Form:
    text = unwrap(text)
    prose = " ".join(TEXT.sub(r"\1", text).split())
    if (spoken := in_signs(prose)) and (form := _read_spoken(spoken)):
        return form
    if _NO_SOLUTION(prose.lower()):
        return Group("set", ())
    if option := _OPTION(prose):
        return Group("()", (Words(option.group(1)), _read(option.group(2))))
    whole_text = TEXT.fullmatch(text)
    if _PROSE(prose) and (whole_text or _is_word(prose)):
        return Words(_folded(prose).rstrip(".!?"))
    if not _SMALL_CONSTANT.search(text):
        text = _CONSTANT.sub("c_", text)  # the case of c_1 in a general solution means nothing
    text = _JOIN.sub(lambda word: _JUNCTIONS[word.group()], TEXT.sub(_joined, text))
    text = text.replace("\\vee", "\\lor").replace("\\wedge", "\\land")
    return _read_list(tokens(text.strip()))


def _read_spoken(signs: str) -> Form | None:
    """Read words that stand for signs; None if what follows a number word is no unit."""
    try:
        form = _read(signs)
    except Unread:
        return None
    return form if not isinstance(form, Value) or form.expression.is_Integer or form.expression.is_infinite else None


def _joined(words: Match) -> str:
    r"""Return ``\text{ cm or }`` as the unit and a sign of its own."""
    first, _, last = words.group(1).strip().rpartition(" ")
    if words.group(1).strip(" ,") in _CONDITIONAL:
        return f" {WHERE} "
    if last not in _JUNCTIONS:
        return words.group()
    return (f"\\text{{ {first}}}" if first else "") + _JUNCTIONS[last]


def _folded(prose: str) -> str:
    """Return prose in small letters, but for letters that are no word, such as ``HTHT``: their case counts."""
    return " ".join(
        word.casefold() if len(word) < WORD or is_word("".join(filter(str.isalpha, word))) else word
        for word in prose.split()
    )


def _is_word(text: str) -> bool:
    """Return whether letters are a word and not a product.

    A word has four of them, or three with a vowel, or is a series of capitals with a repetition, such as ``HTT``.
    """
    return text.lower() == "no" or (
        any(
            len(word) >= 4
            or (len(word) == WORD and word.isupper() and len(set(word)) < WORD)
            or (len(word) == 3 and any(letter in "aeiouAEIOU" for letter in word) and word not in ("abc",))
            for word in text.replace("-", " ").split()
        )
        and not any(
            word in ("sin", "cos", "tan", "log", "exp", "sqrt", "arctg", "arcsin", "arccos", "arctan")
            for word in text.split()
        )
    )


def _read_list(parts: list[str]) -> Form:
    """Read parts with commas, semicolons, "and" or "or" between them, or a single part."""
    parts = strip(parts)
    pieces, signs = divide(parts, (WHERE,))
    if signs:
        return _read_conditions(pieces, signs)
    for separators in (("\\lor",), ("\\land",), (";",), (",",)):
        pieces, signs = divide(parts, separators)
        if signs:
            pieces = [piece for piece in pieces if piece or separators != (",",)]
            if len(pieces) > MOST_ITEMS or not all(pieces):
                raise Unread("a list with nothing between its commas")
            return _grouped(separators[0], [_read_list(piece) for piece in pieces])
    return _read_item(parts)


def _read_conditions(pieces: list[list[str]], signs: list[str]) -> Form:
    r"""Read a formula and the conditions behind it as a list: ``2n+1 \text{ for } n \ge 1`` as ``2n+1, n \ge 1``."""
    formula, *rest = (_read_list(_without_comma(piece)) for piece in pieces)
    conditions = [item for form in rest for item in (form.items if isinstance(form, Group) else (form,))]
    if len(signs) > 1 or isinstance(formula, Group) or not all(isinstance(item, Relation) for item in conditions):
        raise Unread("no conditions")
    return Group("list", (formula, *conditions))


def _without_comma(piece: list[str]) -> list[str]:
    return strip(piece[:-1]) if piece[-1:] == [","] else piece


def _grouped(separator: str, items: list[Form]) -> Form:
    """Make a list; ``x = 1, 2`` names its values, nested lists are its items, and dots give it an order."""
    flat: list[Form] = []
    for item in items:
        flat += item.items if isinstance(item, Group) and item.kind in ("list", "sequence") else [item]
    first = flat[0]
    if isinstance(first, Relation) and first.name and all(isinstance(item, Value) for item in flat[1:]):
        flat = [first, *(Relation(first.signs, (first.sides[0], item), first.name) for item in flat[1:])]
    if len(flat) == 1:
        return flat[0]
    if separator in ("\\lor", "\\land") and any(isinstance(item, Relation) and item.signs != ("=",) for item in flat):
        return Group(separator[1:], tuple(flat))
    return Group("sequence" if DOT_WORDS in flat else "list", tuple(flat), _junction(separator, items, flat))


def _junction(separator: str, items: list[Form], flat: list[Form]) -> str | None:
    """Return how the items of a list are joined; None if "and" means the same as "or", as between solutions."""
    if flat == items and len({item.name if isinstance(item, Relation) else None for item in flat} - {None}) > 1:
        return "lor" if separator == "\\lor" else "land"
    are_symbols = all(isinstance(item, Value) and item.expression.is_Symbol for item in flat)
    return separator[1:] if are_symbols and separator in ("\\lor", "\\land") else None


def _read_item(parts: list[str]) -> Form:
    if not parts:
        raise Unread("nothing there")
    if "".join(parts) in DOTS:
        return DOT_WORDS
    if parts[0] == "=":
        return _read_item(strip(parts[1:]))
    if label := label_of(parts):
        return _read_relation(list(label), ["="])
    sides, signs = divide(parts, RELATIONS)
    if signs:
        return _read_relation(sides, signs)
    if position := _modulus(parts):
        if parts[-1] != ")" and parts[position] != "\\pmod":
            return _read_remainder(parts, position)
        return _read_congruence([], parts, position)
    operands, operations = divide(parts, SET_OPERATIONS)
    if operations:
        return _read_region(operands, operations)
    literal = "".join(parts).strip()
    if literal in NUMBER_SETS:
        return Region(getattr(S, NUMBER_SETS[literal]))
    if literal == "\\emptyset":
        return Group("set", ())
    if enclosed(parts) and (form := _read_bracket(parts)):
        return form
    if "".join(parts[:8]) == "\\begin{cases}" and enclosed(parts[:-7]):
        return _read_pieces(parts[8:-8])
    return _read_value(parts)


def _read_pieces(parts: list[str]) -> Form:
    """Read the lines of a function in pieces, each of which has a value and its condition."""
    rows: list[Form] = []
    for row in divide(parts, ("\\\\",))[0]:
        cells, _ = divide(row, ("&",))
        if row and len(cells) != 2:
            raise Unread("a piece without a condition")
        if row:
            value, condition = (strip([part for part in _without_comma(cell) if part != WHERE]) for cell in cells)
            rows.append(Group("()", (_read_item(value), _read_condition(condition))))
    return Group("piecewise", tuple(rows))


def _read_condition(parts: list[str]) -> Form:
    r"""Read the condition of a piece: relations, or words such as ``n \text{ is even}``."""
    words = TEXT.sub(r" \1 ", "".join(parts)).lower().split()
    if not words or any(map(TEXT.fullmatch, parts)) or all(map(str.isalpha, words)):
        return Words(" ".join(word for word in words if word not in ("is", "if", "for")))
    return _read_list(parts)


def _read_bracket(parts: list[str]) -> Form | None:
    """Read a set, a tuple or an interval; None for a bracket around one expression."""
    inside = strip(parts[1:-1])
    opening, end = parts[0], parts[-1]
    if (opening, end) == ("\\{", "\\}"):
        return _read_set(inside)
    if (opening, end) == ("{", "}"):
        return _read_list(inside)
    if opening not in ("(", "[", "\\langle") or end not in (")", "]", "\\rangle"):
        return None
    pieces, commas = divide(inside, (",", ";"))
    if not commas:
        is_matrix = inside[:1] == ["\\begin"]
        return _read_list(inside) if is_matrix or (opening == "(" and end == ")") else None
    if not all(pieces):
        raise Unread("a tuple with nothing between its commas")
    brackets = ("(" if opening == "\\langle" else opening) + (")" if end == "\\rangle" else end)
    if brackets == "[]" and len(pieces) > 2:
        brackets = "()"  # no interval
    return _expanded(brackets, [_read_item(piece) for piece in pieces])


def _expanded(brackets: str, items: list[Form]) -> Form:
    """Read a tuple; the two tuples if one of its items is a pair of values ``a \\pm b``."""
    double = [position for position, item in enumerate(items) if isinstance(item, Group) and item.kind == "list"]
    if not double:
        return Group(brackets, tuple(items))
    (position,) = double if len(double) == 1 else (None,)
    if position is None:
        raise Unread("more than one ± in a tuple")
    item = items[position]
    assert isinstance(item, Group)
    return Group(
        "list", tuple(Group(brackets, (*items[:position], value, *items[position + 1 :])) for value in item.items)
    )


def _read_set(inside: list[str]) -> Form:
    for separators in (("\\mid",), ("|",), (":",)):
        pieces, signs = divide(inside, separators)
        if signs and (separators != ("|",) or len(signs) % 2):
            element, conditions = pieces[0], inside[inside.index(separators[0]) + 1 :]
            return Builder(_read_item(element), _read_list(strip(conditions)))
    if not inside:
        return Group("set", ())
    form = _read_list(inside)
    items = form.items if isinstance(form, Group) and form.kind in ("list", "sequence") else (form,)
    return Group("sequence" if DOT_WORDS in items else "set", items)


def _read_region(operands: list[list[str]], operations: list[str]) -> Form:
    numbers = [numbers_of(_read_item(operand)) for operand in operands]
    if any(region is None for region in numbers):
        raise Unread("no set of numbers")
    result = numbers[0]
    for operation, region in zip(operations, numbers[1:], strict=True):
        if operation == "\\cup":
            result = result.union(region)
        elif operation == "\\cap":
            result = result.intersect(region)
        else:
            result = result - region
    return Region(result)


def _read_relation(sides: list[list[str]], signs: list[str]) -> Form:
    kinds = tuple(RELATIONS[sign] for sign in signs)
    if kinds == ("approx",) and not sides[0]:
        sides = [["\\text{value}"], sides[1]]
    if not all(sides):
        raise Unread("a relation without one of its sides")
    if kinds == ("=",) and name_of(sides[1]) and not name_of(sides[0]):
        sides = sides[::-1]
    if kinds[-1] in ("equiv", "=") and (position := _modulus(sides[-1])):
        if len(sides) != 2:
            raise Unread("a chain of congruences")
        return _read_congruence(sides[0], sides[-1], position)
    if kinds == ("equiv",) and sides[0][-1] == ")" and name_of(sides[0]):
        kinds = ("=",)  # of a function
    if "equiv" in kinds or "approx" in kinds[:-1]:
        raise Unread("a relation that is not compared")
    name = name_of(sides[0])
    first = _named(sides[0], name) if name else _read_item(sides[0])
    forms = (first, *(_read_item(side) for side in sides[1:]))
    if any(isinstance(form, Relation | Congruence) for form in forms):
        raise Unread("a relation in a relation")
    if kinds == ("=",) and isinstance(forms[1], Group) and forms[1].kind == "list":  # x = ±2
        return Group("list", tuple(Relation(kinds, (first, value), name) for value in forms[1].items))
    if kinds[-1] == "approx" and not isinstance(forms[-1], Value):
        raise Unread("approximately no value")
    return Relation(kinds, forms, None if all(map(is_abbreviation, sides)) else name)


def _named(side: list[str], name: str) -> Form:
    try:
        return _read_item(side)
    except Unread:
        return Words(name)


def _modulus(parts: list[str]) -> int:
    r"""Return where ``\pmod{m}``, ``\pmod m`` or ``(mod m)`` starts in the tokens; 0 if there is none."""
    for position, part in enumerate(parts):
        if part in MODULO or (part == "(" and _is_modulo(parts, position + 1)):
            return position
    return 0


def _is_modulo(parts: list[str], start: int) -> bool:
    rest = strip(parts[start:])
    return (
        rest[:1] in [[name] for name in MODULO]
        or "".join(rest[:3]) == "mod"
        or TEXT.sub(r"\1", rest[0]).strip() == "mod"
    )


def _read_congruence(left: list[str], right: list[str], position: int) -> Congruence:
    rest = strip(right[position:])
    if rest[0] == "(":
        if rest[-1] != ")":
            raise Unread("words behind a modulus")
        rest = strip(rest[1:-1])
    rest = strip(rest[3 if "".join(rest[:3]) == "mod" else 1 :])
    return Congruence(read_term(left) if left else None, read_term(right[:position]), read_term(rest))


def _read_remainder(parts: list[str], position: int) -> Value:
    r"""Read ``17 \bmod 5``, which is 2."""
    value, modulus = read_term(parts[:position]).doit(), read_term(parts[position + 1 :]).doit()
    if not (value.is_Integer and modulus.is_Integer and modulus):
        raise Unread("the remainder of a formula")
    return Value(value % modulus)


def _read_value(parts: list[str]) -> Form:
    """Read a number, an expression, one or several quantities with units, a ratio or a time of day."""
    text = "".join(parts).strip()
    text = with_base(text)
    if (based := _BASED(text)) and (based.group(1).isdigit() or _are_digits(*based.groups())):
        return Based(based.group(1), int(based.group(2)))
    rest, unit, power = split_unit(text)
    if unit == DEGREE and any(part[1:] in FUNCTIONS for part in with_functions(tokens(rest))):
        rest, unit = text, None  # the degrees of an angle in a function
    prose = " ".join(TEXT.sub(r"\1", text).split())
    if unit is None and _PROSE(prose) and ("\\text" in text or _is_word(prose)):
        return Words(_folded(prose).rstrip("."))
    if unit and (form := _several_quantities(rest, text)):
        return form
    parts = with_functions(tokens(rest))
    pieces, signs = divide(parts, (TO,))
    if len(signs) == 1:
        return Group("to", tuple(Value(read_term(piece), unit) for piece in pieces))
    pieces, colons = divide(parts, (":",))
    if colons:
        return Group("time" if _CLOCK(rest) else "ratio", tuple(Value(read_term(piece), unit) for piece in pieces))
    if any(part in ("\\pm", "\\mp") for part in parts):
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
    if sum(part in ("\\pm", "\\mp") for part in parts) > 1:
        raise Unread("more than one ±")
    signs = ({"\\pm": "+", "\\mp": "-"}, {"\\pm": "-", "\\mp": "+"})
    return Group("list", tuple(Value(read_term([sign.get(part, part) for part in parts]), unit) for sign in signs))


def _several_quantities(rest: str, text: str) -> Form | None:
    r"""Read ``3 \text{ hours } 20 \text{ minutes}`` and ``4\text{ ft} \times 12\text{ ft}``; None for one quantity."""
    if "\\text" not in rest and not any(character.isalpha() for character in rest.replace("\\times", "")):
        return None
    factors, times = divide(tokens(text), ("\\times", "\\cdot", "*"))
    if times and all("\\text" in "".join(factor) or split_unit("".join(factor))[1] for factor in factors):
        return Group("product", tuple(_read_value(factor) for factor in factors))
    if "\\text" in rest:
        for position in range(len(rest) - 1, 0, -1):
            if rest[position - 1] in "} " and rest[position].isdigit():
                head = rest[:position].strip().removesuffix(",")
                if split_unit(head)[1]:
                    quantities = [_read_value(tokens(head)), _read_value(tokens(text[position:]))]
                    flat = [
                        item for form in quantities for item in (form.items if isinstance(form, Group) else (form,))
                    ]
                    return Group("quantity", tuple(flat))
        raise Unread("words in a formula")
    return None
