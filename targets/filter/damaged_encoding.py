"""Find and repair texts with a damaged encoding: UTF-8 read as Latin-1 or Windows-1252, or letters replaced by "?"."""

from core.text.patterns import Match, compile_pattern, compile_quick_pattern

# The second half of either code page, in which every byte of a character of several bytes has a character of its own.
_REST = "[\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013-\u203a\u20ac\u2122]"
# First bytes of accented and Greek letters and of Cyrillic, then of characters of three bytes, such as most signs.
MISREAD = compile_pattern(f"[\u00c2\u00c3\u00ce-\u00d1]{_REST}|[\u00e0-\u00ef]{_REST}{{2}}")
# Inside a word: what follows a question begins with a blank.
REPLACED = compile_quick_pattern(r"\?(?:(?<=[^\W\d_]{2}\?)[a-z]|(?<=[^\W\d_]\?)[a-z]{2})")
FEWEST_REPLACED = 2  # in a text; one may be a blank that was forgotten


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
