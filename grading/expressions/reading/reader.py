r"""Read a normalised answer completely into a form.

`read` takes the text apart at the signs that divide it (commas, brackets, relations, set operations) and has each piece
read by `grading.expressions.reading.quantities`. What has a part that nothing reads is not read at all; there is no
fallback.
"""

from functools import lru_cache
from itertools import chain

from sympy import S

from core.text.patterns import Match, compile_full_match, compile_quick_pattern
from grading.expressions.answer_tokens import TEXT, Unread, divide, enclosed, strip, tokens
from grading.expressions.forms import DOTS, Builder, Congruence, Form, Group, Region, Relation, Value, Words, items_of
from grading.expressions.reading.congruences import modulus_in, read_congruence, read_residue
from grading.expressions.reading.names import is_abbreviation, name_of
from grading.expressions.reading.prose import as_words, prose_of
from grading.expressions.reading.quantities import read_value
from grading.expressions.reading.wording import in_signs, label_of, labelled_parts, unwrap
from grading.expressions.regions import numbers_of

MOST_ITEMS = 200
RELATIONS = {
    "=": "=", "<": "<", ">": ">", "\\le": "<=", "\\ge": ">=", "\\neq": "!=", "\\in": "in", "\\notin": "notin",
    "\\equiv": "equiv", "\\approx": "approx",
}  # fmt: skip
SET_OPERATIONS = ("\\cup", "\\cap", "\\setminus", "\\backslash")
SETS: dict[str, Form] = {
    "\\mathbb{N}": Region(S.Naturals),
    "\\mathbb{Z}": Region(S.Integers),
    "\\mathbb{Q}": Region(S.Rationals),
    "\\mathbb{R}": Region(S.Reals),
    "\\mathbb{C}": Region(S.Complexes),
    "\\emptyset": Group("set", ()),
}
_DOTS = ("\\ldots", "\\cdots", "\\dots", "...")
WHERE = "\\where"  # stands for a word before the conditions of a formula
_CONDITIONAL = frozenset(("for", "where", "if", "when", "with"))
_JUNCTIONS = {"or": " \\lor ", "and": " \\land "}

_JOIN = compile_quick_pattern(r"(?<![a-zA-Z\\{])(and|or)(?![a-zA-Z}])")
_CONSTANT = compile_quick_pattern(r"(?<![a-zA-Z\\])C ?_(?= ?\{? ?\d)")
_SMALL_CONSTANT = compile_quick_pattern(r"(?<![a-zA-Z\\])c ?_ ?\{? ?\d")
_OPTION = compile_full_match(r"\(?([A-J])[.):]\)? (\S.*)")
_NO_SOLUTION = compile_full_match(
    r"(?:there (?:is|are) )?no (?:real |integer )?(?:solutions?|roots?)(?: exists?)?\.?|no (?:real )?values?|none\.?"
    r"|(?:the )?empty set\.?"
)


@lru_cache(maxsize=4096)
def read(text: str) -> Form | None:
    """Return the form of a normalised answer; None if a part of it cannot be read."""
    try:
        return _read(text)
    except Unread:
        return None


def _read(text: str) -> Form:
    text = unwrap(text)
    prose = prose_of(text)
    if (spoken := in_signs(prose)) and (form := _read_spoken(spoken)):
        return form
    if _NO_SOLUTION(prose.lower()):
        return Group("set", ())
    if parts := labelled_parts(text):
        return Group("()", tuple(map(_read, parts)))
    if option := _OPTION(prose):
        return Group("()", (Words(option.group(1)), _read(option.group(2))))
    if words := as_words(prose, is_text=bool(TEXT.fullmatch(text))):
        return words
    if not _SMALL_CONSTANT.search(text):
        text = _CONSTANT.sub("c_", text)  # the case of c_1 in a general solution means nothing
    text = _JOIN.sub(lambda word: _JUNCTIONS[word.group()], TEXT.sub(_joined, text))
    text = text.replace("\\vee", "\\lor").replace("\\wedge", "\\land")
    return _read_list(tokens(text.strip()))


def _read_spoken(signs: str) -> Form | None:
    """Read words that stand for signs; None if what follows a number word is no unit."""
    form = read(signs)
    return form if not isinstance(form, Value) or form.expression.is_Integer or form.expression.is_infinite else None


def _joined(words: Match) -> str:
    r"""Return ``\text{ cm or }`` as the unit and a sign of its own."""
    first, _, last = words.group(1).strip().rpartition(" ")
    if words.group(1).strip(" ,") in _CONDITIONAL:
        return f" {WHERE} "
    if last not in _JUNCTIONS:
        return words.group()
    return (f"\\text{{ {first}}}" if first else "") + _JUNCTIONS[last]


def _read_list(parts: list[str]) -> Form:
    """Read parts with commas, semicolons, "and" or "or" between them, or a single part."""
    parts = strip(parts)
    pieces, signs = divide(parts, (WHERE,))
    if signs:
        return _read_conditions(pieces, signs)
    for separator in ("\\lor", "\\land", ";", ","):
        pieces, signs = divide(parts, (separator,))
        if signs:
            pieces = [piece for piece in pieces if piece or separator != ","]
            if len(pieces) > MOST_ITEMS or not all(pieces):
                raise Unread("a list with nothing between its commas")
            return _grouped(separator, [_read_list(piece) for piece in pieces])
    return _read_item(parts)


def _read_conditions(pieces: list[list[str]], signs: list[str]) -> Form:
    r"""Read a formula and the conditions behind it as a list: ``2n+1 \text{ for } n \ge 1`` as ``2n+1, n \ge 1``."""
    formula, *rest = (_read_list(_without_comma(piece)) for piece in pieces)
    conditions = tuple(chain.from_iterable(map(items_of, rest)))
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
    return Group("sequence" if DOTS in flat else "list", tuple(flat), _junction(separator, items, flat))


