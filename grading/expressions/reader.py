r"""Read a normalised answer completely.

`read` gives a gold answer its kind; `read_as` reads an answer as that kind. Mathematics is split at the signs that
divide it (commas, brackets, relations, set operations), and each piece is read as a value. What has a part that
nothing reads is not read at all.
"""

from dataclasses import replace
from functools import lru_cache
from itertools import chain

from sympy import MatrixBase, Rational, S, nan, sympify

from core.text.patterns import Match, compile_full_match, compile_quick_pattern
from grading.answers.choices import choice_in, extract_choices
from grading.answers.extraction import LETTERS, SEPARATOR
from grading.expressions import texts, units, wording
from grading.expressions.forms import DOTS, Form, Group, Kind, Region, Relation, Value, Words, items_of
from grading.expressions.formula import read_formula, with_functions
from grading.expressions.regions import built, numbers_of
from grading.expressions.tokens import TEXT, Unread, divide, enclosed, strip, tokens
from grading.expressions.wording import MULTIPLICITY, WHERE
from grading.vocabulary import FUNCTIONS

MOST_ITEMS = 200
LARGEST_BASE = 36  # ten digits and 26 letters
RELATIONS = {
    "=": "=", "<": "<", ">": ">", "\\le": "<=", "\\ge": ">=", "\\neq": "!=", "\\in": "in", "\\notin": "notin",
    "\\equiv": "=", "\\approx": "approx", "\\parallel": "parallel", "\\perp": "perp",
}  # fmt: skip
SET_OPERATIONS = ("\\cup", "\\cap", "\\setminus", "\\backslash")
SETS: dict[str, Form] = {
    "\\mathbb{N}": Region(S.Naturals),
    "\\mathbb{N}_0": Region(S.Naturals0),
    "\\mathbb{Z}": Region(S.Integers),
    "\\mathbb{Q}": Region(S.Rationals),
    "\\mathbb{R}": Region(S.Reals),
    "\\mathbb{C}": Region(S.Complexes),
    "\\emptyset": Group("set", ()),
}
REMEDIES = {  # commands that are not read, and what to do with a gold answer that has one
    **dict.fromkeys(("\\int", "\\sum", "\\prod", "\\lim", "\\iint", "\\oint"), "give its value"),
    **dict.fromkeys(("\\pmod", "\\bmod", "\\mod"), "give the remainder as a number"),
    "{cases}": "give its pieces as text, with the verifier judge",
}
OTHERWISE_REMEDY = "write it as docs/verifiers.md says, or choose the verifier exact or judge"
_KINDS = {  # of groups
    **dict.fromkeys(("(]", "[)", "[]"), Kind.INTERVAL),
    "set": Kind.SET, "()": Kind.TUPLE, "ratio": Kind.RATIO, "list": Kind.LIST, "sequence": Kind.LIST,
}  # fmt: skip
_DOTS = ("\\ldots", "\\cdots", "\\dots", "...")
_CONDITIONAL = frozenset(("for", "where", "if", "when", "with", "for all", "for any", "for every"))
_JUNCTIONS = {
    **dict.fromkeys(("or", "oder", "ou", "o"), " \\lor "), **dict.fromkeys(("and", "und", "et", "y", "e"), " \\land "),
}  # fmt: skip
_JOIN = compile_quick_pattern(r"(?<![a-zA-Z\\{])(and|or|und|oder)(?![a-zA-Z}])")
_CONSTANT = compile_quick_pattern(r"(?<![a-zA-Z\\])C ?_(?= ?\{? ?\d)")
_SMALL_CONSTANT = compile_quick_pattern(r"(?<![a-zA-Z\\])c ?_ ?\{? ?\d")
_OPTION = compile_full_match(r"\(?([A-J])[.):]\)? (\S.*)")
_CHOICES = compile_full_match(r"[A-J](?:, ?[A-J]){1,9}")
_CHOICE = compile_full_match(
    r"(?i:(?:the )?(?:correct )?(?:option|choice|answer)(?: is)? ?:? ?)?[\[({]?([A-J])[\])}]?[.:]?"
)
_NO_SOLUTION = compile_full_match(
    r"(?:there (?:is|are) )?no (?:real |integer )?(?:solutions?|roots?)(?: exists?)?\.?|no (?:real )?values?|none\.?"
    r"|(?:the )?empty set\.?|(?:es gibt )?keine (?:reellen? )?lösung(?:en)?\.?"
)
_BASED = compile_full_match(r"(\d{1,200}|(?=[A-Z]{0,200}\d)[\dA-Z]{2,200})_ ?\{? ?(\d{1,4}) ?\}?")
_TO = compile_quick_pattern(r"(\d)(?: to |\s?\\text ?\{ ?to ?\}\s?)(?=\d)")
_NEXT_QUANTITY = compile_quick_pattern(r"(?<=\})[ ,]*(?=\d)")
_POINT = compile_full_match(r"[A-Z](?:_ ?(?:\w|\{ ?\w ?\}))?'? ?")  # A(1,2) is the point A = (1,2)
_DECIMAL = compile_full_match(r"[+-]?\d*\.(\d+)")
_DOUBLE = {"\\pm": "+-", "\\mp": "-+"}


