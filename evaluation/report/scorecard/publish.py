"""Write the scorecard to files: a page for people, texts for terminal and Markdown, numbers for programs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evaluation.report.scorecard.scorecard import Scorecard

PAGE, TEXT, MARKDOWN, NUMBERS = "scorecard.html", "scorecard.txt", "scorecard.md", "scorecard.json"


def write_scorecard(card: "Scorecard", folder: Path) -> None:
    """Write `PAGE`, `TEXT`, `MARKDOWN` and `NUMBERS` into ``folder``."""
    from evaluation.report.scorecard.scorecard_html import write_page  # matplotlib
    from evaluation.report.scorecard.scorecard_text import render_markdown, render_text

    write_page(card, folder / PAGE)
    (folder / TEXT).write_text(render_text(card) + "\n", encoding="utf-8")
    (folder / MARKDOWN).write_text(render_markdown(card), encoding="utf-8")
    (folder / NUMBERS).write_text(json.dumps(numbers(card), indent=2), encoding="utf-8")


def numbers(card: "Scorecard") -> dict[str, Any]:
    """Return every figure of the scorecard, for programs."""
    return {
        "base": card.base,
        "policy": card.policy,
        "rows": [
            {**asdict(row), "published": row.published.model_dump() if row.published else None} for row in card.rows
        ],
        "averages": [asdict(average) for average in card.averages],
        "warnings": list(card.warnings),
    }
