"""Metadata of assets for the UI: column schemas, previews, pictures."""

import base64
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from core.text.markdown import escape_markdown, markdown_table

if TYPE_CHECKING:
    import pyarrow as pa

PREVIEW_ROWS = 5
PREVIEW_CHARACTERS = 240


def columns(schema: "pa.Schema") -> dg.TableSchema:
    """Return the columns of a parquet file, for ``dagster/column_schema``."""
    return dg.TableSchema(
        [
            dg.TableColumn(column.name, str(column.type), constraints=dg.TableColumnConstraints(column.nullable))
            for column in schema
        ]
    )


def preview(table: "pa.Table", names: Sequence[str]) -> dg.MarkdownMetadataValue:
    """Show the first rows of ``table`` as Markdown, with long texts shortened and nothing interpreted."""
    shown = table.select(list(names)).slice(0, PREVIEW_ROWS).to_pylist()
    return rows_table(names, ([row[name] for name in names] for row in shown), left=range(len(names)))


def rows_table(
    names: Sequence[str], rows: Iterable[Iterable[Any]], left: Collection[int] = (0,)
) -> dg.MarkdownMetadataValue:
    """Show rows of values; ``left``: the columns that are aligned left; the others hold numbers."""
    cells = [[cell(value) for value in row] for row in rows]
    return dg.MetadataValue.md(markdown_table(names, cells, left) if cells else "none")


def cell(value: Any) -> str:
    """Format one table cell: messages by their last content, a struct of one field by that field, with whitespace
    squeezed and Markdown and HTML escaped."""
    if isinstance(value, list) and value and isinstance(value[-1], Mapping) and "content" in value[-1]:
        value = value[-1]["content"]
    elif isinstance(value, Mapping) and len(value) == 1:
        (value,) = value.values()
    elif isinstance(value, float):
        value = f"{value:.4g}"
    text = " ".join(str(value).split())
    if len(text) > PREVIEW_CHARACTERS:
        text = text[: PREVIEW_CHARACTERS - 1] + "…"
    return escape_markdown(text)


def bullets(texts: Iterable[str]) -> dg.MarkdownMetadataValue:
    """Show texts as a list of Markdown, with nothing interpreted; "none" if there are none."""
    return dg.MetadataValue.md("\n".join(f"- {cell(text)}" for text in texts) or "none")


def rounded(value: float) -> float:
    """Round a measured number to four significant digits; further digits mean nothing."""
    return float(f"{value:.4g}")


def percents(shares: Mapping[str, float], unit: str = "%") -> dict[str, float]:
    """Return shares, or their differences in ``points``, as numbers out of a hundred."""
    return {f"{name}, {unit}": rounded(100 * share) for name, share in shares.items()}


def counts(values: Mapping[str, int], names: tuple[str, str]) -> dg.MarkdownMetadataValue:
    """Format a table of counts, largest first."""
    ordered = sorted(values.items(), key=lambda item: -item[1])
    return rows_table(names, ((name, f"{count:,}") for name, count in ordered))


def pictures(*svgs: str) -> dg.MarkdownMetadataValue:
    """Embed figures of `evaluation.report.charts` into Markdown as data, because the UI loads no files."""
    uris = (f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}" for svg in svgs)
    return dg.MetadataValue.md("\n\n".join(f"![picture]({uri})" for uri in uris))