@lru_cache(maxsize=4096)
def read(gold: str) -> tuple[Kind, Form]:
    """Return the kind and the form of a normalised gold answer; Unread if a part of it cannot be read."""
    text = wording.unwrap(gold)
    prose = texts.prose_of(text)
    if date := texts.read_date(text):
        return Kind.DATE, date
    if (time := texts.read_time(text)) and time[1]:
        return Kind.TIME, time[0]
    if choice := _CHOICE(prose):
        return Kind.CHOICE, Words(choice.group(1))
    if _CHOICES(text) and (labels := text.replace(" ", "").split(",")) == sorted(set(labels)):
        return Kind.CHOICE, Words(SEPARATOR.join(labels))
    form = _read_spoken(prose)
    if form is None and (words := texts.read_text(text)):
        return Kind.TEXT, words
    form = form or read_mathematics(text)
    return kind_of(form), form


@lru_cache(maxsize=4096)
def read_as(answer: str, kind: Kind) -> Form:
    """Return the form of a normalised answer to a gold answer of a kind; Unread if it is none of that kind."""
    text = wording.unwrap(answer)
    form: Form | None = None
    if kind is Kind.TEXT:
        form = texts.text_of(text)
    elif kind is Kind.CHOICE:
        several = (extract_choices(f"\\boxed{{{text}}}") or "").split(SEPARATOR)
        labels = several if len(several) > 1 and set(several) <= set(LETTERS) else [choice_in(text)]
        form = Words(SEPARATOR.join(labels)) if all(one in LETTERS and one in text for one in labels) else None
    elif kind is Kind.DATE:
        form = texts.read_date(text)
    elif kind is Kind.TIME:
        form = (texts.read_time(text) or [None])[0]
    elif kind in (Kind.SET, Kind.INTERVAL) and text in ("R", "Z", "N", "Q"):
        form = SETS[f"\\mathbb{{{text}}}"]
    else:
        form = read_mathematics(_TO.sub(r"\1:", text) if kind is Kind.RATIO else text)
    if form is None:
        raise Unread(f"no {kind}")
    return form


def remedy(gold: str) -> str:
    """Return what to do with a gold answer that is not read."""
    return next((advice for command, advice in REMEDIES.items() if command in gold), OTHERWISE_REMEDY)


def kind_of(form: Form) -> Kind:
    """Return the kind of a mathematical form."""
    if isinstance(form, Group):
        return _KINDS.get(form.kind, Kind.RELATION)
    if isinstance(form, Region):
        return Kind.INTERVAL if form.numbers.is_Interval else Kind.SET
    if not isinstance(form, Value):
        return Kind.RELATION if isinstance(form, Relation) else Kind.TEXT
    if isinstance(form.expression, MatrixBase):
        return Kind.MATRIX
    if form.unit:
        return Kind.QUANTITY
    return Kind.FORMULA if form.expression.free_symbols else Kind.NUMBER


