"""Compare recipes trained from one base, each with one or more seeds: scores, differences and curves on a page.

Intervals cover problems and seeds (`research.seed_statistics`); differences are paired by problem and
seed. The ranking takes each seed for one observation (`research.outcomes`), because some
learn and others do not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from math import inf
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from core.errors import InputError
from core.text.markdown import escape_markdown
from pipelines.api import (
    GROUPS,
    Benchmark,
    Cell,
    Kind,
    Records,
    Table,
    change,
    figure,
    p_value,
    percent,
    problem_scores,
    render,
    score,
)
from research.figures import recipe_curves
from research.outcomes import LEARNED, median_over_seeds, permutation_test, share_that_learned
from research.sampled_answers import Answer, Problems, draw_answers
from research.sampled_answers import to_markdown as answers_markdown
from research.seed_statistics import Scores, difference, estimate

if TYPE_CHECKING:
    import pyarrow as pa

COLOURS = (
    *("#0d7566", "#c2622d", "#3f6bb5", "#a0438c", "#8a7a1f", "#1f8aa0", "#b8442c", "#6b8e23"),
    *("#5a4fcf", "#d99a00", "#2f9e5b", "#8b5a3c", "#e0709f", "#4a6572", "#7b3fa0", "#b0a83f"),
)
UNTRAINED = "#7d7a74"
TEMPLATES = Path(__file__).resolve().parent / "templates"
SEEDS = (
    f"A seed learns if at least {LEARNED:.0%} of its answers are right. Intervals of median and share of seeds that "
    "learn are over seeds (bootstrap, Wilson). p: exact permutation test over seeds, two-sided."
)
COSTS_PER_POINT = ("minutes", "generated tokens")
PEAK = "GiB of the actor at its peak"
COSTS = ("steps", "generated tokens", "minutes", PEAK)  # cost columns of a run


@dataclass(frozen=True)
class Run:
    """One policy: its GRADED tables by benchmark, step metrics, the facts that the page names, its configuration."""

    checkpoint: str
    tables: "Mapping[str, pa.Table]"
    records: Records = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None  # seed of the training; None for a model that was not trained
    costs: Mapping[str, float] = field(default_factory=dict)  # what the training took

    @cached_property
    def means(self) -> Scores:
        """The mean score of each problem of every benchmark."""
        return {
            name: {key: fmean(scores) for key, scores in problem_scores(table).items()}
            for name, table in self.tables.items()
        }

    def scores(self, benchmarks: Sequence[str]) -> Scores:
        """Return `means` of some benchmarks."""
        return {name: self.means[name] for name in benchmarks}


@dataclass(frozen=True)
class Recipe:
    """A recipe and its runs, one per seed in the order of the seeds."""

    name: str
    runs: tuple[Run, ...]

    def by_seed(self, benchmarks: Sequence[str]) -> tuple[float, ...]:
        """Return the score of each run over some benchmarks, which weigh the same."""
        return tuple(fmean(fmean(scores.values()) for scores in run.scores(benchmarks).values()) for run in self.runs)

    def facts(self) -> dict[str, str]:
        """Return the facts that all runs share once, and the others for each seed."""
        names = dict.fromkeys(name for run in self.runs for name in run.facts)
        values = {name: [str(run.facts.get(name, "")) for run in self.runs] for name in names}
        return {
            name: "; ".join(value or "–" for value in seeds) if len(set(seeds)) > 1 else seeds[0]
            for name, seeds in values.items()
        }


@dataclass(frozen=True)
class Comparison:
    """What the page shows; the first of ``recipes`` is the baseline."""

    recipes: tuple[Recipe, ...]
    titles: Mapping[str, Mapping[str, str]]  # group -> benchmark -> title
    notes: tuple[str, ...]
    answers: tuple[Answer, ...] = ()  # answers of the untrained model and of the first run of `answering`
    answering: str = ""

    @property
    def several_seeds(self) -> bool:
        """Whether some recipe was trained with more than one seed."""
        return any(len(recipe.runs) > 1 for recipe in self.recipes)

    @cached_property
    def colours(self) -> dict[str, str]:
        """The colour of each recipe; grey for what was not trained."""
        trained = [recipe.name for recipe in self.recipes if any(run.records for run in recipe.runs)]
        colours = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(trained)}
        return {recipe.name: colours.get(recipe.name, UNTRAINED) for recipe in self.recipes}

    def scores_table(self, *, seeds: bool = False) -> Table:
        """Return every benchmark and each group's average; ``seeds``: also the problems and the score of each seed."""
        table = self._table("percent of samples right")
        for title, benchmarks, kind in self._rows():
            scores = [estimate([run.scores(benchmarks) for run in recipe.runs]) for recipe in self.recipes]
            problems = f"{scores[0].problems} problems" if seeds else ""
            cells = [score(e.low, e.mean, e.high) for e in scores]
            if seeds:
                lines = (" ".join(f"{100 * m:.1f}" for m in e.by_seed) if len(e.by_seed) > 1 else "" for e in scores)
                cells = [
                    replace(cell, detail=f"{cell.detail}\n{line}") for cell, line in zip(cells, lines, strict=True)
                ]
            table.add(Cell(title, problems), *([] if kind == "group" else cells), kind=kind)
        return table

    def ranking_table(self, group: str) -> Table:
        """Return the trained recipes on the average of a group, the one with the highest mean first.

        The mean has its interval over problems and seeds, the median and the share of seeds that learn have theirs over
        seeds. The exact permutation test over seeds compares each recipe with the baseline.
        """
        benchmarks, first = list(self.titles[group]), self.recipes[0]
        table = Table(["recipe", "seeds", "mean", "median", "seeds that learn", f"p against {first.name}"])
        trained = [recipe for recipe in self.recipes if recipe.runs[0].seed is not None]
        for recipe in sorted(trained, key=lambda recipe: -fmean(recipe.by_seed(benchmarks))):
            by_seed = recipe.by_seed(benchmarks)
            mean, median = estimate([run.scores(benchmarks) for run in recipe.runs]), median_over_seeds(by_seed)
            learned = share_that_learned(by_seed)
            cells = [score(mean.low, mean.mean, mean.high), score(median.low, median.value, median.high)]
            of_seeds = f"{round(learned.value * len(by_seed))} of {len(by_seed)}"
            cells += [Cell(of_seeds, f"[{percent(learned.low)}, {percent(learned.high)}]")]
            table.add(recipe.name, str(len(by_seed)), *cells, self._p_value(first, recipe, benchmarks))
        return table

    def costs_table(self, group: str) -> Table:
        """Return what one point of a group's average costs, as the mean over the seeds, the cheapest in minutes first.

        Points are counted from the model that was not trained; a recipe that is not above it has none to pay for.
        """
        benchmarks, rows = list(self.titles[group]), []
        table = Table(["recipe", "points gained", *(f"{cost} per point" for cost in COSTS_PER_POINT)])
        if (base := self._untrained()) is None:
            return table
        before = fmean(base.by_seed(benchmarks))
        for recipe in (recipe for recipe in self.recipes if recipe.runs[0].seed is not None):
            gained = 100 * (fmean(recipe.by_seed(benchmarks)) - before)
            costs = [fmean(run.costs[cost] for run in recipe.runs) for cost in COSTS_PER_POINT]
            rows.append(([cost / gained if gained > 0 else inf for cost in costs], recipe.name, gained))
        for costs, name, gained in sorted(rows):
            cells = ("–" if cost == inf else f"{cost:,.{2 if cost < 100 else 0}f}" for cost in costs)
            table.add(name, f"{gained:+.1f}", *cells)
        return table

    def _untrained(self) -> Recipe | None:
        return next((recipe for recipe in self.recipes if recipe.runs[0].seed is None), None)

    def baseline_table(self) -> Table:
        """Return the difference from the baseline on every benchmark and every group's average, in points."""
        table = self._table(f"difference from {self.recipes[0].name}")
        for title, benchmarks, kind in self._rows():
            cells = (self._difference(self.recipes[0], recipe, benchmarks) for recipe in self.recipes)
            table.add(title, *([] if kind == "group" else cells), kind=kind)
        return table

    def differences_table(self, group: str) -> Table:
        """Tabulate row minus column on the average of a group, in points; with several seeds also p-values."""
        table, benchmarks = self._table("row minus column"), list(self.titles[group])
        for after in self.recipes:
            cells = []
            for before in self.recipes:
                cell, p = self._difference(before, after, benchmarks), self._p_value(before, after, benchmarks)
                cells.append(replace(cell, detail=f"{cell.detail}\np {p}") if cell.text and p else cell)
            table.add(after.name, *cells)
        return table

    def facts_table(self, names: Sequence[str] = ()) -> Table:
        """Return the facts ``names`` of each recipe; without names all of them, after the policies' checkpoints."""
        table, facts = self._table("each seed"), [recipe.facts() for recipe in self.recipes]
        table.left = range(len(table.columns))
        if not names:
            table.add("policy", *(" ".join(run.checkpoint[:16] for run in recipe.runs) for recipe in self.recipes))
        for name in names or dict.fromkeys(name for values in facts for name in values):
            table.add(name, *(values.get(name, "") for values in facts))
        return table

    def to_markdown(self) -> str:
        """Scores, the differences between every two recipes on each group's average, and what the runs took."""
        parts = []
        if self.several_seeds:
            for group in self.titles:
                parts += [f"{GROUPS[group]}, the strongest first:", self.ranking_table(group).to_markdown()]
        for group in self.titles if self._untrained() else ():
            parts += [f"{GROUPS[group]}, what a point costs:", self.costs_table(group).to_markdown()]
        parts += [self.scores_table().to_markdown()]
        for group in self.titles:
            parts += [f"{GROUPS[group]}, row minus column in points:", self.differences_table(group).to_markdown()]
        seeds = ", ".join(f"{escape_markdown(recipe.name)} {len(recipe.runs)}" for recipe in self.recipes)
        parts += [self.facts_table(COSTS).to_markdown()]
        parts += [f"Means with 95% intervals over problems and seeds. Runs: {seeds}."]
        if self.several_seeds:
            parts += [SEEDS]
        return "\n\n".join([*parts, *(f"> {escape_markdown(note)}" for note in self.notes)])

    def write(self, folder: Path, page: str) -> None:
        """Write the page, its tables as ``comparison.md`` and its figures as SVG files, into an existing folder."""
        records = {recipe.name: [run.records for run in recipe.runs] for recipe in self.recipes}
        figures = recipe_curves(records, self.colours, legend=False)
        (folder / page).write_text(self._render(list(figures.values())), encoding="utf-8")
        (folder / "comparison.md").write_text(self.to_markdown() + "\n", encoding="utf-8")
        if self.answers and (base := self._untrained()):
            said = answers_markdown(self.answers, base.name, self.answering)
            (folder / "answers.md").write_text(said, encoding="utf-8")
        for name, svg in recipe_curves(records, self.colours, legend=True).items():
            (folder / f"{name}.svg").write_text(svg, encoding="utf-8")

    def _render(self, svgs: Sequence[str]) -> str:
        return render(
            "comparison.html.jinja",
            folder=TEMPLATES,
            comparison=self,
            created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            differences={GROUPS[group]: self.differences_table(group) for group in self.titles},
            figures=[figure(svg) for svg in svgs],
            rankings={GROUPS[group]: self.ranking_table(group) for group in self.titles if self.several_seeds},
            seeds=SEEDS,
            costs={GROUPS[group]: self.costs_table(group) for group in self.titles if self._untrained()},
        )

    def _table(self, title: str) -> Table:
        return Table([title, *(recipe.name for recipe in self.recipes)])

    def _rows(self) -> Iterator[tuple[str, list[str], Kind]]:
        """Yield (title, benchmarks, kind) of each line of a table over benchmarks."""
        for group, titles in self.titles.items():
            yield GROUPS[group], list(titles), "group"
            for name, title in titles.items():
                yield title, [name], ""
            if len(titles) > 1:
                yield f"average of {len(titles)}", list(titles), "average"

    def _difference(self, before: Recipe, after: Recipe, benchmarks: Sequence[str]) -> Cell:
        """Return ``after`` minus ``before``; empty for a recipe and itself."""
        runs = paired(before, after)
        if before is after or not all(runs):
            return Cell("")
        points = difference(*([run.scores(benchmarks) for run in some] for some in runs))
        return change(points.mean, points.low, points.high)

    def _p_value(self, before: Recipe, after: Recipe, benchmarks: Sequence[str]) -> str:
        """Return the p-value of the permutation test over all seeds of both; empty if one of them has a single run."""
        if before is after or min(len(before.runs), len(after.runs)) < 2:
            return ""
        return p_value(cached_test(*sorted((before.by_seed(benchmarks), after.by_seed(benchmarks)))))


