"""Several recipes from one base, each trained with one or more seeds, on one page: scores, differences, curves.

Intervals cover problems and seeds (`evaluation.statistics.seeds`); differences are paired by problem and seed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from evaluation.benchmarks.registry import GROUPS, Benchmark
from evaluation.report.html import page_environment
from evaluation.report.recipe_figures import WEIGHTS, figures, plot
from evaluation.statistics.scores import problem_scores
from evaluation.statistics.seeds import Estimate, Scores, difference, estimate

if TYPE_CHECKING:
    import pyarrow as pa

COLOURS = ("#0d7566", "#c2622d", "#3f6bb5", "#a0438c", "#8a7a1f", "#1f8aa0", "#b8442c", "#6b8e23")
UNTRAINED = "#7d7a74"
TAKEN = ("steps", "generated tokens", "minutes")  # facts of a run that its price is made of


@dataclass(frozen=True)
class Run:
    """One policy with its GRADED tables by benchmark, its step metrics and what it is worth to know of it."""

    checkpoint: str
    tables: "Mapping[str, pa.Table]"
    records: Sequence[Mapping[str, Any]] = ()
    facts: Mapping[str, Any] | None = None

    @cached_property
    def means(self) -> Scores:
        """Mean score of each problem of every benchmark."""
        return {
            name: {key: math.fsum(scores) / len(scores) for key, scores in problem_scores(table).items()}
            for name, table in self.tables.items()
        }

    def scores(self, benchmarks: Sequence[str]) -> Scores:
        """`means` of some benchmarks."""
        return {name: self.means[name] for name in benchmarks}


@dataclass(frozen=True)
class Experiment:
    """A recipe and its runs, one a seed in the order of the seeds."""

    name: str
    runs: tuple[Run, ...]

    def facts(self) -> dict[str, str]:
        """What the runs have in common, and where they differ each one's."""
        names = dict.fromkeys(name for run in self.runs for name in run.facts or {})
        found = {name: [str((run.facts or {}).get(name, "")) for run in self.runs] for name in names}
        return {
            name: "; ".join(value or "–" for value in values) if len(set(values)) > 1 else values[0]
            for name, values in found.items()
        }


@dataclass(frozen=True)
class Comparison:
    """What the page shows; ``experiments``: the baseline first."""

    experiments: tuple[Experiment, ...]
    titles: Mapping[str, Mapping[str, str]]  # group -> benchmark -> title
    notes: tuple[str, ...]

    @property
    def baseline(self) -> Experiment:
        return self.experiments[0]

    @cached_property
    def colours(self) -> dict[str, str]:
        """Of each experiment; grey where nothing was trained."""
        trained = [e.name for e in self.experiments if any(run.records for run in e.runs)]
        shades = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(trained)}
        return {e.name: shades.get(e.name, UNTRAINED) for e in self.experiments}

    def score(self, experiment: Experiment, benchmarks: Sequence[str]) -> Estimate:
        """The unweighted mean over ``benchmarks``."""
        return estimate([run.scores(benchmarks) for run in experiment.runs])

    def difference(self, before: Experiment, after: Experiment, benchmarks: Sequence[str]) -> Estimate:
        """``after`` minus ``before``."""
        return difference(*([run.scores(benchmarks) for run in e.runs] for e in (before, after)))

    def rows(self) -> list[tuple[str, str, list[str]]]:
        """(group, title, benchmarks) of each line of the table: every benchmark, then the group's average."""
        found = []
        for group, titles in self.titles.items():
            found += [(group, title, [name]) for name, title in titles.items()]
            if len(titles) > 1:
                found.append((group, f"average of {len(titles)}", list(titles)))
        return found

    def to_markdown(self) -> str:
        """Scores, the differences between every two recipes on the average of each group, and what the runs took."""
        names = [_plain(experiment.name) for experiment in self.experiments]
        head = " | ".join(names) + " |\n|---|" + "---|" * len(names)
        lines = [f"| percent right | {head}"]
        for _, title, benchmarks in self.rows():
            cells = [_interval(self.score(e, benchmarks)) for e in self.experiments]
            lines.append(f"| {_plain(title)} | " + " | ".join(cells) + " |")
        for group, titles in self.titles.items():
            lines.append(f"\n{GROUPS[group]}, row minus column in points:\n\n| | {head}")
            for after in self.experiments:
                cells = [
                    "" if before is after else _interval(self.difference(before, after, list(titles)), sign="+")
                    for before in self.experiments
                ]
                lines.append(f"| {_plain(after.name)} | " + " | ".join(cells) + " |")
        facts = [experiment.facts() for experiment in self.experiments]
        lines.append(f"\n| of each seed | {head}")
        for name in TAKEN:
            lines.append(f"| {name} | " + " | ".join(_plain(found.get(name, "")) for found in facts) + " |")
        seeds = ", ".join(f"{_plain(e.name)} {len(e.runs)}" for e in self.experiments)
        lines.append(f"\nMeans with 95% intervals over problems and seeds. Runs: {seeds}.")
        lines += [f"\n> {_plain(note)}" for note in self.notes]
        return "\n".join(lines)

    def write(self, folder: Path, page: str) -> None:
        """The page, its tables as ``comparison.md`` and its figures as SVG files, into an existing folder."""
        drawn = figures(self.experiments, self.colours)
        shown = [plot(figure, legend=figure.name == WEIGHTS) for figure in drawn]
        (folder / page).write_text(_render(self, shown), encoding="utf-8")
        (folder / "comparison.md").write_text(self.to_markdown() + "\n", encoding="utf-8")
        for figure in drawn:
            (folder / f"{figure.name}.svg").write_text(figure.alone(), encoding="utf-8")


def compare_experiments(
    experiments: Sequence[Experiment], *, baseline: str, suite: Sequence[Benchmark], notes: Sequence[str] = ()
) -> Comparison:
    """Compare ``experiments``, first the one called ``baseline``; InputError for fewer than two, or other problems."""
    by_name = {experiment.name: experiment for experiment in experiments}
    if len(by_name) < 2 or baseline not in by_name:
        raise InputError(
            f"comparison: expected {baseline} and at least one other; found {', '.join(by_name) or 'none'}"
        )
    first = by_name.pop(baseline)
    scored = first.runs[0].tables
    titles = {
        group: {b.name: b.title for b in suite if b.group == group and b.name in scored}
        for group in GROUPS
        if any(b.group == group and b.name in scored for b in suite)
    }
    comparison = Comparison((first, *by_name.values()), titles, tuple(notes))
    for experiment in by_name.values():
        comparison.difference(first, experiment, list(scored))  # refuses what cannot be paired
    return comparison


def _render(comparison: Comparison, drawn: Sequence[str]) -> str:
    from markupsafe import Markup

    environment = page_environment()
    environment.filters["signed"] = lambda share: f"{100 * share:+.1f}".replace("-", "\u2212")
    facts = {e.name: e.facts() for e in comparison.experiments}
    return environment.get_template("recipes.html.jinja").render(
        c=comparison,
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        groups=GROUPS,
        figures=[Markup(svg) for svg in drawn],
        many=any(len(e.runs) > 1 for e in comparison.experiments),
        facts=facts,
        names=list(dict.fromkeys(name for found in facts.values() for name in found)),
    )


def _interval(found: Estimate, sign: str = "") -> str:
    low, mean, high = (f"{100 * value:{sign}.1f}" for value in (found.low, found.mean, found.high))
    return f"{mean} [{low}, {high}]"


def _plain(text: str) -> str:
    return escape(text, quote=False).replace("|", "\\|").replace("_", "\\_")
