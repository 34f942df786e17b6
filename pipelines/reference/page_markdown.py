"""Markdown helpers of the reference pages."""

import html
from collections.abc import Iterable, Sequence


def prose(text: str) -> str:
    """Return ``text`` on one line, with its `code` as code and all other characters escaped."""
    parts = " ".join(text.split()).split("`")
    for index in range(0, len(parts), 2):
        parts[index] = html.escape(parts[index], quote=False).replace("*", r"\*")
    return "`".join(parts).replace("|", r"\|")


def code(value: object) -> str:
    """Format ``value`` as code in a table."""
    return f"`{str(value).replace('|', chr(92) + '|')}`"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format rows of Markdown as a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def block(language: str, text: str) -> str:
    """Format ``text`` as a block of code."""
    return f"```{language}\n{text.strip()}\n```"


def page(title: str, *parts: str) -> str:
    """Join ``parts`` to a page."""
    return "\n\n".join([f"# {title}", *parts]) + "\n"
