r"""Read units behind numbers, and give all spellings of a unit one name: ``5\text{ cm}^2``, ``5 apples``, ``\$5``.

A unit is one to five words that name a thing. Words that hedge, deny or join (`NO_UNIT`) are none, so that
``4\text{ or possibly 5}`` is not 4.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from core.text.patterns import Match, compile_full_match, compile_quick_pattern
from grading.answers.rewriting import rules
from grading.vocabulary import WORD, is_word, words

PERCENT, DEGREE, TOTAL = "%", "degree", "total "
UNIT_NAMES = {
    name: short
    for short, names in {
        "m": "meter metre", "cm": "centimeter centimetre zentimeter", "mm": "millimeter millimetre",
        "km": "kilometer kilometre",
        "kg": "kilogram kilogramm kgs", "g": "gram gramm", "l": "liter litre L",
        "s": "second sec secs sekunde sekunden",
        "min": "minute mins minuten", "h": "hour hr hrs stunde stunden std heure hora", "in": "inch inche",
        "ft": "foot feet",
        "mi": "mile", "yd": "yard", "lb": "pound-mass lbs", "oz": "ounce", "gbp": "gbp", "month": "mo monat monate",
        "degree": "deg grad", "percent": "pct prozent", "dollar": "usd us-dollar", "euro": "eur", "yuan": "cny rmb",
        "yen": "jpy", "rupee": "rs inr", "cent": "ct", "am": "a.m", "pm": "p.m",
        "gal": "gallon", "N": "newton", "J": "joule", "W": "watt", "V": "volt", "Hz": "hertz", "Pa": "pascal",
        "K": "kelvin", "A": "ampere amp", "rad": "radian", "mL": "milliliter millilitre ml",
        "day": "d tag tage jour dia",
        "yr": "year jahr jahre yrs",
        "wk": "week woche wochen wks", "unit": "units", "celsius": "celsius", "C": "coulomb", "F": "farad",
        "H": "henry", "T": "tesla",
        "mol": "mole", "eV": "electronvolt", "cal": "calorie", "um": "micron", "ohm": "ohm",
        "kohm": "kilohm", "Mohm": "megohm",
    }.items()
    for name in names.split()
}  # fmt: skip
SHORT_UNITS = words(
    "m cm mm km nm dm kg g mg l L mL ml dl s ms min h hr in ft mi yd lb lbs oz gal N J kJ W kW V Hz kHz MHz GHz Pa "
    "kPa K A mA mol eV keV MeV pm am rad mph kph rpm atm sec cal kcal cc erg dyn ohm C F T H kN MN mN mV kV MV mW MW "
    "GW kB MB GB TB px qt pt ha um us ns ps Ci Bq Gy Sv lm lx mT nT pF nF uF mF mH kA uA dB ly AU au pc cd yr wk mo "
    "hp Wh ct ug cL cl Da bp nC mC uC u sr Nm mM pH kmph KG gm Rs rs kr sq cu cP ppm ppb"
)
_BASES = (
    "m", "g", "s", "J", "W", "V", "A", "N", "L", "l", "K", "M", "B", "b", "F", "C", "H", "T", "S", "Pa", "Hz", "eV",
    "Wh", "Ah", "Wb", "Sv", "Gy", "Bq", "Ci", "cal", "mol", "bar", "ohm",
)  # fmt: skip
_PREFIXES = {  # of unit names that are spelled out
    "femto": "f", "pico": "p", "nano": "n", "micro": "u", "milli": "m", "centi": "c", "deci": "d", "kilo": "k",
    "mega": "M", "giga": "G", "tera": "T",
}  # fmt: skip
_CAPITALS = {
    "AM": "am", "PM": "pm", "Kg": "kg", "KG": "kg", "Km": "km", "KM": "km", "Cm": "cm", "CM": "cm", "MM": "mm",
    "KB": "kB", "Kb": "kb",
}  # fmt: skip
_PREFIXED = {  # in \text only: bare letters such as kT are products
    *(prefix + base for prefix in "fpnumcdkMGT" for base in _BASES),
    *(base for base in _BASES if len(base) > 1),
    *("RM", "kt", "Mt", "ac", "fl", "Hg", "li", "mu"),
    *_CAPITALS,
}
_SPOKEN = {  # commands and signs inside a unit
    "\\text": "", "{": "", "}": "", "\\cdot": " ", "(": " ", ")": " ", "\\Omega": "ohm", "\\mu ": "u", "\\mu": "u",
    "Quadrat": "square ", "Kubik": "cubic ",
}  # fmt: skip
_POWERS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
_EQUAL = {
    "mph": {"mi": 1, "h": -1},
    "kph": {"km": 1, "h": -1},
    "kmph": {"km": 1, "h": -1},
    "cc": {"cm": 3},
    "mL": {"cm": 3},
    "l": {"dm": 3},
}
_TEMPERATURES = {
    "celsius": "degreeC", "celsius degree": "degreeC", "C degree": "degreeC",
    "fahrenheit": "degreeF", "degree fahrenheit": "degreeF", "F degree": "degreeF",
}  # fmt: skip
_SMALL_WORDS = frozenset(("of", "in", "a", "an", "per", "sq", "cu", "on"))
SCALES = {
    "hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12, "quadrillion": 15, "lakh": 5, "crore": 7,
    "millionen": 6, "milliarde": 9, "milliarden": 9, "万": 4, "亿": 8,
}  # fmt: skip
NO_UNIT = SCALES.keys() | words(
    "or and not no nor but if when where is are was be been being possibly maybe perhaps about approximately around "
    "almost nearly roughly at least most more less fewer than over under to from except unless only either neither "
    "both mod modulo with without for any all every some none each other another else then also exactly cannot can "
    "could would should might may must will wrong incorrect false never i think guess assume assuming given since "
    "because by between up down plus minus divided half double twice negative dozen through until above below after "
    "before as the which that this these those such so "
    # a choice, a correction or a denial
    "vs versus xor alternatively alternative instead rather otherwise actually sorry wait hmm correction wrongly "
    "unlike excluding including likely probably unsure oder ou oppure und et y nicht pas non eller "
    # an operation, or why a number is none
    "squared cubed factorial choose inverse reciprocal raised halved doubled tripled triple quadruple negated log ln "
    "exp sqrt pi tau alpha beta gamma delta lambda theta sigma omega phi th nd rd infinity repeating recurring "
    "imaginary reject rejected extraneous excluded invalid discard discarded impossible undefined fails "
    # a rough number, another number or another base
    "approx approximate ish estimate estimated root conjugate score gross mln mil mio binary octal hex hexadecimal ca "
    "circa etwa bis mehr weniger als mindestens höchstens halb kein keine"
)
_TENS = "twent|thirt|fort|fift|sixt|sevent|eight|ninet"
_TEENS = "(?:thir|four|fif|six|seven|eigh|nine)teen"
# Behind a number it is another number: five hundredths, 5 millions, 5 halves.
_PART_OR_SCALE = compile_full_match(
    rf"halves|thirds|(?:four|fif|six|seven|eigh|nin|ten|eleven|twelf|{_TEENS}|(?:{_TENS})ie)ths"
    r"|tens|dozens|(?:hundred|thousand|[a-z]{1,8}illion|lakh|crore)(?:s|ths?)?"
)
_LAST_NUMBER = compile_full_match(  # the last word of another number: 5 sixth, 5 and a hundred, ten-fold
    rf"third|(?:four|fif|six|seven|eigh|nin|ten|eleven|twelf|{_TEENS}|(?:{_TENS})ie)th|[a-z-]+fold|zero|one|two"
    rf"|three|four|five|six|seven|eight|nine|ten|eleven|twelve|{_TEENS}|(?:{_TENS})y"
)
_SHORT_WORDS = frozenset((  # things of three letters; other bare letters may be a product
    "men", "boy", "kid", "man", "day", "box", "car", "cat", "dog", "egg", "pen", "bag", "hen", "cup", "ton", "pie",
    "cow", "pig", "hat", "jar", "key", "toy", "bus", "ant", "bee", "won", "yen", "per", "bar", "lux", "sqm",
))  # fmt: skip
MOST_WORDS = 5
_LETTERS = compile_quick_pattern(r"[a-zA-Z]{2,}")
_CHINESE_NO_UNIT = frozenset("半多约至到不零几十百千或和上下左右前后内外余来倍点分之以过超近低高少最每概")
_RAISED = compile_quick_pattern(r"\b([a-zA-Z]{1,20}) (squared|cubed)\b")
_US = compile_quick_pattern(r"\bU\.?S\.? dollars?\b")
_LETTER = "a-zA-Z\u00c0-\u024f\u0400-\u04ff\u4e00-\u9fff"
_RAISED_WORD = compile_full_match(rf"([{_LETTER}.-]*[{_LETTER}])\^?(-?\d)?")
_WORD = compile_full_match(rf"[{_LETTER}]+(?:-[{_LETTER}]+)*\.?(?:[a-zA-Z]\.?)?(?:\^?-?\d)?")
_SYMBOLS = str.maketrans(
    {"µ": "u", "Ω": "ohm", "°": " degree ", "%": "percent", "‰": "permille", "€": "euro", "$": "usd", "£": "pounds"}
    | {"Å": "angstrom", "·": " ", "⋅": " "}
)


def unit_name(text: str) -> str | None:
    """Return one name for all spellings of a unit, with or without signs such as ``µ``; None for other words.

    >>> [unit_name(text) for text in ("kilograms", "km/h", "m s^-1", "°C", "dozen", "or 6")]
    ['kg', 'h^-1 km', 'm s^-1', 'degreeC', None, None]
    """
    name, power = read_unit(text.translate(_SYMBOLS)) or (None, 0)
    return name if power == 0 else None


def split_scale(text: str) -> tuple[int, str]:
    """Split the words behind a number into a power of ten and the rest.

    >>> split_scale("million people"), split_scale("km"), split_scale("hundred thousand")
    ((6, 'people'), (0, 'km'), (5, ''))
    """
    words, power = text.split(), 0
    while words and (scale := words[0].lower().removesuffix("s")) in SCALES:
        power += SCALES[scale]
        del words[0]
    return power, " ".join(words)


def has_no_unit(text: str) -> bool:
    """Return whether one of the words names another number, a doubt or an alternative: ``dozen``, ``or 6``."""
    words = map(str.lower, _LETTERS.findall(text))
    return unit_name(text) is None and any(word in NO_UNIT or _PART_OR_SCALE(word) for word in words)


def is_spoken(word: str) -> bool:
    """Return whether bare letters are a word or known unit rather than a product of as many variables.

    >>> is_spoken("apples"), is_spoken("men"), is_spoken("mph"), is_spoken("pqr"), is_spoken("abh")
    (True, True, True, False, False)
    """
    if len(word) == WORD:
        return (
            word in SHORT_UNITS or word.lower() in _SHORT_WORDS or word.lower() in UNIT_NAMES or word.lower() in NO_UNIT
        )
    return len(word) == 2 or not word.isascii() or is_word(word)


def read_unit(text: str) -> tuple[str | None, int] | None:
    """Return the short name and the power of ten of a unit; None if the words are not a unit."""
    for command, spoken in _SPOKEN.items():
        text = text.replace(command, spoken)
    text = _US.sub("dollar", text)
    text = " ".join(text.replace("/", " per ").replace("electron volt", "electronvolt").split())
    power, rest = split_scale(_RAISED.sub(_raised, text).replace(" ^", "^").replace("*", " "))
    if not (words := rest.split()):
        return (None, power) if power else None
    if len(words) > MOST_WORDS + 2 or not all(map(_names_a_thing, words)) or _LAST_NUMBER(words[-1].lower()):
        return None
    if words[0].lower().rstrip(".") in ("percent", "pct", "prozent") and len(words) == 1:
        return PERCENT, power
    return _compound(words), power


def _names_a_thing(word: str) -> bool:
    """Return whether a word can be part of a unit. Of one or two letters are only known units: others are variables."""
    base = word.partition("^")[0].strip(".").rstrip("0123456789-")
    if not _WORD(word) or base.lower() in NO_UNIT or _PART_OR_SCALE(base.lower()):
        return False
    if not base.isascii():
        return _CHINESE_NO_UNIT.isdisjoint(base)
    return (
        len(base) > 2
        or base in SHORT_UNITS
        or base in _PREFIXED
        or base.lower() in _SMALL_WORDS
        or base.lower() in UNIT_NAMES
    )


def _compound(words: list[str]) -> str:
    """Read ``square meters per second^2`` as ``m^2 s^-2``; whatever stands behind "per" is divided by.

    >>> _compound(["kg", "m", "per", "s^2"]), _compound(["s^-2", "m", "kg"]), _compound(["degrees", "Celsius"])
    ('kg m s^-2', 'kg m s^-2', 'degreeC')
    """
    powers = Counter[str]()
    power, sign = 1, 1
    for position, word in enumerate(words):
        lower = word.lower().rstrip(".")
        if lower in _POWERS:
            power = _POWERS[lower]
        elif lower == "per":
            sign = -1
        elif lower not in ("of", "in", "a", "an") or (lower == "in" and position == len(words) - 1):
            base, raised = short_unit(word)
            for name, exponent in _EQUAL.get(base, {base: 1}).items():
                powers[name] += sign * power * raised * exponent
            power = 1
    factors = (name if exponent == 1 else f"{name}^{exponent}" for name, exponent in sorted(powers.items()) if exponent)
    unit = " ".join(factors) or "unit"
    return _TEMPERATURES.get(unit, unit)


def short_unit(word: str) -> tuple[str, int]:
    """Return the short name of a unit and its exponent: ``m``, 2 for ``meters^2``."""
    parts = _RAISED_WORD(word.strip("."))
    base, exponent = (parts.group(1), int(parts.group(2) or 1)) if parts else (word, 1)
    if base in SHORT_UNITS or base in _PREFIXED or len(base) == 1:
        return UNIT_NAMES.get(base, _CAPITALS.get(base, base)), exponent
    lower = base.lower()
    return UNIT_NAMES.get(lower, UNIT_NAMES.get(_singular(lower)) or _with_prefix(_singular(lower))), exponent


def _with_prefix(name: str) -> str:
    """Return the short name of a unit with a spelled-out prefix, and any other name as it is.

    >>> _with_prefix("kilowatt"), _with_prefix("microsecond"), _with_prefix("milliner")
    ('kW', 'us', 'milliner')
    """
    for prefix, letter in _PREFIXES.items():
        if name.startswith(prefix) and (unit := UNIT_NAMES.get(name[len(prefix) :])):
            return letter + unit
    return name


def _singular(word: str) -> str:
    """Return ``box`` for ``boxes``, ``penny`` for ``pennies`` and ``meter`` for ``meters``."""
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("xes", "ches", "shes", "sses")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _raised(match: Match) -> str:
    """Write ``feet squared`` as ``feet^2``; "squared" behind anything but a unit is an operation."""
    name, _ = short_unit(match.group(1))
    return f"{match.group(1)}^{_POWERS[match.group(2)]}" if name in SHORT_UNITS or name == "unit" else match.group()


# Units behind the number of an answer.
_LONE_LETTERS = frozenset("JKWLl")  # behind a number and a blank, these are seldom variables
_TEXT_UNIT = compile_quick_pattern(
    r"(?<![\^_])(?:\s|\\cdot ?|/){0,4}\\text ?\{[^{}]*\}(?:\s?\^\s?(?:\{\s?-?\s?\d\s?\}|\d))?\s*\Z"
)
_BARE_UNIT = compile_quick_pattern(
    r"(?<=[\d}\]) ])([a-zA-Z\u00c0-\u024f]{1,20}(?:\.? [a-zA-Z\u00c0-\u024f]{1,20}"
    r"|/[a-zA-Z]{1,20}){0,4})(\s?\^\s?(?:\{\s?-?\d\s?\}|\d))?\Z"
)
_PARENTHESIS = compile_quick_pattern(r"(?<=[\d}]) ?\((?:\\text ?\{)?([a-zA-Z][a-zA-Z /]{1,60})\}?\)\Z")
_DEGREES = compile_quick_pattern(
    r"\s?\^?\s?(?:\\(?:circ|degree) ?|\{\s?\\(?:circ|degree)\s?\}) ?(?:\\text ?\{ ?([CF]) ?\}|([CF]))?\s?\Z"
)
_PERCENT = compile_quick_pattern(r"\s?\\?%\s?\Z")
_CURRENCIES = (
    "euros?|pounds?|yen|yuan|\u00a5|rupees?|won|rubles|dollars?|cents?|[Rr]s"
    "|USD|EUR|GBP|CNY|RMB|JPY|INR|CAD|AUD|CHF|HKD"
)
_MONEY = compile_quick_pattern(
    rf"\A(-?)\s?(?:\\\$|\\text ?\{{ ?({_CURRENCIES})\.? ?\}}|({_CURRENCIES})\.?(?![a-zA-Z]))\s?(-?)\s?(?=[\d.\\])"
)
_SOLAR = {"M": "mass", "L": "luminosity", "R": "radius"}
_QUANTITY = r"(\\text(?:[^{}]|\{[^{}]*\}){1,60})"
UNIT_RULES = rules(  # a unit that is a command, a fraction or a sign as a text
    ("Omega", r"(?<=[\d} ])(?:\\text ?\{ ?([kMm]) ?\} ?|([kM]) ?)?\\Omega\s?\Z", r"\\text{ \1\2ohm}"),
    ("mu", r"(?<=[\d}]) ?\\mu ?\\text ?\{ ?", r"\\text{ u"),
    ("mu", r"(?<=[\d}]) ?\\mu ?([msg])\s?\Z", r"\\text{ u\1}"),
    (
        "odot",
        r"(?<=[\d}]) ?([MLR]) ?_ ?(?:\\odot|\{ ?\\odot ?\}) ?\Z",
        lambda sign: f"\\text{{ solar {_SOLAR[sign.group(1)]}}}",
    ),
    ("frac", rf"\\frac ?\{{ ?{_QUANTITY}\}} ?\{{ ?{_QUANTITY}\}}\s?\Z", r"\1/\2"),
    ("degree", r"(?<=\d) ?degrees? ([CF])\Z", r"^\\circ\\text{\1}"),
    ("per cent", "per cent", "percent"),
    ('"', r'(?<=\d) ?"', "''"),
)
MINUTES_OF_ARC = compile_full_match(
    r"(-?\d{1,9}) ?\^ ?(?:\\circ|\{ ?\\circ ?\}) ?(\d{1,2})'(?: ?(\d{1,2}(?:\.\d{1,9})?)'')?"
)
_TIMES_OR_LENGTHS = (
    r"days?|d|hours?|hrs?|h|minutes?|mins?|min|seconds?|secs?|sec|s|feet|foot|ft|inch(?:es)?|in|lbs?|pounds?|oz|ounces?"
    r"|kg|g|km|m|cm|mm|years?|months?|weeks?|Stunden?|Minuten?|Sekunden?"
)
_COMPOUND = compile_quick_pattern(
    rf"\A(?:\d{{1,9}}(?:\.\d{{1,9}})? ?(?:{_TIMES_OR_LENGTHS})\.?(?![a-zA-Z]),? ?(?:(?:and|und) )?){{2,4}}\Z"
)
_PART_OF_COMPOUND = compile_quick_pattern(
    rf"(\d{{1,9}}(?:\.\d{{1,9}})?) ?({_TIMES_OR_LENGTHS})\.?,? ?(?:(?:and|und) )?"
)
_SIZES: Mapping[str, tuple[int, str]] = {  # of the units of quantities in several units
    "s": (1, "s"), "min": (60, "s"), "h": (3600, "s"), "day": (86400, "s"), "wk": (604800, "s"),
    "in": (1, "in"), "ft": (12, "in"), "yd": (36, "in"), "mi": (63360, "in"), "oz": (1, "oz"), "lb": (16, "oz"),
    "mm": (1, "mm"), "cm": (10, "mm"), "m": (1000, "mm"), "km": (1000000, "mm"), "g": (1, "g"), "kg": (1000, "g"),
    "month": (1, "month"), "yr": (12, "month"), "cent": (1, "cent"), "dollar": (100, "cent"),
}  # fmt: skip
_FEET = compile_full_match(r"(\d{1,9}) ?' ?(\d{1,9}(?:\.\d{1,9})?) ?''")
_PRIMES = compile_quick_pattern(r"(?<=\d) ?('{1,2})\Z")


def split_unit(text: str) -> tuple[str, str | None, int]:
    r"""Split an answer into the part without a unit, the unit's short name (or None), and a power of ten.

    >>> split_unit(r"5\text{ square meters}"), split_unit("9 (apples)"), split_unit(r"2\text{ million}")
    (('5', 'm^2', 0), ('9', 'apple', 0), ('2', None, 6))
    >>> split_unit(r"4\text{ or 5}"), split_unit("3x")
    (('4\\text{ or 5}', None, 0), ('3x', None, 0))
    """
    if money := _MONEY.match(text):
        rest, unit, power = split_unit(text[money.end() :])
        name, _ = short_unit((money.group(2) or money.group(3) or "dollars").lower())
        sign = money.group(1) or money.group(4)
        return (text, None, 0) if unit not in (None, name) else (sign + rest, name, power)
    if primes := _PRIMES.search(text):
        return text[: primes.start()], "ft" if len(primes.group(1)) == 1 else "in", 0
    if percent := _PERCENT.search(text):
        return text[: percent.start()], PERCENT, 0
    if degrees := _DEGREES.search(text):
        scale = degrees.group(1) or degrees.group(2) or ""
        return text[: degrees.start()], DEGREE + scale, 0
    rest, words = _words_behind(text)
    unit = read_unit(words) if words else None
    return (rest, *unit) if unit else (text, None, 0)


def _words_behind(text: str) -> tuple[str, str]:
    """Split an answer into a number and the words behind it that may be its unit; "" for others."""
    if parenthesis := _PARENTHESIS.search(text):
        return text[: parenthesis.start()], parenthesis.group(1)
    rest, pieces = text, []
    while (piece := _TEXT_UNIT.search(rest)) and len(pieces) < MOST_WORDS:
        pieces.insert(0, piece.group())
        rest = rest[: piece.start()]
    if pieces and rest.strip():
        return rest.strip(), "".join(pieces)
    if bare := _BARE_UNIT.search(text):
        words, start = bare.group(1), bare.start()
        blank = text[start - 1 : start] == " "
        listed = words.replace("/", " ").replace(".", "").split()
        letters = blank and ("/" in words or words in _LONE_LETTERS or listed[0] in ("sq", "cu"))  # each may be a unit
        known = all(word in SHORT_UNITS and (len(word) > 1 or letters) for word in listed)
        long = blank and all(map(is_spoken, listed)) and len(words) >= 3
        number = text[:start].strip()
        if (known or long) and (number[-1:].isdigit() or number.endswith(("}", "\\pi"))):
            return number, words + (bare.group(2) or "")
    return text, ""


def total_of(quantities: Sequence[Any]) -> tuple[Any, str] | None:
    """Return the sum of quantities of different units in the smallest one of their dimension; None if they have none.

    >>> from grading.expressions.forms import Value
    >>> total_of((Value(1, "h"), Value(30, "min"))), total_of((Value(1, "h"), Value(30, "cm")))
    ((5400, 'total s'), None)
    """
    names = [getattr(quantity, "unit", None) or "" for quantity in quantities]
    names = ["min" if name == "m" and "h" in names else name.removeprefix(TOTAL) for name in names]
    sizes = [_SIZES.get(name, (0, "")) for name in names]
    units = {small for _, small in sizes}
    if units == {""} or len(units) != 1 or len(set(names)) < len(names):
        return None
    return sum(
        quantity.expression * size for quantity, (size, _) in zip(quantities, sizes, strict=True)
    ), TOTAL + units.pop()


def with_compounds(text: str) -> str:
    r"""Return ``1 h 30 min`` and ``5'7''`` with their units as text.

    >>> with_compounds("1 h 30 min"), with_compounds("5'7''"), with_compounds("3x")
    ('1\\text{ h} 30\\text{ min} ', '5\\text{ ft} 7\\text{ in}', '3x')
    """
    if feet := _FEET(text):
        return f"{feet.group(1)}\\text{{ ft}} {feet.group(2)}\\text{{ in}}"
    return _PART_OF_COMPOUND.sub(r"\1\\text{ \2} ", text) if _COMPOUND.match(text) else text
