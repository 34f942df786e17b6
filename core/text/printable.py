"""Show texts of users and models on a terminal, where a control character would be a command."""

# Controls but newline and tab; halves of a surrogate pair, which cannot be written; line separators; and what turns the
# direction of the text around it.
CODES = (
    *(code for code in range(0x20) if chr(code) not in "\n\t"),
    *range(0x7F, 0xA0),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
    *range(0xD800, 0xE000),
)
ESCAPES = {code: ascii(chr(code))[1:-1] for code in CODES}


def printable(text: str) -> str:
    """Return ``text`` with its control characters written as escapes; newlines and tabs stay.

    >>> printable("\\x1b[2J 2\\u00d7\\u202e3")
    '\\\\x1b[2J 2×\\\\u202e3'
    """
    return text.translate(ESCAPES)
