"""``python -m targets browse``: all traces of a preparation, used and rejected, on one page for people."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from core.browser.page import Page, Row, write_page
from core.ledger_verdicts import VERDICTS
from core.parquet import read_table
from core.schemas import LEARNED
from targets.files import iter_batches
from targets.prepared_files import Prepared
from targets.select.exclusions import LEDGER_ADVICE, learned_file

KEPT = "kept"
FACETS = ("reason", "source", "verdict")
LEARNED_FACET, NOT_TRAINED = "training", "not in the training"

Learned = Mapping[str, Mapping[str, Any]]  # rows of `core.schemas.LEARNED` by target


def browse(prepared: Prepared, out: Path, run: Path | None = None) -> int:
    """Write the page of ``prepared`` to ``out``; returns the number of rows on it.

    Args:
        prepared: a preparation.
        out: the file of the page.
        run: a training on its targets; its ledger adds a first facet, the verdict of each target, and its figures.
    """
    learned = None if run is None else _read(run)
    counts = prepared.counts
    summary = {"read": f"{counts['read']:,}", KEPT: f"{counts['kept']:,}"}
    summary |= {step["filter"]: f"{step['removed']:,}" for step in prepared.filter_counts}
    rows: Iterator[Row] = chain(_kept(prepared), _rejected(prepared))
    facets = FACETS
    if learned is not None:
        facets, rows = (LEARNED_FACET, *FACETS), (_with_training(row, learned) for row in rows)
        verdicts = Counter(row["verdict"] for row in learned.values())
        summary |= {name.replace("_", " "): f"{verdicts[name]:,}" for name in VERDICTS if name in verdicts}
    return write_page(Page("Targets", facets, summary, review=True), rows, counts["read"], out)


def _read(run: Path) -> Learned:
    counted = ("target", "verdict", "uses", "loss_share")
    table = read_table(
        learned_file(run), LEARNED, LEDGER_ADVICE, optional=[n for n in LEARNED.names if n not in counted]
    )
    return {row["target"]: row for row in table.to_pylist()}


def _with_training(row: Row, learned: Learned) -> Row:
    if (made := learned.get(row.id)) is None:
        return replace(row, facets=(NOT_TRAINED, *row.facets))
    notes = {
        "uses": f"{made['uses']:,}",
        "share of the loss": f"{made['loss_share']:.3f}",
        "probability, first to last": _ends(made["first_prob"], made["last_prob"]),
        "solved, first to last": _ends(made["first_solved"], made["last_solved"]),
    }
    return replace(row, facets=(made["verdict"].replace("_", " "), *row.facets), notes=row.notes | notes)


def _ends(first: float | None, last: float | None) -> str:
    return "" if first is None or last is None else f"{first:.2f} to {last:.2f}"


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
