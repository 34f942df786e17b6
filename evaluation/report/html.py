"""The scorecard as one HTML page: no script, no external asset, every text of a model or user escaped."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from evaluation.benchmarks.registry import GROUPS
from evaluation.report import charts
from evaluation.report.text import published_names
from evaluation.report.transcripts import KINDS

if TYPE_CHECKING:
    from evaluation.report.scorecard import Row, Scorecard

TEMPLATES = Path(__file__).resolve().parent / "templates"

# Shown as curves where the run recorded them, in this order.
CURVES = {
    "reward/on_policy": "Reward of on-policy samples",
    "reward/off_policy": "Reward of off-policy samples",
    "critic/score/mean": "Reward, all samples",
    "response_length/mean": "Response length, tokens",
    "actor/entropy": "Entropy",
    "actor/pg_loss": "Policy loss",
    "actor/grad_norm": "Gradient norm",
    "groups/solve_none": "Groups without a right sample",
    "groups/solve_all": "Groups with only right samples",
    "response_length/clip_ratio": "Share cut at the limit",
    "timing_s/step": "Seconds a step",
}
MOST_CURVES = 9
DIGEST = re.compile(r"[0-9a-f]{40,}")
VERDICTS = ("correct", "wrong", "no_answer", "no_think_end", "truncated", "gold_unparsed", "timeout", "error")


def page_environment() -> Environment:
    """Templates of this folder, with every text escaped and no name that is not there passed over."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render_page(scorecard: "Scorecard") -> str:
    """The page's HTML text."""
    environment = page_environment()
    environment.filters["percent"] = lambda share: f"{100 * share:.1f}"
    environment.filters["signed"] = _signed
    environment.filters["p"] = lambda value: "< 0.001" if value < 0.001 else f"{value:.3f}"
    return environment.get_template("scorecard.html.jinja").render(
        card=scorecard,
        groups=[(GROUPS[a.group], a, [r for r in scorecard.rows if r.group == a.group]) for a in scorecard.averages],
        figures=key_figures(scorecard),
        intervals=Markup(charts.intervals([_points(row) for row in scorecard.rows], "Scores with 95% intervals")),
        published=published_names(scorecard),
        sources=list(dict.fromkeys(row.published.source for row in scorecard.rows if row.published)),
        subjects=[(row, Markup(subject_chart(row))) for row in scorecard.rows if row.subjects],
        lengths=[Markup(length_chart(row)) for row in scorecard.rows],
        shares=Markup(charts.shares(_verdict_bars(scorecard.rows), VERDICTS)),
        verdicts=[v for v in VERDICTS if any(v in s.verdicts for r in scorecard.rows for s in (r.base, r.policy))],
        curves=[Markup(curve) for curve in training_curves(scorecard.training_metrics)],
        funnel=Markup(charts.funnel(scorecard.funnel)) if scorecard.funnel else "",
        chain=lineage_chain(scorecard),
        facts=lineage_facts(scorecard.lineage),
        manifest=json.dumps(scorecard.lineage, indent=2, ensure_ascii=False, default=str) if scorecard.lineage else "",
        kinds=KINDS,
        several=any(row.policy.k > 1 for row in scorecard.rows),
    )


def _signed(share: float) -> str:
    return f"{100 * share:+.1f}".replace("-", "\u2212")


def _points(row: "Row") -> tuple[str, Mapping[str, charts.Interval], Mapping[str, float]]:
    roles = {"base": row.base, "policy": row.policy} | ({"champion": row.champion} if row.champion else {})
    intervals = {role: (s.low, s.mean, s.high) for role, s in roles.items()}
    return row.name, intervals, row.published.scores if row.published else {}


def subject_chart(row: "Row") -> str:
    """Scores of one benchmark by subject or difficulty."""
    lines = [(f"{s.name} ({s.problems})", {"base": s.base, "policy": s.policy}, {}) for s in row.subjects]
    return charts.intervals(lines, f"{row.title}, by subject", label_width=300)


