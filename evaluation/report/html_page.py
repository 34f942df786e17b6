"""Shared parts of the HTML pages: no script, no external file, every text of a model or user escaped."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from evaluation.report import charts

TEMPLATES = Path(__file__).resolve().parent / "templates"


@cache
def environment() -> Environment:
    """Return the templates of this folder: they escape every text, and a name that does not exist is an error."""
    result = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    result.globals["palette"] = charts.PALETTE
    return result


def figures(svgs: Sequence[str]) -> list[Markup]:
    """Figures as elements of a page; `charts` escapes what they say."""
    return [Markup(charts.inline(svg)) for svg in svgs]
