"""One table for the terminal, Markdown and pages: aligned, cut where it must be, and never interpreted."""

from evaluation.report.html_page import environment
from evaluation.report.table import Cell, Table, change

HOSTILE = "<b>x</b> | [bold]y[/bold]"


def table() -> Table:
    result = Table(["benchmark", "score", "difference"])
    result.add("In domain", kind="group")
    result.add(HOSTILE, Cell("5.0%", "[2.1, 11.4]\n4.0 6.0"), change(0.35, 0.2, 0.5))
    result.add("average of 2", "5.0%", kind="average")
    return result


def test_text_is_aligned_and_the_first_column_gives_way():
    assert table().to_text().splitlines() == [
        "benchmark                                       score            difference",
        "In domain",
        "  <b>x</b> | [bold]y[/bold]  5.0% [2.1, 11.4] 4.0 6.0  +35.0 [+20.0, +50.0]",
        "  average of 2                                   5.0%",
    ]
    narrow = table().to_text(60).splitlines()
    assert narrow[2] == "  <b>x</b> …  5.0% [2.1, 11.4] 4.0 6.0  +35.0 [+20.0, +50.0]"


def test_markdown_interprets_nothing():
    assert table().to_markdown().splitlines() == [
        "| benchmark | score | difference |",
        "|---|--:|--:|",
        "| **In domain** |  |  |",
        "| &lt;b&gt;x&lt;/b&gt; \\| [bold]y[/bold] | 5.0% [2.1, 11.4] 4.0 6.0 | +35.0 [+20.0, +50.0] |",
        "| *average of 2* | 5.0% |  |",
    ]


def test_a_page_shows_details_below_and_colours_differences():
    page = environment().from_string("{% import 'macros.html.jinja' as m %}{{ m.table(table) }}").render(table=table())
    assert '<tr class="group"><td colspan="3">In domain</td></tr>' in page
    assert '<span class="up">+35.0</span><span class="detail">[+20.0, +50.0]</span>' in page
    assert "<b>" not in page and "&lt;b&gt;x" in page
