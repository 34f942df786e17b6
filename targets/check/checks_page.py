"""The page of the results of the checks: one HTML file without a script or an address, which opens from a disk."""

import html
import json
from collections.abc import Sequence
from pathlib import Path

from core.files import write_text
from targets.check.expectations import CheckResult, summarize

PAGE = "index.html"
COLUMNS = ("check", "result", "observed", "of", "expected", "what it is for")
STYLE = """body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color: #1c1c1e }
table { border-collapse: collapse } th, td { text-align: left; vertical-align: top; padding: .4rem .8rem }
tr { border-bottom: 1px solid #e2e2e6 } code { font-size: 13px; overflow-wrap: anywhere }
.passed { color: #1a7f37 } .blocks { color: #b42318; font-weight: 600 } .warns { color: #9a6700; font-weight: 600 }"""


def write_page(results: Sequence[CheckResult], folder: Path) -> None:
    """Write ``index.html`` into ``folder``: each check, those that failed first, with what it expects and observed."""
    order = sorted(results, key=lambda result: (result.passed, result.severity != "error"))
    header = "".join(f"<th>{name}</th>" for name in COLUMNS)
    body = "\n".join(f"<tr>{''.join(map('<td>{}</td>'.format, _cells(result)))}</tr>" for result in order)
    said = "; ".join(summarize(results))
    title = f"Checks of {results[0].rows:,} targets"
    write_text(
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n<style>{STYLE}</style>\n'
        f"<h1>{title}</h1>\n<p>{html.escape(said)}</p>\n<table>\n<tr>{header}</tr>\n{body}\n</table></html>\n",
        folder / PAGE,
    )


def _cells(result: CheckResult) -> list[str]:
    state = "passed" if result.passed else {"error": "blocks", "warning": "warns"}[result.severity]
    return [
        f"<code>{html.escape(result.name)}</code>",
        f'<span class="{state}">{state}</span>',
        html.escape(result.observed_text),
        "" if result.failing is None else f"{result.failing:,} of {result.rows:,}",
        f"<code>{html.escape(json.dumps(result.expected, default=str))}</code>",
        html.escape(result.description),
    ]
