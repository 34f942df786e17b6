"""Compile every regular expression of the project, so that one test can measure all of them.

Texts of data can be hostile, and a search for ``\\s*:`` takes quadratic time on blanks. RE2 takes linear time on any
text, but 17 µs for a match for which `re` takes 1.3 µs. So RE2 searches whole texts, once per text. `re` compiles what
runs many times per answer, what needs look-around, and what must know the blanks and digits of all of Unicode: such a
pattern has to be linear by itself, without neighbouring repetitions of the same characters and without an unbounded
repetition at the start of a search. ``tests/unit/core/test_patterns.py`` measures both kinds.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import cast

import re2

from core.errors import InputError, first_line

Pattern = re.Pattern[str]
Match = re.Match[str]
FullMatch = Callable[[str], Match | None]

SEARCHED: list[Pattern] = []  # all patterns that are searched for
MATCHED: list[FullMatch] = []  # all that a whole text has to match


def compile_pattern(expression: str) -> Pattern:
    """Return ``expression`` by RE2: linear on any valid Unicode. ``\\s``, ``\\d`` and ``\\w`` are ASCII."""
    pattern = cast(Pattern, re2.compile(expression))
    SEARCHED.append(pattern)
    return pattern


def compile_quick_pattern(expression: str) -> Pattern:
    """Return ``expression`` by `re`, to search for many short matches; it has to be linear by itself."""
    pattern = re.compile(expression)
    SEARCHED.append(pattern)
    return pattern


def compile_full_match(expression: str) -> FullMatch:
    """Return the function that matches a whole text with ``expression`` by `re`; it has to be linear by itself."""
    match = re.compile(expression).fullmatch
    MATCHED.append(match)
    return match


@lru_cache(maxsize=1024)
def compile_user_pattern(expression: str) -> Pattern:
    """Return a pattern that a user or a row of data gives, by RE2.

    Raises:
        InputError: RE2 cannot read it, such as a look-ahead or a reference to a group.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return cast(Pattern, re2.compile(expression, options))
    except (re2.error, UnicodeError) as error:
        problem = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else first_line(error)
        raise InputError(
            f"the pattern {expression!r:.80} is not read: {problem}; expected the syntax of RE2, without look-around"
        ) from None
