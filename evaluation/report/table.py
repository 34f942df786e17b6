"""The table type of all results: the same rows for a terminal, for Markdown and for a page."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from core.text.markdown import escape_markdown, markdown_table

Kind = Literal["", "group", "average"]
Tone = Literal["", "up", "down", "published"]


@dataclass(frozen=True)
class Cell:
    """A text with a detail, which a page puts below it in small type; ``tone`` colours the text on a page."""

    text: str
    detail: str = ""
    tone: Tone = ""

    def __str__(self) -> str:
        return " ".join(f"{self.text} {self.detail}".split())


@dataclass(frozen=True)
class Row:
    """Cells under the columns; a group is a heading over the rows that follow, an average sums them up."""

    cells: tuple[Cell, ...]
    kind: Kind = ""


class Table:
    """Rows under named columns. ``left``: the columns that are aligned left; the others hold numbers."""

    def __init__(self, columns: Sequence[str], *, left: Sequence[int] = (0,)) -> None:
        self.columns = list(columns)
        self.left = left
        self.rows: list[Row] = []

    @classmethod
    def of_pairs(cls, columns: tuple[str, str], pairs: Iterable[tuple[str, str | int]]) -> "Table":
        """Return a table of names and their values."""
        table = cls(columns)
        for name, value in pairs:
            table.add(name, f"{value:,}" if isinstance(value, int) else value)
        return table

    def add(self, *cells: Cell | str, kind: Kind = "") -> None:
        """Add a row; columns without a cell stay empty."""
        row = [Cell(cell) if isinstance(cell, str) else cell for cell in cells]
        row += [Cell("")] * (len(self.columns) - len(row))
        self.rows.append(Row(tuple(row), kind))

    def to_markdown(self) -> str:
        """Return a Markdown table in which no text is interpreted."""
        lines: list[list[str]] = []
        for row in self.rows:
            mark = {"group": "**", "average": "*"}.get(row.kind, "")
            first, *others = (escape_markdown(str(cell)) for cell in row.cells)
            lines.append([f"{mark}{first}{mark}", *others])
        return markdown_table([*map(escape_markdown, self.columns)], lines, self.left)

    def to_text(self, width: int | None = None) -> str:
        """Format columns for a terminal of ``width`` columns; texts of the first column are cut if they do not fit."""
        grouped = any(row.kind == "group" for row in self.rows)
        lines = [self.columns]
        for row in self.rows:
            first, *others = map(str, row.cells)
            lines.append([f"  {first}" if grouped and row.kind != "group" else first, *others])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        if width:
            widths[0] = min(widths[0], max(8, width - sum(widths[1:]) - 2 * len(widths[1:])))
        return "\n".join("  ".join(self._aligned(line, widths)).rstrip() for line in lines)

    def _aligned(self, line: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
        for number, (text, width) in enumerate(zip(line, widths, strict=True)):
            text = text if len(text) <= width else f"{text[: width - 1]}…"
            yield text.ljust(width) if number in self.left else text.rjust(width)


def percent(share: float) -> str:
    """Format a share in percent."""
    return f"{100 * share:.1f}%"


def signed(share: float) -> str:
    """Format a difference in points."""
    return f"{100 * share:+.1f}"


def score(low: float, mean: float, high: float) -> Cell:
    """Format a score with its interval in percent."""
    return Cell(percent(mean), f"[{100 * low:.1f}, {100 * high:.1f}]")


def change(mean: float, low: float, high: float) -> Cell:
    """Format a difference with its interval in points, coloured where the interval leaves out zero."""
    return Cell(signed(mean), f"[{signed(low)}, {signed(high)}]", "up" if low > 0 else "down" if high < 0 else "")


def power_from(difference: float) -> str:
    """Format the difference that shows with 80% power in points; "unknown" where no share can differ by so much."""
    return f"{100 * difference:.1f}" if difference <= 1 else "unknown"


def p_value(value: float) -> str:
    """Format a p-value for people."""
    return "<0.001" if value < 0.001 else f"{value:.3f}"
