"""Nothing in a figure is cut or interpreted; the same data give the same bytes; pages set the colours."""

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from evaluation.report import charts
from evaluation.report.charts import Line, Scores

LONG = "One product among 5 to 7 numbers, an operation that was not in training, with $x_1$ <b>& more</b> to say (200)"
NUL = "a\x00b\nc"
INTERVALS = {"base": (0.0, 0.035, 0.07), "policy": (0.97, 0.99, 1.0)}
COUNTS = {"correct": 3, "wrong": 1, "timeout": 1}
POINTS = [(10.0, 0.25), (120.0, 0.5), (4000.0, 1.0)]
STEPS = [(float(step), 12345.678 * step) for step in range(1, 31)]


def draw(name: str) -> str:
    match name:
        case "intervals":
            rows = [
                Scores("arithmetic_long", INTERVALS, {"LUFFY": 57.1}),
                Scores(LONG, INTERVALS, {}),
                Scores(NUL, {}, {}),
            ]
            return charts.intervals("Scores", rows)
        case "shares":
            return charts.shares("Shares", [("arithmetic_long · policy", COUNTS), (LONG, COUNTS)], list(COUNTS))
        case "funnel":
            return charts.funnel("Rows", [("read", 123_456_789), (LONG, 123_456_000), (NUL, 0)])
        case "histogram":
            return charts.histogram(LONG, [1, 2, 3, 1024], limit=1024)
        case "lengths":
            return charts.lengths(LONG, [Line("base", charts.LIGHT["base"], POINTS, notes=["x", "y", "z"])])
        case "curve":
            return charts.curves(LONG, [Line(LONG, charts.LIGHT["policy"], STEPS)], width=charts.NARROW)
        case "flat":
            return charts.curves("Flat", [Line("flat", charts.LIGHT["policy"], [(1, 2e-7), (2, 2e-7)])])
        case "recipes":
            lines = [
                Line(LONG, "#123456", STEPS),
                Line("luffy", "#654321", STEPS),
                Line("luffy", "#654321", STEPS, faint=True),
            ]
            return charts.curves(LONG, [*lines, Line("empty", "#000000", [])], legend=True)
    raise AssertionError(name)


FIGURES = ("intervals", "shares", "funnel", "histogram", "lengths", "curve", "flat", "recipes")


def boxes(svg: ElementTree.Element) -> list[tuple[str, float, float, float, float]]:
    """(text, left, top, right, bottom) of every text of a figure, in DejaVu Sans, which is wider than most fonts."""
    result = []
    for text in svg.iter("{http://www.w3.org/2000/svg}text"):
        style = dict(part.split(": ", 1) for part in text.attrib["style"].split("; "))
        font = FontProperties(family="DejaVu Sans", size=float(style["font-size"][:-2]))
        width, height, descent = text_to_path.get_text_width_height_descent(text.text, font, ismath=False)
        if "x" in text.attrib:
            x, y = float(text.attrib["x"]), float(text.attrib["y"])
        else:
            x, y = map(float, re.search(r"translate\(([\d.-]+) ([\d.-]+)\)", text.attrib["transform"]).groups())
        left = x - {"start": 0, "middle": width / 2, "end": width}[style.get("text-anchor", "start")]
        result.append((text.text, left, y - height + descent, left + width, y + descent))
    return result


@pytest.mark.parametrize("name", FIGURES)
def test_every_text_lies_inside_its_figure_and_on_no_other(name):
    svg = ElementTree.fromstring(draw(name))
    width, height = map(float, svg.attrib["viewBox"].split()[2:])
    texts = boxes(svg)
    assert texts
    for text, left, top, right, bottom in texts:
        assert left >= 0 and top >= 0 and right <= width and bottom <= height, (text, left, top, right, bottom)
    for one, other in combinations(texts, 2):
        apart = one[3] <= other[1] or other[3] <= one[1] or one[4] <= other[2] or other[4] <= one[2]
        assert apart, (one, other)


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_the_same_bytes_and_load_nothing(name):
    svg = draw(name)
    assert svg == draw(name)
    assert svg.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert not re.search(r"https?:|url\(|@import|<script|<b>|<!|date", svg.replace(charts.NAMESPACE, ""))
    assert ElementTree.fromstring(svg).find("{http://www.w3.org/2000/svg}desc") is not None


def test_a_page_sets_the_colours_and_every_mark_says_its_values():
    element = charts.inline(draw("shares"))
    assert "http" not in element and "#" not in element
    assert "var(--paper)" in element and "var(--correct)" in element and "var(--other)" in element
    assert "<title>arithmetic_long · policy: wrong 1 of 5 (20.0%)</title>" in element
    assert "#123456" in charts.inline(draw("recipes"))  # a recipe's colour is not the page's
