r"""Read answers that are no mathematics: dates, times of day, and text, where order and signs count.

Text are words, capitals side by side (``XYZ``, ``CO_2``), lists inside ``\text{…}``, and digits that are joined without
being arithmetic: three of them (``1-3-2``), with a leading zero (``0-306``), two whole numbers (``2-0``), or a range
before a unit (``5-7 days``).
"""

import math

from core.text.patterns import Match, compile_full_match, compile_quick_pattern
from grading.expressions.forms import Day, Time, Words
from grading.expressions.units import read_unit
from grading.vocabulary import WORD, is_word

TEXT = compile_quick_pattern(r"\\text ?\{([^{}]*)\}")
_MONTHS = (
    "january januar jan", "february februar feb", "march märz maerz mar", "april apr", "may mai", "june juni jun",
    "july juli jul", "august aug", "september sept sep", "october oktober oct okt", "november nov",
    "december dezember dec dez",
)  # fmt: skip
MONTHS = {name: month for month, names in enumerate(_MONTHS, start=1) for name in names.split()}
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_WEEKDAY = compile_quick_pattern(
    r"(?i)\A(?:on )?((?:mon|tues?|wednes|thurs?|fri|satur|sun)day|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch)"
    r"(?:,? the|, den|,)? "
)
_WEEKDAYS = {"mo": 0, "tu": 1, "di": 1, "we": 2, "mi": 2, "th": 3, "do": 3, "fr": 4, "sa": 5, "su": 6, "so": 6}
_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_DATES = tuple(
    map(
        compile_full_match,
        (
            r"(?P<year>\d{4}) ?[-/.] ?(?P<month>\d{1,2}) ?[-/.] ?(?P<day>\d{1,2})",
            r"(?P<month>\d{1,2}) ?(?P<sign>[-/.]) ?(?P<day>\d{1,2}) ?[-/.] ?(?P<year>\d{4})",
            rf"(?i)(?P<month>{_MONTH})\.? (?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,? ?(?P<year>\d{{4}}))?",
            rf"(?i)(?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.)?(?: day)?(?: of)? ?(?P<month>{_MONTH})\.?,?"
            r"(?: ?(?P<year>\d{4}))?",
            rf"(?i)(?P<month>{_MONTH})\.?,? (?:of )?(?P<year>\d{{4}})",
            r"(?P<month>\d{1,2}) ?月 ?(?P<day>\d{1,2}) ?[日号]",
        ),
    )
)
_CLOCK = compile_full_match(
    r"(?i)(?:at )?(?P<hour>\d{1,2}) ?(?:: ?(?P<minute>\d\d))?(?: ?: ?(?P<second>\d\d))? ?"
    r"(?:(?P<half>a|p)\.? ?m\.?|(?P<spoken>o.?clock|uhr|noon|midnight))?"
    r"(?: in the (?P<part>morning|afternoon|evening))?"
)
_CHINESE_CLOCK = compile_full_match(
    r"(?P<part>上午|早上|下午|晚上)? ?(?P<hour>\d{1,2}) ?(?::|(?P<spoken>点|时)) ?(?P<minute>\d\d)? ?分?"
)
_MORNINGS = ("a", "morning", "上午", "早上")
_NAMED = {"noon": Time(12, 0, 0, "pm"), "12 noon": Time(12, 0, 0, "pm"), "midnight": Time(12, 0, 0, "am")}
_ARITHMETIC_NOT = compile_full_match(
    r"(?:[A-Za-z]{1,12}\.? ?#?|\+)?\d{1,30}(?: ?[-/] ?[\dX]{1,30}){2,9}|[A-Z](?: ?- ?[A-Z]){2,20}"  # three of them
    r"|(?:[A-Za-z]{1,12}\.? ?)?(?:0\d{0,30} ?[-/] ?\d{1,30}|\d{1,30} ?[-/] ?0\d{1,30})"  # with a leading zero
)
_TWO_WHOLE = compile_full_match(r"\d{1,30} ?- ?\d{1,30}(?:, ?\d{1,30} ?- ?\d{1,30}){0,20}")
_RANGE = compile_full_match(
    r"(\d[\d.,]{0,20}) ?(?:-| to | bis ) ?(\d[\d.,]{0,20})(?: ?(?:(\\?%|\^ ?\{? ?\\circ ?\}?)|(\D.{0,40})))?"
)
_ELEMENTS = "H|He|Li|Be|B|C|N|O|F|Ne|Na|Mg|Al|Si|P|S|Cl|Ar|K|Ca|Cr|Mn|Fe|Co|Ni|Cu|Zn|Br|Ag|Sn|I|Ba|Au|Hg|Pb|U"
_INDEX = r"(?: ?_ ?(?:\d{1,3}|\{\d{1,3}\}))?"
_CAPITALS = compile_full_match(
    rf"(?:[A-Z]{_INDEX} ?){{2,60}}|(?:\(?(?:{_ELEMENTS}){_INDEX}\)?{_INDEX} ?){{2,30}}(?: ?\^ ?\{{?\d?[+-]\}}?)?"
    rf"|(?:{_ELEMENTS}){_INDEX} ?\^ ?\{{?\d?[+-]\}}?"
)
_SIGNED_CODE = compile_full_match(
    r"[A-Z][A-Za-z]{0,3}[+-]{1,2}|[A-Za-z]{1,4}\d{1,8}[A-Z-][\w-]{0,20}|[A-Z]{1,3}-\d{1,8}"
)
_ARTICLE = compile_quick_pattern(r"\A(?i:an?|the) (?=[a-zA-Z]{3})")
_PROSE = compile_full_match(r"[a-zA-Z][a-zA-Z '\-]*[a-zA-Z.!?]")
_FUNCTIONS = frozenset(("sin", "cos", "tan", "log", "exp", "sqrt", "arctg", "arcsin", "arccos", "arctan", "lim"))
_SHORT_WORDS = frozenset(
    ("no", "so", "it", "is", "of", "in", "at", "on", "to", "by", "an", "or", "if", "up", "be", "do")
)
_VERDICTS = frozenset(("yes", "no", "true", "false", "none", "odd", "even"))
_LABEL = compile_quick_pattern(
    r"\A(?:[A-Za-z](?:_\{?\w\}?)?|(?:the )?(?:final )?answer(?: is)?) ?[=:] ?|\A(?i:the answer is|it is|it's|they are) "
)