cached_test = cache(permutation_test)  # tables and page ask for the same pairs


def paired(before: Recipe, after: Recipe) -> tuple[list[Run], list[Run]]:
    """Return the runs of the seeds that both recipes have, or of none if it is one seed of several.

    A model that was not trained is compared with every seed.
    """
    runs = list(before.runs), list(after.runs)
    seeds = [{run.seed for run in some} for some in runs]
    if None in seeds[0] | seeds[1]:
        return runs
    common = seeds[0] & seeds[1]
    if len(common) < min(2, *map(len, seeds)):
        return [], []
    return [run for run in runs[0] if run.seed in common], [run for run in runs[1] if run.seed in common]


def compare_recipes(
    recipes: Sequence[Recipe],
    *,
    baseline: str,
    suite: Sequence[Benchmark],
    notes: Sequence[str] = (),
    problems: Problems = MappingProxyType({}),
    answering: str = "",
) -> Comparison:
    """Compare ``recipes``, first the one called ``baseline``; InputError for fewer than two, or for other problems.

    With the texts of ``problems``, answers of the untrained model stand next to the answers of ``answering`` (of
    the baseline if it is not among ``recipes``).
    """
    by_name = {recipe.name: recipe for recipe in recipes}
    if len(by_name) < 2 or baseline not in by_name:
        raise InputError(
            f"comparison: expected {baseline} and at least one other recipe, got {', '.join(by_name) or 'none'}"
        )
    first = by_name.pop(baseline)
    scored = first.runs[0].tables
    titles = {
        group: {b.name: b.title for b in suite if b.group == group and b.name in scored}
        for group in GROUPS
        if any(b.group == group and b.name in scored for b in suite)
    }
    comparison = Comparison((first, *by_name.values()), titles, tuple(notes))
    for recipe in by_name.values():
        comparison._difference(first, recipe, list(scored))  # refuses what cannot be paired
    after = by_name.get(answering, first)
    if problems and (base := comparison._untrained()) and after is not base:
        drawn = draw_answers(base.runs[0].tables, after.runs[0].tables, problems)
        comparison = replace(comparison, answers=drawn, answering=after.name)
    return comparison
