"""One spelling for answers that differ in typography alone."""

from collections.abc import Mapping

from core.text.patterns import Match, compile_full_match, compile_quick_pattern
from grading.answers import BOX, extract_boxed

WORD = 3  # letters that make a word; fewer may name points or variables
LONGEST_PERIOD = 50  # digits of a repeating decimal

TEXT = compile_quick_pattern(r"\\(?:text|textbf|textrm|textit|mathrm|mathbf|mbox|operatorname)\s*\{([^{}]*)\}")
_BLANK = compile_quick_pattern(r"\s+")
_COMMAND = compile_quick_pattern(r"\\(?:(?:left|right|bigg?l?r?|Bigg?l?r?)(?![a-zA-Z])\.?|[a-zA-Z]+|[^a-zA-Z])|~")
_COMMANDS: Mapping[str, str] = {  # that mean no more than another one; what is not here stays
    **dict.fromkeys(("\\,", "\\;", "\\:", "\\>", "\\ ", "~", "\\quad", "\\qquad", "\\displaystyle"), " "),
    **dict.fromkeys(("\\!", "\\limits"), ""),
    **dict.fromkeys(("\\dfrac", "\\tfrac", "\\cfrac"), "\\frac"),
    "\\tbinom": "\\binom",
    "\\dbinom": "\\binom",
    "\\lbrace": "\\{",
    "\\rbrace": "\\}",
    "\\lbrack": "[",
    "\\rbrack": "]",
    "\\varnothing": "\\emptyset",
    "\\leqslant": "\\le",
    "\\geqslant": "\\ge",
    "\\leq": "\\le",
    "\\geq": "\\ge",
    "\\ne": "\\neq",
    "\\lt": "<",
    "\\gt": ">",
    "\\ast": "\\cdot",
}
_SIGNS = str.maketrans({"\u2212": "-", "\u2264": "\\le ", "\u2265": "\\ge ", "\u2260": "\\neq ", "\u221e": "\\infty "})
_THOUSANDS = compile_full_match(r"[+-]?\d{1,3}(?:(?:,\d{3})+|(?: \d{3})+)(?:\.\d+)?")
_SPACED_THOUSANDS = compile_quick_pattern(r"(?<=\d),\\!\s*(?=\d{3}(?!\d))")  # in a list the comma stands alone
_QUOTIENT = compile_quick_pattern(r"(?<![\w.^)}/])(\d+)/(\d+)(?![\w./^{(\\])")
_DOLLARS = compile_quick_pattern(r"^\\\$ ?(?=[\d.])")
_FULL_STOP = compile_quick_pattern(r"(?<=[\w}\])%])\.$|(?<=\d)\.(?=[/}\\])")
_SCIENTIFIC = compile_full_match(r"([+-]?\d+(?:\.\d+)?)[eE]([+-]?\d{1,4})")
_REPEATING = compile_quick_pattern(
    rf"(\d{{0,{LONGEST_PERIOD}}})\.(\d{{0,{LONGEST_PERIOD}}})\\overline ?\{{(\d{{1,{LONGEST_PERIOD}}})\}}"
)
_TH = r"\\(?:text|textrm|mathrm|mbox)\s*\{\s*(?:st|nd|rd|th)\s*\}"
_ORDINAL = compile_quick_pattern(rf"(?<=\d)\s*(?:\^\{{\s*{_TH}\s*\}}|\^?{_TH})")
_WORD_UNIT = compile_full_match(r"([+-]?[\d.,]+) ([a-zA-Z]{3,}(?: [a-zA-Z]+)?)")
FUNCTIONS = frozenset(
    {"sin", "cos", "tan", "cot", "sec", "csc", "log", "exp", "sinh", "cosh", "tanh", "sqrt", "mod", "and"}
)
# Names of units in full, by what they are called here.
UNIT_NAMES = {
    name: short
    for short, names in {
        "m": "meter metre",
        "cm": "centimeter centimetre",
        "mm": "millimeter millimetre",
        "km": "kilometer kilometre",
        "kg": "kilogram",
        "g": "gram",
        "l": "liter litre",
        "s": "second sec",
        "min": "minute",
        "h": "hour hr",
        "in": "inch inche",
        "ft": "foot feet",
        "mi": "mile",
        "yd": "yard",
    }.items()
    for name in names.split()
}


def normalize(answer: str) -> str:
    r"""One spelling for answers that differ in typography alone; the value never changes.

    Unified are spacing, sizing, commands that mean the same, a lone ``\text{…}``, ``$…$``, thousands separators, a
    final full stop, ``3e8``, ``12^{\text{th}}``, repeating decimals and units written as words.

    >>> [normalize(text) for text in (r"\dfrac12", "1{,}000.", r"\text{ Evelyn }", "3e8", r"12^{\text{th}}")]
    ['\\frac12', '1000', 'Evelyn', '3 \\times 10^{8}', '12']
    >>> normalize(r"0.1\overline{6}"), normalize("5 dollars")
    ('\\frac{15}{90}', '5\\text{ dollars}')
    """
    text = answer.strip().strip("$").strip()
    boxed = extract_boxed(text)
    if boxed is not None and BOX.match(text):
        text = boxed
    text = _COMMAND.sub(_unified, _SPACED_THOUSANDS.sub(",", text).translate(_SIGNS)).replace("{,}", ",")
    text = _BLANK.sub(" ", _ORDINAL.sub("", text)).strip()
    if "\\begin{" in text:  # math-verify reads 1/2 inside a matrix wrongly
        text = _QUOTIENT.sub(r"\\frac{\1}{\2}", text)
    text = _DOLLARS.sub("", text)
    if whole := TEXT.fullmatch(text):
        text = whole.group(1).strip()
    text = _FULL_STOP.sub("", _REPEATING.sub(_as_fraction, text))
    if _THOUSANDS(text):
        text = text.replace(",", "").replace(" ", "")
    if number := _SCIENTIFIC(text):
        text = f"{number.group(1)} \\times 10^{{{int(number.group(2))}}}"
    quantity = _WORD_UNIT(text)
    if quantity and FUNCTIONS.isdisjoint(quantity.group(2).split()):
        text = f"{quantity.group(1)}\\text{{ {quantity.group(2)}}}"
    return "\\emptyset" if text.replace(" ", "") == "\\{\\}" else text


def _unified(command: Match) -> str:
    name = command.group()
    if name.rstrip(".") in _SIZES:
        return ""
    return _COMMANDS.get(name, name)


_SIZES = frozenset(f"\\{size}{side}" for size in ("big", "bigg", "Big", "Bigg") for side in ("", "l", "r")) | {
    "\\left",
    "\\right",
}


def _as_fraction(number: Match) -> str:
    whole, start, period = number.groups()
    over = int(f"{whole}{start}{period}") - int(f"{whole}{start}" or "0")
    return f"\\frac{{{over}}}{{{'9' * len(period)}{'0' * len(start)}}}"


def same_string(first: str, second: str) -> bool:
    r"""Whether two answers are equal after `normalize`, apart from spaces, ``\text`` and the case of words.

    >>> same_string(r"\text{Ellipse}", "ellipse"), same_string("AB", "ab"), same_string("0.5", "1/2")
    (True, False, False)
    """
    one, other = _letters(first), _letters(second)
    return one == other or (len(one) >= WORD and one.isalpha() and one.casefold() == other.casefold())


def _letters(text: str) -> str:
    return TEXT.sub(r"\1", normalize(text)).replace(" ", "").rstrip(".")