def prose_of(text: str) -> str:
    r"""Return a text without ``\text`` and repeated blanks."""
    return " ".join(TEXT.sub(r"\1", text).replace("~", " ").split())


def read_date(text: str) -> Day | None:
    """Return the day that a text is; numbers are in the order year, month, day, or as in 5.3.2024 and 3/5/2024.

    >>> read_date("2024-03-05") == read_date("March 5th, 2024") == read_date("5. März 2024"), read_date("2024-13-40")
    (True, None)
    """
    text = prose_of(text).strip().removesuffix(".")
    named = _WEEKDAY.search(text)
    text = text[named.end() :] if named else text
    found = next(filter(None, (pattern(text) for pattern in _DATES)), None)
    if found is None:
        return None
    parts = found.groupdict()
    name, year = parts["month"], int(parts.get("year") or 0) or None
    month, day = MONTHS.get(name.lower()) or int(name), int(parts["day"]) if "day" in parts else None
    if day and (parts.get("sign") == "." or ("sign" in parts and month > 12)):
        month, day = day, month
    if not 1 <= month <= 12 or (day is not None and not 1 <= day <= _DAYS[month - 1]):
        return None
    return Day(year, month, day, _WEEKDAYS[named[1][:2].lower()] if named else None)


def same_day(one: Day, other: Day) -> bool:
    """Return whether two days are the same; the day of the week counts where both state it."""
    weekdays = {one.weekday, other.weekday} - {None}
    return (one.year, one.month, one.day) == (other.year, other.month, other.day) and len(weekdays) < 2


def read_time(text: str) -> tuple[Time, bool] | None:
    """Return the time of day that a text may be, and whether it can be nothing else, such as a ratio.

    >>> read_time("5:00 PM"), read_time("4:10"), read_time("1:0")
    ((Time(hour=5, minute=0, second=0, half='pm', padded=False), True), \
(Time(hour=4, minute=10, second=0, half=None, padded=False), False), None)
    """
    text = prose_of(text).strip()
    if named := _NAMED.get(text.lower()):
        return named, True
    clock = _CHINESE_CLOCK(text) or _CLOCK(text)
    if clock is None:
        return None
    parts = clock.groupdict()
    hour, minute, second = (parts.get(part) for part in ("hour", "minute", "second"))
    said = parts.get("half") or parts["part"]
    half = ("am" if said.lower() in _MORNINGS else "pm") if said else None
    spoken = half or parts["spoken"]
    time = Time(int(hour or 0), int(minute or 0), int(second or 0), half, clock["hour"].startswith("0"))
    is_clock = (time.hour, time.minute) <= ((12, 59) if half else (24, 0)) and max(time.minute, time.second) < 60
    if not is_clock or (minute is None and not spoken):
        return None
    is_padded = any(part and part.startswith("0") and len(part) == 2 for part in (hour, minute, second))
    is_reducible = (
        len(clock["hour"]) == 2 and math.gcd(time.hour, time.minute) > 1
    )  # a ratio would be 2:5, and not 12:30
    return time, bool(spoken) or is_padded or is_reducible


def same_time(one: Time, other: Time) -> bool:
    """Return whether two times are the same; where one of them states no half of the day, either may be meant.

    >>> same_time(Time(17, 0), Time(5, 0, 0, "pm")), same_time(Time(5, 0), Time(17, 0))
    (True, False)
    """
    if (one.minute, one.second) != (other.minute, other.second):
        return False
    if bool(one.half) == bool(other.half):
        return _hour(one) == _hour(other)
    stated, open_ = (one, other) if one.half else (other, one)
    return _hour(stated) == open_.hour or (stated.hour == open_.hour and not open_.padded)


