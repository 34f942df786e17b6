"""Show texts to people: unchanged inside Markdown, with nothing interpreted, and shortened if they are long."""

import html
from collections.abc import Collection, Iterable, Sequence

from core.text.patterns import compile_quick_pattern

# Within a word, _ means nothing; brackets mean nothing unless one of these follows them.
MARKS = compile_quick_pattern(r"[\\`*|$~]|\](?=[(\[:])|(?<!\w)_|_(?!\w)")
# Bare addresses become links too; an invisible character behind these parts prevents that.
ADDRESS = compile_quick_pattern(r"(?i)://|www\.|@")
WORD_JOINER = "\u2060"


def escape_markdown(text: str) -> str:
    """Return ``text`` on one line, so that Markdown and HTML show it and interpret nothing in it.

    >>> escape_markdown("a|b ![x](http://x.example)").replace(WORD_JOINER, "·")
    'a\\\\|b ![x\\\\](http://·x.example)'
    """
    text = MARKS.sub(r"\\\g<0>", html.escape(" ".join(text.split()), quote=False))
    return ADDRESS.sub(rf"\g<0>{WORD_JOINER}", text)


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Return a table of Markdown; ``left``: the columns that are aligned left; the others hold numbers."""
    rule = "|".join("---" if number in left else "--:" for number in range(len(columns)))
    header, *body = (f"| {' | '.join(line)} |" for line in (columns, *rows))
    return "\n".join([header, f"|{rule}|", *body])


def shorten(text: str, longest: int) -> str:
    """Return ``text``, or its two ends of ``longest`` characters together, with a note of how much is left out."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n\n[… {len(text) - 2 * half:,} characters left out …]\n\n{text[-half:]}"