def read_mathematics(text: str) -> Form:
    """Read a number, formula, set, list, relation or the like; Unread if a part of it cannot be read."""
    whole = TEXT.fullmatch(text)
    if whole and any(map(str.isdigit, text)):
        if texts.joined(whole.group(1), strictly=False):
            raise Unread("joined digits in a text")
        text, whole = whole.group(1).strip(), None
    prose = texts.prose_of(text)
    if spoken := _read_spoken(prose):
        return spoken
    if parts := wording.labelled_parts(text):
        return Group("()", tuple(map(read_mathematics, parts)), "land")
    if option := _OPTION(prose):
        return Group("()", (Words(option.group(1)), read_mathematics(option.group(2))))
    if words := texts.as_words(prose, is_text=bool(whole)):
        return words
    if not _SMALL_CONSTANT.search(text):
        text = _CONSTANT.sub("c_", text)  # the case of c_1 in a general solution means nothing
    text = TEXT.sub(_without_junction, units.with_compounds(text))
    return _read_list(tokens(_JOIN.sub(lambda word: _JUNCTIONS[word.group()], text).strip()))


def _read_spoken(prose: str) -> Form | None:
    """Read words that stand for a sign or say that there is no solution; None for others."""
    if signs := wording.in_signs(prose):
        return read_mathematics(signs)
    return Group("set", ()) if _NO_SOLUTION(prose.lower()) else None


def _without_junction(words: Match) -> str:
    r"""Return ``\text{ cm or }`` as the unit and a sign of its own."""
    content = words.group(1).strip(" ,")
    first, _, last = content.rpartition(" ")
    if content in _CONDITIONAL:
        return f" {WHERE} "
    if last not in _JUNCTIONS:
        return words.group()
    return (f"\\text{{ {first}}}" if first else "") + _JUNCTIONS[last]


def _read_list(parts: list[str]) -> Form:
    """Read parts with commas, semicolons, "and" or "or" between them, or a single part."""
    parts = strip(parts)
    for separator in (WHERE, "\\lor", "\\land", ";", ","):
        pieces, signs = divide(parts, (separator,)) if separator in parts else ([], [])
        if signs and separator == WHERE:
            return _read_conditions(pieces, signs)
        if signs:
            pieces = [piece for piece in pieces if piece or separator != ","]
            if len(pieces) > MOST_ITEMS or not all(pieces):
                raise Unread("a list with nothing between its commas")
            return _grouped(separator, [_read_list(piece) for piece in pieces])
    start = parts.index("(") if "(" in parts else 0
    if start and _POINT("".join(parts[:start])) and enclosed(parts[start:]) and "," in parts:
        parts = [*parts[:start], "=", *parts[start:]]
    return _read_item(parts)


def _read_conditions(pieces: list[list[str]], signs: list[str]) -> Form:
    r"""Read a formula and the conditions behind it as a list: ``2n+1 \text{ for } n \ge 1`` as ``2n+1, n \ge 1``."""
    formula, *rest = (_read_list(piece[:-1] if piece[-1:] == [","] else piece) for piece in pieces)
    conditions = tuple(chain.from_iterable(map(items_of, rest)))
    if len(signs) > 1 or not all(isinstance(item, Relation) for item in conditions):
        raise Unread("no conditions")
    if isinstance(formula, Group) and formula.kind != "list":
        raise Unread("conditions of several formulas")
    return Group("list", (*items_of(formula), *conditions), "where")


def _grouped(separator: str, items: list[Form]) -> Form:
    """Make a list; ``x = 1, 2`` names its values, nested lists are its items, and dots give it an order."""
    flat: list[Form] = []
    for item in items:
        flat += item.items if isinstance(item, Group) and item.kind in ("list", "sequence") else [item]
    first = flat[0]
    if isinstance(first, Relation) and first.name and len(first.signs) == 1 and all(map(_is_value, flat[1:])):
        flat = [first, *(replace(first, sides=(first.sides[0], item)) for item in flat[1:])]
    if len(flat) == 1:
        return flat[0]
    if any(map(_is_counted, flat)):
        flat = [_counted(item, 1) for item in flat]  # the others count once
    if separator in ("\\land", ",") and (total := units.total_of(flat)):
        return Value(*total)
    if separator in ("\\lor", "\\land") and any(isinstance(item, Relation) and item.signs != ("=",) for item in flat):
        return Group(separator[1:], tuple(flat))
    return Group("sequence" if DOTS in flat else "list", tuple(flat), _junction(separator, items, flat))


def _is_value(form: Form) -> bool:
    return isinstance(form, Value)


