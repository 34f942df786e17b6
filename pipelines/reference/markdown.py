"""Markdown helpers of the reference pages."""

import html
from collections.abc import Iterable, Sequence


def prose(text: str) -> str:
    """``text`` on one line, with its `code` as code and everything else as it is."""
    parts = " ".join(text.split()).split("`")
    for index in range(0, len(parts), 2):
        parts[index] = html.escape(parts[index], quote=False).replace("*", r"\*")
    return "`".join(parts).replace("|", r"\|")


def code(value: object) -> str:
    """``value`` as code in a table."""
    return f"`{str(value).replace('|', chr(92) + '|')}`"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of Markdown as a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def block(language: str, text: str) -> str:
    """``text`` as a block of code."""
    return f"```{language}\n{text.strip()}\n```"


def page(title: str, *parts: str) -> str:
    """A page of ``parts``."""
    return "\n\n".join([f"# {title}", *parts]) + "\n"