def _hour(time: Time) -> int:
    return time.hour % 12 + 12 * (time.half == "pm") if time.half else time.hour % 24


def capitals(text: str) -> str | None:
    """Return capital letters side by side, such as XYZ or CO_2, without blanks; None for anything else.

    >>> capitals("B A C"), capitals("CO_{2}"), capitals("AB+C"), capitals("ab")
    ('BAC', 'CO_2', None, None)
    """
    return text.translate(_PLAIN) if _CAPITALS(text) else None


def joined(text: str, *, strictly: bool = True) -> bool:
    """Return whether digits are joined without being arithmetic; ``strictly``: unless two whole numbers alone are."""
    plain = prose_of(text).strip("() ")
    if _ARITHMETIC_NOT(plain) or (not strictly and _TWO_WHOLE(plain)):
        return True
    parts = _RANGE(plain)
    return bool(parts and (parts.group(3) or (parts.group(4) and read_unit(parts.group(4)))))


def read_text(text: str) -> Words | None:
    r"""Return a gold answer that is text and no mathematics; None for other answers."""
    whole = TEXT.fullmatch(text.strip())
    prose = prose_of(text)
    is_code = capitals(prose) or _SIGNED_CODE(prose) or joined(text.strip("() "), strictly=False)
    is_foreign = not any(map(str.isdigit, prose)) and any(sign.isalpha() and not sign.isascii() for sign in prose)
    if is_code or is_foreign or (whole and _is_listed(whole.group(1))):
        return Words(folded(prose))
    return as_words(prose, is_text="\\text" in text)


def _is_listed(content: str) -> bool:
    """Return whether the content of a text is a list, or digits that are joined or named."""
    return any(sign in content for sign in ",;/|&") or _TWO_WHOLE(content.strip()) is not None


def text_of(answer: str) -> Words:
    """Return an answer as text, without a label such as "Answer:" or a name before it."""
    return Words(folded(_LABEL.sub("", prose_of(answer))))


_PLAIN = str.maketrans({" ": None, "{": None, "}": None})
_WORD = compile_quick_pattern(r"[^\W\d_]+")
_FINAL_MARK = compile_quick_pattern(r"(?<=[^\s.!?]) ?[.!?]\Z")
_PERCENT_TWICE = compile_quick_pattern(r"(?<=\d)\\?%(?= ?- ?\d)")
_JOIN = compile_quick_pattern(r"(?<=[\w.]) ?(--?| to | bis ) ?(?=\d)|(?<=\d) ?/ ?(?=\d)")
_LETTERS = compile_full_match(r"[A-Z](?:,[A-Z])+")
_LISTED = compile_quick_pattern(r" ?([,;]) ?(?:and )?| and ")


def folded(prose: str) -> str:
    """Return a text without what makes no difference: the case of words, articles, blanks between capitals and signs.

    >>> folded("The Ellipse."), folded("B A C"), folded("5 to 7 days") == folded("5-7 day"), folded("B, A")
    ('ellipse', 'BAC', True, 'BA')
    """
    prose = _FINAL_MARK.sub("", prose.strip())
    if _LETTERS(listed := _LISTED.sub(",", prose)):
        return listed.replace(",", "")
    if (code := capitals(prose)) and prose.lower() not in _VERDICTS:
        return code
    if span := _RANGE(_PERCENT_TWICE.sub("", prose)):
        low, high, sign, words = span.groups()
        unit = (read_unit(words or "") or ("",))[0]
        if sign:
            unit = "%" if "%" in sign else "degree"
        if unit or not words:
            return f"{low}-{high} {unit}".strip()
    prose = _JOIN.sub(lambda sign: "/" if "/" in sign.group() else "-", _LISTED.sub(",", _ARTICLE.sub("", prose)))
    return " ".join(_WORD.sub(_folded_word, prose.replace("{", "").replace("}", "")).split())


def _folded_word(word: Match) -> str:
    """Return a word in small letters; of letters that are no word, such as ``HTHT`` or ``Co``, the case counts."""
    letters = word.group()
    return letters.casefold() if is_word(letters) or letters.lower() in _SHORT_WORDS else letters


def as_words(prose: str, *, is_text: bool) -> Words | None:
    r"""Return prose as words, if it is a ``\text`` or one of them is no product of letters."""
    if not _PROSE(prose) or not (is_text or _has_word(prose)):
        return None
    return Words(folded(prose))


def _has_word(prose: str) -> bool:
    """Return whether one of the words has four letters, or three with a vowel, or is a series such as ``HTT``."""
    if prose.lower() == "no":
        return True
    return _FUNCTIONS.isdisjoint(prose.split()) and any(map(_is_long, prose.replace("-", " ").split()))


def _is_long(word: str) -> bool:
    if len(word) != WORD:
        return len(word) > WORD
    is_series = word.isupper() and len(set(word)) < WORD
    return is_series or (word != "abc" and not frozenset("aeiouAEIOU").isdisjoint(word))
