"""The scorecard as one self-contained HTML page."""

import json
from collections.abc import Sequence
from pathlib import Path

from core.files import atomic_write
from core.metric_table import SFT_LOSS, View, titles
from evaluation.benchmarks.suite import GROUPS
from evaluation.report import charts
from evaluation.report.figures import training_curves
from evaluation.report.html_page import figure, render
from evaluation.report.scorecard.scorecard import Row, Scorecard
from evaluation.report.scorecard.scorecard_text import lineage_tables, published_models, samples_table, scores_table
from evaluation.report.scorecard.transcripts import KINDS
from evaluation.report.table import Table, percent, power_from, signed
from grading.verdict import Verdict

MOST_CURVES = 9
MOST_REPEATED = 10  # training problems that repeat a benchmark problem
VERDICTS = {
    Verdict.CORRECT: "correct",
    Verdict.PARTIAL: "partly right",
    Verdict.WRONG: "wrong",
    Verdict.NO_ANSWER: "no answer",
    Verdict.NO_THINK_END: "thoughts never closed",
    Verdict.TRUNCATED: "truncated",
    Verdict.GOLD_UNPARSED: "gold answer not understood",
    Verdict.TIMEOUT: "timeout",
    Verdict.ERROR: "error",
}


def write_page(card: Scorecard, path: Path) -> None:
    """Write the page, complete or not at all."""
    with atomic_write(path) as temporary:
        temporary.write_text(render_page(card), encoding="utf-8")


def render_page(card: Scorecard) -> str:
    """Return the page's HTML text."""
    counts = [(f"{r.name} · {role}", s.verdicts) for r in card.rows for role, s in r.roles().items() if s != r.champion]
    curves = {SFT_LOSS: "Supervised loss", **titles(View.RECIPES)}
    composition, learned = lineage_tables(card.lineage)
    shares = charts.shares("What became of the samples", counts, list(VERDICTS))
    return render(
        "scorecard.html.jinja",
        card=card,
        key_figures=_key_figures(card),
        scores=scores_table(card),
        intervals=figure(charts.intervals("Scores with 95% intervals", [_scores(row) for row in card.rows])),
        roles=["base", "policy", *(["champion"] if card.champion else [])],
        published=published_models(card),
        sources=list(dict.fromkeys(row.published.source for row in card.rows if row.published)),
        subjects=[(row.title, figure(_subject_chart(row))) for row in card.rows if row.subjects],
        lengths=[figure(_length_chart(row)) for row in card.rows],
        samples=samples_table(card),
        shares=figure(shares),
        verdicts=[
            (verdict if verdict in charts.PALETTE else "other", title)
            for verdict, title in VERDICTS.items()
            if any(verdict in verdicts for _, verdicts in counts)
        ],
        curves=[figure(svg) for svg in training_curves(card.training_metrics, curves)[:MOST_CURVES]],
        funnel=figure(charts.funnel("Rows after each stage", card.filter_counts)) if card.filter_counts else None,
        composition=composition,
        learned=learned,
        manifest=json.dumps(card.lineage.to_json(), indent=2, ensure_ascii=False) if card.lineage else "",
        repeated=_repeated_problems(card),
        chain=_chain(card),
        kinds=KINDS,
        power_from=power_from,
    )


def _scores(row: Row) -> charts.Scores:
    intervals = {role: (summary.low, summary.mean, summary.high) for role, summary in row.roles().items()}
    return charts.Scores(row.name, intervals, row.published.scores if row.published else {})


def _subject_chart(row: Row) -> str:
    rows = [charts.Scores(f"{s.name} ({s.problems})", {"base": s.base, "policy": s.policy}, {}) for s in row.subjects]
    return charts.intervals(f"{row.title}, by subject", rows)


def _length_chart(row: Row) -> str:
    lines = []
    for role, bins in row.lengths.items():
        points = [((b.low + b.high) / 2, b.mean) for b in bins]
        notes = [f"{b.low:,} to {b.high:,} tokens: {b.mean:.1%} of {b.samples:,} samples" for b in bins]
        lines.append(charts.Line(role, charts.LIGHT[role], points, notes=notes))
    return charts.lengths(row.title, lines)


def _key_figures(card: Scorecard) -> list[tuple[str, str, str, str]]:
    boxes = []
    for average in card.averages:
        title = f"{GROUPS[average.group]}, average" if average.benchmarks > 1 else GROUPS[average.group]
        note = f"{signed(average.difference)} points, {signed(average.low)} to {signed(average.high)}"
        boxes.append((title, percent(average.policy), percent(average.base), note))
    tokens, unanswered = [], []
    for summaries in ([row.policy for row in card.rows], [row.base for row in card.rows]):
        samples = sum(s.samples for s in summaries)
        tokens.append(f"{sum(s.mean_tokens * s.samples for s in summaries) / samples:,.0f}")
        unanswered.append(percent(sum((s.truncated + s.unanswered) * s.samples for s in summaries) / samples))
    boxes.append(("Response length", *tokens, "tokens, mean"))
    boxes.append(("Without an answer", *unanswered, "truncated, or nothing boxed after </think>"))
    return boxes


def _repeated_problems(card: Scorecard) -> Table:
    table = Table(["training problem", "benchmark problem", "benchmark", "similarity"], left=(0, 1))
    for problem, match in card.contamination.matches[:MOST_REPEATED] if card.contamination else ():
        table.add(problem[:200], match.problem[:200], match.benchmark, f"{match.ratio:.0f}")
    return table


def _chain(card: Scorecard) -> Sequence[tuple[str, str, str]]:
    """Return (what, digest, detail) from the targets to the policy, as far as the lineage knows them."""
    chain, trained, lineage = [("Base model", card.base, "")], "", card.lineage
    if lineage:
        chain = [("Targets", lineage.targets.digest, f"{lineage.targets.rows:,} rows"), *chain]
        trained = f"{lineage.request.recipe}, {lineage.steps} steps"
    chain.append(("Policy", card.policy, trained))
    return [link for link in chain if link[1]]
