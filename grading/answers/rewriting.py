"""Rules that rewrite a text: a table of them takes the place of a chain of substitutions."""

from collections.abc import Callable

from core.text.patterns import Match, Pattern, compile_quick_pattern

Replacement = str | Callable[[Match], str]
Rule = tuple[str, Pattern, Replacement]  # what a text has in which the pattern is looked for


def rules(*rows: tuple[str, str, Replacement]) -> tuple[Rule, ...]:
    """Return rows of a mark that the text must have, an expression, and what replaces its matches."""
    return tuple((mark, compile_quick_pattern(pattern), replacement) for mark, pattern, replacement in rows)


def rewrite(text: str, rows: tuple[Rule, ...]) -> str:
    """Return a text after the rules, in their order."""
    for mark, pattern, replacement in rows:
        if mark in text:
            text = pattern.sub(replacement, text)
    return text
