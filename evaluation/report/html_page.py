"""Shared parts of the HTML pages: no script, no external file, every text of a model or user escaped."""

from functools import cache
from pathlib import Path
from typing import Any

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


def render(template: str, **values: Any) -> str:
    """Return the text of the page that a template and its values make."""
    return environment().get_template(template).render(**values)


def figure(svg: str) -> Markup:
    """Return a figure as an element of a page; `charts` escapes what it says."""
    return Markup(charts.inline(svg))