def _junction(separator: str, items: list[Form], flat: list[Form]) -> str | None:
    """Return how the items of a list are joined; None if "and" means the same as "or", as between solutions."""
    if flat == items and len({item.name if isinstance(item, Relation) else None for item in flat} - {None}) > 1:
        return "lor" if separator == "\\lor" else "land"
    are_symbols = all(isinstance(item, Value) and item.expression.is_Symbol for item in flat)
    return separator[1:] if separator == "\\lor" or (are_symbols and separator == "\\land") else None


def _read_item(parts: list[str]) -> Form:
    """Read a part without commas."""
    if parts[-4:-3] == [MULTIPLICITY]:
        return _counted(_read_item(strip(parts[:-4])), int(parts[-2]))
    literal = "".join(parts).strip()
    if not literal:
        raise Unread("nothing there")
    if literal in _DOTS:
        return DOTS
    if parts[0] == "=":
        return _read_item(strip(parts[1:]))
    sides, signs = divide(parts, RELATIONS)
    if signs:
        return _read_relation(parts, sides, signs)
    operands, operations = divide(parts, SET_OPERATIONS)
    if operations:
        return _read_region(operands, operations)
    if literal in SETS:
        return SETS[literal]
    if enclosed(parts) and (form := _read_bracket(parts)):
        return form
    return _read_value(parts)


def _counted(form: Form, times: int) -> Form:
    """Return a form with values that count as roots so many times, unless that is said of them."""
    if isinstance(form, Value):
        return replace(form, times=form.times or times)
    if isinstance(form, Relation):
        return replace(form, sides=(form.sides[0], *(_counted(side, times) for side in form.sides[1:])))
    return replace(form, items=tuple(_counted(item, times) for item in form.items)) if isinstance(form, Group) else form


def _is_counted(form: Form) -> bool:
    value = form.sides[-1] if isinstance(form, Relation) else form
    return isinstance(value, Value) and value.times is not None


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
    versions = _versions(inside)
    if versions:
        listed = (_read_bracket([opening, *version, end]) for version in versions)
        return Group("list", tuple(form for form in listed if form))
    return Group(brackets, tuple(_read_row(piece) or _read_item(piece) for piece in pieces))


def _read_row(parts: list[str]) -> Form | None:
    """Read ``[3]`` among the items of a bracket, as in ``[[3],[4]]``; None for anything else."""
    if parts[0] != "[" or not enclosed(parts) or divide(parts[1:-1], (",", ";"))[1]:
        return None
    return Group("[]", (_read_item(parts[1:-1]),))


def _versions(parts: list[str]) -> list[list[str]]:
    r"""Return the tokens with the upper and with the lower signs; empty for tokens without ``\pm``."""
    signs = [part for part in parts if part in _DOUBLE]
    if len(signs) > 1 and len(set(signs)) == 1:
        raise Unread("more than one ±")
    return [[_DOUBLE[part][which] if part in _DOUBLE else part for part in parts] for which in (0, 1)] if signs else []


def _read_set(inside: list[str]) -> Form:
    for separator in ("\\mid", "|", ":"):
        pieces, signs = divide(inside, (separator,))
        if signs and (separator != "|" or len(signs) % 2):
            element, conditions = _read_item(pieces[0]), _read_list(inside[inside.index(separator) + 1 :])
            region = built(element, conditions)
            stated = [*items_of(conditions)]
            if region is None and isinstance(stated[-1], Relation) and stated[-1].signs == ("in",):
                is_named = len(stated) == 2 and isinstance(stated[0], Relation) and stated[0].sides[0] == element
                return Group("list", tuple(stated if is_named else [element, *stated]))
            if region is None:
                raise Unread("a set by a condition that is no set of numbers")
            return region
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


