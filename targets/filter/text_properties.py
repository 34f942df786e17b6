"""Measure what the text of a trace shows: the profile of a target, wrong equations, loops, damaged encodings, language.

`measure` copies nothing from the filters that accepted a target: it splits the text again, so that a mistake of a
filter shows.
"""

import zlib
from collections import Counter
from collections.abc import Iterator, Set
from fractions import Fraction
from functools import cache
from typing import Any
from unicodedata import name, normalize

from core.code_digest import SHORT_DIGEST
from core.errors import InputError
from core.files import digest_bytes
from core.text.patterns import Match, compile_pattern, compile_quick_pattern
from grading.answers.extraction import answer_part, extract_boxed
from targets.trace import CLOSE_THINK, OPEN_THINK, Trace

WORD = compile_quick_pattern(r"\d+|[^\W\d_]+")
COMMAND = compile_quick_pattern(r"\\[a-zA-Z]+")
SUPERSCRIPT = compile_quick_pattern("[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+")
SHORTEST_TERM = 4  # letters of a word of the problem that its thoughts repeat; a number may have one digit
SHARED_TERMS = 0.5
HTML_ESCAPE = compile_quick_pattern(r"&(?:lt|gt|amp|quot|apos|nbsp|#\d{1,6}|#x[0-9a-fA-F]{1,5});")

# The second half of either code page, in which every byte of a character of several bytes has a character of its own.
_REST = "[\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u203a\u20ac\u2122]"
# First bytes of accented and Greek letters and of Cyrillic, then of characters of three bytes, such as most signs.
MISREAD = compile_pattern(f"[\u00c2\u00c3\u00ce-\u00d1]{_REST}|[\u00e0-\u00ef]{_REST}{{2}}")
# Inside a word: what follows a question begins with a blank.
REPLACED = compile_quick_pattern(r"\?(?:(?<=[^\W\d_]{2}\?)[a-z]|(?<=[^\W\d_]\?)[a-z]{2})")
FEWEST_REPLACED = 2  # in a text; one may be a blank that was forgotten
# An equation of two numbers within a text.
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
LANGUAGE_WORD = compile_quick_pattern(r"\\[a-zA-Z]+|\$[^$]*\$|[^\W\d_]{2,}")
FEWEST_LETTERS = 40  # a text with fewer could be of any language
CHARACTERS = 2000  # of a text that are read
PACKAGE = "py3langid==0.4.0"
FUNCTION_WORDS = {
    "en": "the and of is that so we this with then which from are not has",
    "de": "und der die das ist nicht wir mit also ein eine von dann sich für",
    "fr": "le la les et est nous que des une donc pour dans pas sont avec",
    "es": "el los las y es que por una del entonces con para no son como",
    "it": "il che di è per una sono della quindi con non gli nel allora come",
    "pt": "os as é que não uma são com para do então por dos mas como",
    "nl": "het een van en is dat niet we dus met voor zijn dan op maar",
    "pl": "i w na jest że nie się z do to więc są dla jak co",
    "tr": "ve bir bu için ile olan ise çok da de olarak daha sonra kadar gibi",
    "vi": "là và của các một không cho được có này với ta thì khi trong",
}
WORDS = {language: frozenset(words.split()) for language, words in FUNCTION_WORDS.items()}
MOST_WORDS = 200  # of another script that are looked at
OTHER_SCRIPT = 0.25  # share of the words


def measure(trace: Trace, *, boxed: bool) -> None:
    """Fill in the profile of an accepted trace, as far as its target shows it; ``boxed``: its answer is in a box."""
    part = answer_part(trace.final, thinking=not trace.turns) or ""
    answer = extract_boxed(part) if boxed else part.strip() or None
    once = trace.target.startswith(OPEN_THINK) and trace.target.count("<think>") == trace.target.count("</think>") == 1
    thoughts, _, rest = trace.target.removeprefix(OPEN_THINK).partition(CLOSE_THINK)
    if trace.turns:  # its thoughts are its turns before the answer
        once = trace.target.count("<think>") == trace.target.count("</think>")
        thoughts, rest = trace.target.removesuffix(part), part.strip()
    trace.verified = answer is not None and (answer == trace.answer if boxed else trace.verdict == "correct")
    trace.has_think = once and bool(thoughts.strip() and rest[:1].strip())
    trace.has_answer = answer is not None
    trace.compression_ratio = compression_ratio(trace.target)
    trace.wrong_equation = next(wrong_equations(thoughts), None) is not None
    _compare(trace, thoughts)


