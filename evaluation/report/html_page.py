"""Shared parts of the HTML pages: no script, no external file, every text of a model or user escaped."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from evaluation.report import charts

TEMPLATES = Path(__file__).resolve().parent / "templates"


@cache
def environment(*folders: Path) -> Environment:
    """Return the templates of ours and of ``folders``: they escape every text, and an unknown name is an error."""
    result = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    result.globals["palette"] = charts.PALETTE
    return result


def render(template: str, *, folder: Path = TEMPLATES, **values: Any) -> str:
    """Return the text of the page that a template of ours, or of ``folder``, and its values make."""
    return environment(folder).get_template(template).render(**values)


def figure(svg: str) -> Markup:
    """Return a figure as an element of a page; `charts` escapes what it says."""
    return Markup(charts.inline(svg))
