r"""Read units behind numbers: ``5\text{ cm}^2``, ``5 apples``, ``9 (apples)``, ``\$5``, ``50\%``, ``41^\circ``."""

from core.text.patterns import Match, compile_quick_pattern
from grading.expressions.unit_names import DEGREE, MOST_WORDS, PERCENT, SHORT_UNITS, is_spoken, read_unit, short_unit

_LONE_LETTERS = frozenset("JKW")  # behind a number and a blank, these are seldom variables
_TEXT_UNIT = compile_quick_pattern(
    r"(?:\s|\\cdot ?|/){0,4}\\text ?\{[^{}]*\}(?:\s?\^\s?(?:\{\s?-?\s?\d\s?\}|\d))?\s*\Z"
)
_BARE_UNIT = compile_quick_pattern(
    r"(?<=[\d}\]) ])([a-zA-Z]{1,20}(?:\.? [a-zA-Z]{1,20}|/[a-zA-Z]{1,20}){0,4})(\s?\^\s?(?:\{\s?-?\d\s?\}|\d))?\Z"
)
_PARENTHESIS = compile_quick_pattern(r"(?<=[\d}]) ?\((?:\\text ?\{)?([a-zA-Z][a-zA-Z /]{1,60})\}?\)\Z")
_OHMS = compile_quick_pattern(r"(?<=[\d} ])(?:\\text ?\{ ?([kMm]) ?\} ?|([kM]) ?)?\\Omega\s?\Z")
_MICRO = compile_quick_pattern(r"(?<=[\d}]) ?\\mu ?(?:\\text ?\{ ?|([msg])\s?\Z)")
_SOLAR = compile_quick_pattern(r"(?<=[\d}]) ?([MLR]) ?_ ?(?:\\odot|\{ ?\\odot ?\}) ?\Z")
_SOLAR_UNITS = {"M": "mass", "L": "luminosity", "R": "radius"}
_HALF_DAY = compile_quick_pattern(r"(?<=\d) ?([apAP])\.[mM]\.?\Z")
_QUOTIENT = compile_quick_pattern(
    r"\\frac ?\{ ?(\\text(?:[^{}]|\{[^{}]*\}){1,60})\} ?\{ ?(\\text(?:[^{}]|\{[^{}]*\}){1,60})\}\s?\Z"
)
_DEGREES = compile_quick_pattern(
    r"\s?\^?\s?(?:\\(?:circ|degree) ?|\{\s?\\(?:circ|degree)\s?\}) ?(?:\\text ?\{ ?([CF]) ?\}|([CF]))?\s?\Z"
)
_PERCENT = compile_quick_pattern(r"\s?\\?%\s?\Z")
_MONEY = compile_quick_pattern(r"\A(-?)\s?(?:\\\$|\\text ?\{ (euros|pounds|yen)\})\s?(?=[\d.\\])")


def split_unit(text: str) -> tuple[str, str | None, int]:
    r"""Split an answer into the part without a unit, the unit's short name (or None), and a power of ten.

    >>> split_unit(r"5\text{ square meters}"), split_unit("9 (apples)"), split_unit(r"2\text{ million}")
    (('5', 'm^2', 0), ('9', 'apple', 0), ('2', None, 6))
    >>> split_unit(r"4\text{ or 5}"), split_unit("3x")
    (('4\\text{ or 5}', None, 0), ('3x', None, 0))
    """
    if money := _MONEY.match(text):
        rest, unit, power = split_unit(text[money.end() :])
        name, _ = short_unit(money.group(2) or "dollars")
        return (text, None, 0) if unit not in (None, name) else (money.group(1) + rest, name, power)
    if percent := _PERCENT.search(text):
        return text[: percent.start()], PERCENT, 0
    if degrees := _DEGREES.search(text):
        scale = degrees.group(1) or degrees.group(2) or ""
        return text[: degrees.start()], DEGREE + scale, 0
    text = _with_words(text)
    if parenthesis := _PARENTHESIS.search(text):
        unit = read_unit(parenthesis.group(1))
        return (text[: parenthesis.start()], *unit) if unit else (text, None, 0)
    rest, pieces = text, []
    while (piece := _TEXT_UNIT.search(rest)) and len(pieces) < MOST_WORDS:
        pieces.insert(0, piece.group())
        rest = rest[: piece.start()]
    if pieces and rest.strip():
        unit = read_unit("".join(pieces))
        return (rest.strip(), *unit) if unit else (text, None, 0)
    if bare := _BARE_UNIT.search(text):
        words, start = bare.group(1), bare.start()
        blank = text[start - 1 : start] == " "
        listed = words.replace("/", " ").replace(".", "").split()
        letters = blank and ("/" in words or words in _LONE_LETTERS)  # of which each may be a unit
        known = all(word in SHORT_UNITS and (len(word) > 1 or letters) for word in listed)
        long = blank and all(map(is_spoken, listed)) and len(words) >= 3
        number = text[:start].rstrip()[-1:]
        if (known or long) and number and (number.isdigit() or number == "}"):
            unit = read_unit(words + (bare.group(2) or ""))
            return (text[:start].strip(), *unit) if unit else (text, None, 0)
    return text, None, 0


def _with_words(text: str) -> str:
    r"""Write a unit that is a command, a fraction or an abbreviation with points as ``\text{…}``.

    >>> _with_words(r"5 \text{k}\Omega"), _with_words(r"5 \mu\text{m}"), _with_words("4:30 p.m.")
    ('5 \\text{ kohm}', '5\\text{ um}', '4:30\\text{ pm}')
    >>> _with_words(r"5\frac{\text{m}}{\text{s}^2}"), _with_words(r"5 M_\odot")
    ('5\\text{m}/\\text{s}^2', '5\\text{ solar mass}')
    """
    if "\\" in text:
        text = _OHMS.sub(lambda ohms: f"\\text{{ {ohms.group(1) or ohms.group(2) or ''}ohm}}", text)
        text = _MICRO.sub(_micro, text)
        text = _SOLAR.sub(lambda sign: f"\\text{{ solar {_SOLAR_UNITS[sign.group(1)]}}}", text)
        text = _QUOTIENT.sub(r"\1/\2", text)
    return _HALF_DAY.sub(lambda half: f"\\text{{ {half.group(1).lower()}m}}", text)


def _micro(sign: Match) -> str:
    unit = sign.group(1)
    return f"\\text{{ u{unit}}}" if unit else "\\text{ u"