def length_chart(row: "Row") -> str:
    """Right answers of one benchmark over response length."""
    roles = {
        role: [
            ((b.low + b.high) / 2, b.mean, f"{b.low:,} to {b.high:,} tokens: {b.mean:.1%} of {b.samples:,} samples")
            for b in bins
        ]
        for role, bins in row.lengths.items()
    }
    return charts.lengths(row.title, roles)


def _verdict_bars(rows: "Sequence[Row]") -> list[tuple[str, Mapping[str, int]]]:
    return [
        (f"{row.name} · {role}", summary.verdicts)
        for row in rows
        for role, summary in (("base", row.base), ("policy", row.policy))
    ]


def _brief(value: Any) -> str:
    text = str(value)
    return text[:16] if DIGEST.fullmatch(text) else text


def key_figures(scorecard: "Scorecard") -> list[dict[str, str]]:
    """The large numbers on top: each a title, the policy's value, the base's, and a note."""
    figures = [
        {
            "title": f"{GROUPS[average.group]}, average" if average.benchmarks > 1 else GROUPS[average.group],
            "value": f"{average.policy:.1%}",
            "before": f"{average.base:.1%}",
            "note": f"{_signed(average.difference)} points, {_signed(average.low)} to {_signed(average.high)}",
        }
        for average in scorecard.averages
    ]
    tokens, unfinished = [], []
    for summaries in ([row.base for row in scorecard.rows], [row.policy for row in scorecard.rows]):
        samples = sum(s.samples for s in summaries)
        tokens.append(sum(s.mean_tokens * s.samples for s in summaries) / samples)
        unfinished.append(sum((s.truncated + s.unanswered) * s.samples for s in summaries) / samples)
    figures.append(
        {
            "title": "Response length",
            "value": f"{tokens[1]:,.0f}",
            "before": f"{tokens[0]:,.0f}",
            "note": "tokens, mean",
        }
    )
    figures.append(
        {
            "title": "Without an answer",
            "value": f"{unfinished[1]:.1%}",
            "before": f"{unfinished[0]:.1%}",
            "note": "truncated, or nothing boxed after </think>",
        }
    )
    return figures


def training_curves(
    records: Sequence[Mapping[str, Any]], titles: Mapping[str, str] = CURVES, most: int = MOST_CURVES
) -> list[str]:
    """One small chart for each metric of ``titles`` that the run recorded at two steps or more, at most ``most``."""
    found = []
    for name, title in titles.items():
        points = [
            (float(r["step"]), float(r["data"][name])) for r in records if isinstance(r["data"].get(name), int | float)
        ]
        points = [point for point in points if math.isfinite(point[1])]
        if len(points) > 1:
            found.append(charts.curve(title, points))
    return found[:most]


def lineage_chain(scorecard: "Scorecard") -> list[tuple[str, str, str]]:
    """(what, digest, detail) from the targets to this page, as far as the lineage knows them."""
    lineage = scorecard.lineage
    targets, request = lineage.get("targets", {}), lineage.get("request", {})
    rows = targets.get("rows")
    steps = lineage.get("steps")
    chain = [
        ("Targets", str(targets.get("digest", "")), f"{rows:,} rows" if isinstance(rows, int) else ""),
        ("Base model", scorecard.base, str(lineage.get("base_model", {}).get("source", ""))),
        (
            "Policy",
            scorecard.policy,
            ", ".join(filter(None, [str(request.get("recipe", "")), f"{steps} steps" if steps else ""])),
        ),
    ]
    return [(what, digest, detail) for what, digest, detail in chain if digest]


def lineage_facts(lineage: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The manifest's short facts, one line each; whole configurations are left to the full manifest."""
    facts: list[tuple[str, str]] = []
    for key, value in lineage.items():
        if key in ("config", "last_step"):
            continue
        if isinstance(value, Mapping):
            pairs = [
                (k, v) for k, v in value.items() if not isinstance(v, Mapping | list | tuple) and v not in (None, "")
            ]
            text = " · ".join(f"{k} {_brief(v)}" for k, v in pairs)
        elif isinstance(value, list | tuple):
            text = ", ".join(map(str, value))
        else:
            text = _brief(value)
        if text:
            facts.append((key.replace("_", " "), text))
    return facts
