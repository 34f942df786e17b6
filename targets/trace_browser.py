"""``python -m targets browse``: all traces of a preparation, kept and rejected, on one page for people."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from core.browser.page import Page, Row, write_page
from targets.prepared import Prepared
from targets.target_tables import iter_batches

KEPT = "kept"
FACETS = ("reason", "source", "verdict")


def browse(prepared: Prepared, out: Path) -> int:
    """Write the page of ``prepared`` to ``out``; returns the number of rows on it."""
    counts = prepared.counts
    summary = {"read": f"{counts['read']:,}", KEPT: f"{counts['kept']:,}"}
    summary |= {step["filter"]: f"{step['removed']:,}" for step in prepared.filter_counts}
    page = Page("Targets", FACETS, summary, review=True)
    rows = chain(_kept(prepared), _rejected(prepared))
    return write_page(page, rows, counts["read"], out)


def _kept(prepared: Prepared) -> Iterator[Row]:
    targets, profiles = (chain.from_iterable(iter_batches(path)) for path in (prepared.prepared, prepared.profile))
    for target, profile in zip(targets, profiles, strict=True):
        info, response = target["extra_info"], target["target"][-1]["content"]
        yield Row(
            id=info["id"],
            facets=(KEPT, info["source"], "correct"),
            problem=target["prompt"][-1]["content"],
            gold=target["reward_model"]["ground_truth"],
            response=response,
            length=len(response),
            notes={
                "tokens": f"{profile['target_tokens']:,}",
                "system": "\n".join(message["content"] for message in target["prompt"][:-1]),
            },
        )


def _rejected(prepared: Prepared) -> Iterator[Row]:
    for row in chain.from_iterable(iter_batches(prepared.rejected)):
        yield Row(
            id=row["id"],
            facets=(row["reason"], row["source"], row["verdict"] or "not compared"),
            problem=row["problem"] or "",
            gold=row["gold"] or "",
            response=row["response"] or "",
            length=row["response_chars"] or 0,
            notes={
                "reasons": ", ".join(row["reasons"]),
                "detail": row["detail"] or "",
                "the source says": _flag(row["upstream_correct"]),
            },
            duplicate_of=row["duplicate_of"] or "",
            duplicate_problem=row["duplicate_problem"] or "",
        )


def _flag(correct: Any) -> str:
    return "" if correct is None else "correct" if correct else "wrong"