def _junction(separator: str, items: list[Form], flat: list[Form]) -> str | None:
    """Return how the items of a list are joined; None if "and" means the same as "or", as between solutions."""
    if flat == items and len({item.name if isinstance(item, Relation) else None for item in flat} - {None}) > 1:
        return "lor" if separator == "\\lor" else "land"
    are_symbols = all(isinstance(item, Value) and item.expression.is_Symbol for item in flat)
    return separator[1:] if separator == "\\lor" or (are_symbols and separator == "\\land") else None


def _read_item(parts: list[str]) -> Form:
    literal = "".join(parts).strip()
    if not literal:
        raise Unread("nothing there")
    if literal in _DOTS:
        return DOTS
    if parts[0] == "=":
        return _read_item(strip(parts[1:]))
    if label := label_of(parts):
        return _read_relation(list(label), ["="])
    sides, signs = divide(parts, RELATIONS)
    if signs:
        return _read_relation(sides, signs)
    if position := modulus_in(parts):
        return read_residue(parts, position)
    operands, operations = divide(parts, SET_OPERATIONS)
    if operations:
        return _read_region(operands, operations)
    if literal in SETS:
        return SETS[literal]
    if enclosed(parts) and (form := _read_bracket(parts)):
        return form
    if "".join(parts[:8]) == "\\begin{cases}" and enclosed(parts[:-7]):
        return _read_pieces(parts[8:-8])
    return read_value(parts)


def _read_pieces(parts: list[str]) -> Form:
    """Read the lines of a function in pieces, each of which has a value and its condition."""
    rows: list[Form] = []
    for row in filter(None, divide(parts, ("\\\\",))[0]):
        cells, _ = divide(row, ("&",))
        if len(cells) != 2:
            raise Unread("a piece without a condition")
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
    return _expanded(brackets, tuple(map(_read_item, pieces)))


def _expanded(brackets: str, items: tuple[Form, ...]) -> Form:
    """Read a tuple; the two tuples if one of its items is a pair of values ``a \\pm b``."""
    double = [position for position, item in enumerate(items) if isinstance(item, Group) and item.kind == "list"]
    if not double:
        return Group(brackets, items)
    if len(double) > 1:
        raise Unread("more than one ± in a tuple")
    before, item, after = items[: double[0]], items[double[0]], items[double[0] + 1 :]
    return Group("list", tuple(Group(brackets, (*before, value, *after)) for value in items_of(item)))


def _read_set(inside: list[str]) -> Form:
    for separator in ("\\mid", "|", ":"):
        pieces, signs = divide(inside, (separator,))
        if signs and (separator != "|" or len(signs) % 2):
            conditions = inside[inside.index(separator) + 1 :]
            return Builder(_read_item(pieces[0]), _read_list(conditions))
    if not inside:
        return Group("set", ())
    form = _read_list(inside)
    items = form.items if isinstance(form, Group) and form.kind in ("list", "sequence") else (form,)
    return Group("sequence" if DOTS in items else "set", items)


def _read_region(operands: list[list[str]], operations: list[str]) -> Form:
    first, *others = (numbers_of(_read_item(operand)) for operand in operands)
    if first is None or None in others:
        raise Unread("no set of numbers")
    for operation, region in zip(operations, others, strict=True):
        if operation == "\\cup":
            first = first.union(region)
        else:
            first = first.intersect(region) if operation == "\\cap" else first - region
    return Region(first)


def _read_relation(sides: list[list[str]], signs: list[str]) -> Form:
    kinds = tuple(RELATIONS[sign] for sign in signs)
    if kinds == ("approx",) and not sides[0]:
        sides = [["\\text{value}"], sides[1]]
    if not all(sides):
        raise Unread("a relation without one of its sides")
    if kinds == ("=",) and name_of(sides[1]) and not name_of(sides[0]):
        sides = sides[::-1]
    if kinds[-1] in ("equiv", "=") and (position := modulus_in(sides[-1])):
        if len(sides) != 2:
            raise Unread("a chain of congruences")
        return read_congruence(sides[0], sides[-1], position)
    if kinds == ("=",) and (position := modulus_in(sides[0])) and any(map(str.isalpha, sides[0][:position])):
        return read_congruence(sides[0][:position], [*sides[1], *sides[0][position:]], len(sides[1]))
    name = name_of(sides[0])
    if kinds == ("equiv",) and sides[0][-1] == ")" and name:
        kinds = ("=",)  # of a function
    if "equiv" in kinds or "approx" in kinds[:-1]:
        raise Unread("a relation that is not compared")
    first = _named(sides[0], name) if name else _read_item(sides[0])
    forms = (first, *map(_read_item, sides[1:]))
    if any(isinstance(form, Relation | Congruence) for form in forms):
        raise Unread("a relation in a relation")
    if isinstance(forms[1], Group) and (kinds, forms[1].kind) in ((("=",), "list"), (("in",), "set")):  # x = ±2
        values = [Relation(("=",), (first, value), name) for value in forms[1].items]
        return _grouped("\\lor", [*values]) if values else Relation(kinds, forms, name)
    if kinds[-1] == "approx" and not isinstance(forms[-1], Value):
        raise Unread("approximately no value")
    return Relation(kinds, forms, None if all(map(is_abbreviation, sides)) else name)


def _named(side: list[str], name: str) -> Form:
    try:
        return _read_item(side)
    except Unread:
        return Words(name)