def _compare(trace: Trace, thoughts: str) -> None:
    """Fill in whether problem, thoughts and gold answer belong together, and the form of the problem."""
    problem, gold = trace.problem or "", trace.gold or ""
    words, answer = _words(thoughts), _words(gold)
    answer = {word for word in answer if word.isdigit()} or answer  # units have several spellings
    terms = {word for word in _words(problem) if word.isdigit() or len(word) >= SHORTEST_TERM}
    trace.reaches_answer = answer <= words if answer else gold.strip() in thoughts
    trace.about_problem = trace.reaches_answer or len(terms & words) >= SHARED_TERMS * len(terms)
    trace.language = dominant_language(words)
    trace.gold_is_answer = gold.strip() == trace.answer.strip()
    trace.chars_per_word = len(problem) / max(1, len(problem.split()))
    trace.backslashes = 100 * problem.count("\\") / max(1, len(problem))
    text = problem + trace.target
    trace.non_ascii = 100 - 100 * len(text.encode("ascii", "ignore")) / max(1, len(text))
    trace.gold_digest = digest_bytes(gold.strip().encode())[:SHORT_DIGEST]
    trace.html_escapes = bool(HTML_ESCAPE.search(problem) or HTML_ESCAPE.search(trace.target))


def _words(text: str) -> set[str]:
    """The words and numbers of a text, whatever their case; LaTeX commands are no words."""
    distinct = " ".join(set(text.split()))  # no word spans blanks, and most pieces between them recur
    if not distinct.isascii():
        distinct = SUPERSCRIPT.sub(lambda match: f" {normalize('NFKC', match.group())}", distinct)
    return set(WORD.findall(COMMAND.sub(" ", distinct).casefold()))


def compression_ratio(text: str) -> float:
    """zlib size / size in bytes; 1.0 for an empty text. Prose and mathematics lie at 0.25 to 0.45, loops below 0.1."""
    data = text.encode()
    return len(zlib.compress(data, 6)) / len(data) if data else 1.0


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


def find_misread(text: str) -> tuple[str, str] | None:
    """The first characters of ``text`` that are misread UTF-8, and what they stand for.

    >>> find_misread("9 cm\u00c2\u00b2"), find_misread("9 cm\u00b2")
    (('Â²', '²'), None)
    """
    matches = () if text.isascii() else MISREAD.finditer(text)
    pairs = ((match.group(), _reread(match)) for match in matches)
    return next((pair for pair in pairs if pair[0] != pair[1]), None)


def count_replaced(text: str) -> int:
    """The number of question marks inside words."""
    return len(REPLACED.findall(text)) if "?" in text else 0


def repair(text: str) -> str:
    """``text`` with misread UTF-8 read again."""
    return text if text.isascii() else MISREAD.sub(_reread, text)


def _reread(match: Match) -> str:
    text = match.group()
    try:
        return b"".join(_byte(character) for character in text).decode()
    except UnicodeError:
        return text  # not UTF-8: these are the characters that were meant


def _byte(character: str) -> bytes:
    return character.encode("latin-1" if character < "\u0100" else "cp1252")


def identify_language(text: str) -> str | None:
    r"""The ISO 639-1 code of the language of a text, by its words outside of formulas; None if these are too few."""
    words = [word for word in LANGUAGE_WORD.findall(text[:CHARACTERS]) if word[0] not in "\\$"]
    return _identifier().classify(" ".join(words))[0] if sum(map(len, words)) >= FEWEST_LETTERS else None


def check_languages(names: list[str]) -> None:
    """Raise InputError if py3langid is missing, or does not know one of the languages."""
    known = _identifier().labels if names else []
    if unknown := [name for name in names if name not in known]:
        raise InputError(f"languages: {unknown[0]!r} is none that py3langid knows; expected codes such as en, de, zh")


@cache
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise InputError(
            f"languages: py3langid is not installed in this interpreter; pip install {PACKAGE}, or remove the setting"
        ) from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def dominant_language(words: Set[str]) -> str:
    """Return the language of a text with these words, else the name of their script; "" where neither shows.

    >>> dominant_language({"the", "sum", "is", "7"}), dominant_language({"сумма", "чисел", "равна"})
    ('en', 'cyrillic')
    """
    foreign = [word for word in words if not word.isascii()][:MOST_WORDS]
    scripts = Counter(name(word[0], "").split(" ")[0].split("-")[0].lower() for word in foreign)
    script, count = scripts.most_common(1)[0] if scripts else ("", 0)
    letters = sum(not word.isdigit() for word in words)
    if script != "latin" and count > OTHER_SCRIPT * min(letters, 4 * MOST_WORDS):
        return script
    language, count = max(((language, len(words & of)) for language, of in WORDS.items()), key=lambda pair: pair[1])
    return language if count > 1 else ""