def _read_relation(parts: list[str], sides: list[list[str]], signs: list[str]) -> Form:
    r"""Read a relation; one with ``\pm`` stands for two of them."""
    if len(signs) == 1 and (versions := _versions(parts)):
        return _grouped("\\lor", [_read_item(version) for version in versions])
    kinds = tuple(RELATIONS[sign] for sign in signs)
    if kinds == ("approx",) and not sides[0]:
        sides = [["\\text{value}"], sides[1]]
    if not all(sides):
        raise Unread("a relation without one of its sides")
    if kinds == ("=",) and wording.name_of(sides[1]) and not wording.name_of(sides[0]):
        sides = sides[::-1]
    name = wording.name_of(sides[0])
    if "approx" in kinds[:-1] or ("\\equiv" in signs and not name):
        raise Unread("a relation that is not supported")
    try:
        first = _read_item(sides[0])
    except Unread:
        if not name:
            raise
        first = Words(name)
    forms = (first, *(_read_item(side) for side in sides[1:]))
    if any(isinstance(form, Relation) for form in forms):
        raise Unread("a relation in a relation")
    if isinstance(forms[1], Group) and kinds == ("in",) and forms[1].kind == "set":
        values = [Relation(("=",), (first, value), name) for value in forms[1].items]
        return _grouped("\\lor", [*values]) if values else Relation(kinds, forms, name)
    if kinds == ("=",) and (pairs := _by_coordinate(*forms)):
        return _grouped("\\land", pairs)
    if kinds[-1] == "approx" and (not isinstance(forms[-1], Value) or units.TOTAL in (forms[-1].unit or "")):
        raise Unread("approximately no value")
    return Relation(kinds, forms, None if all(map(wording.is_abbreviation, sides)) else name)


def _by_coordinate(names: Form, values: Form) -> list[Form]:
    """Read ``(a,b) = (2,3)`` as ``a = 2, b = 3``; empty for other sides."""
    if not all(isinstance(side, Group) and side.kind == "()" for side in (names, values)):
        return []
    pairs = list(zip(items_of(names), items_of(values), strict=False))
    relations = [Relation(("=",), pair, str(pair[0].expression)) for pair in pairs if isinstance(pair[0], Value)]
    return [*relations] if len(relations) == len(items_of(names)) == len(items_of(values)) else []


def _read_value(parts: list[str]) -> Form:
    """Read what has neither a relation nor a comma outside its brackets."""
    text = wording.with_base("".join(parts).strip())
    if (based := _BASED(text)) and (value := _in_base(based.group(1), int(based.group(2)))):
        return value
    if texts.joined(text):
        return Words(texts.folded(texts.prose_of(text)))
    if arc := units.MINUTES_OF_ARC(text):
        degrees, minutes, seconds = (Rational(part or 0) for part in arc.groups())
        return Value(degrees + (minutes / 60 + seconds / 3600) * (-1 if text[0] == "-" else 1), units.DEGREE)
    time = texts.read_time(text) if any(part in text for part in ":mMkr") else None
    if time and time[1]:
        return time[0]
    rest, unit, power = units.split_unit(text)
    if unit == units.DEGREE and any(part[1:] in FUNCTIONS for part in with_functions(tokens(rest))):
        rest, unit = text, None  # the degrees of an angle in a function
    if unit is None and (words := texts.as_words(texts.prose_of(text), is_text="\\text" in text)):
        return words
    if unit and "\\text" in rest:
        return _read_quantities(text)
    parts = tokens(rest)
    pieces, signs = divide(parts, (":",))
    if signs:
        return Group("ratio", tuple(Value(read_formula(piece), unit) for piece in pieces), None, time and time[0])
    if versions := _versions(parts):
        return Group("list", tuple(Value(read_formula(version), unit) for version in versions))
    digits = _DECIMAL(rest)
    expression = read_formula(parts)
    if power:
        return Value(expression * 10**power, unit)
    return Value(expression, unit, len(digits.group(1)) if digits else None, None if unit else texts.capitals(rest))


def _in_base(numeral: str, base: int) -> Value | None:
    """Return a number in a base, which is nan where a digit is none of the base; None for such a letter."""
    digits = [int(digit, LARGEST_BASE) for digit in numeral]
    if max(digits) >= base or base < 2:
        return Value(nan, numeral=(numeral, base)) if numeral.isdigit() else None
    value = sum(digit * base**place for place, digit in enumerate(reversed(digits)))
    return Value(sympify(value), numeral=(numeral, base))


def _read_quantities(text: str) -> Form:
    r"""Read ``3 \text{ hours } 20 \text{ minutes}`` in the smaller unit, and other quantities as a list."""
    pieces = [units.split_unit(piece.strip(" ,")) for piece in _NEXT_QUANTITY.split(text)]
    if not all(unit and "\\text" not in rest for rest, unit, _ in pieces):
        raise Unread("words in a formula")
    quantities = tuple(Value(read_formula(tokens(rest)) * 10**power, unit) for rest, unit, power in pieces)
    total = units.total_of(quantities)
    return Value(*total) if total else Group("list", quantities)
