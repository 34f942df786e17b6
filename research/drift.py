"""Report the effect of each rollout correction under each condition: scores, learning, collapse, gradients, drift.

A condition is what makes rollouts drift, their staleness and precision. `measure` reads a variant's numbers from its
runs; `DriftReport` shows those under one condition in one table.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from statistics import fmean

from core.metric_table import (
    DRIFT_BY_AGE,
    GRADIENT_NORM,
    KEPT_SHARE,
    LOG_RATIO_MAX,
    LOG_RATIO_MEAN,
    REWARD,
    VALIDATION_SCORE,
    title_of,
)
from pipelines.api import Table, change, metric_curves, points, score, wilson
from research.outcomes import LEARNED
from research.recipe_comparison import COLOURS, Recipe
from research.seed_statistics import Estimate, difference, estimate

LAST = 5  # steps: the windows in which a reward is averaged
COLLAPSED = 0.5  # a seed collapses if its last window is below this share of its best
FIGURES = (REWARD, LOG_RATIO_MEAN)
COLUMNS = (
    "correction",
    "seeds",
    "final score",
    "seeds that learn",
    "seeds that collapse",
    "largest gradient norm",
    "tokens kept",
    "drift, last steps",
    "largest drift",
    "validation",
)


@dataclass(frozen=True, order=True)
class Condition:
    """The settings that cause drift of the rollouts.

    >>> str(Condition("float32", 4)), Condition("int4", 0).slug
    ('staleness 4, float32 rollouts', 'staleness_0_int4')
    """

    precision: str
    staleness: int

    def __str__(self) -> str:
        return f"staleness {self.staleness}, {self.precision} rollouts"

    @property
    def slug(self) -> str:
        return f"staleness_{self.staleness}_{self.precision}"


@dataclass(frozen=True)
class Measured:
    """One variant; the lists have one number for each seed."""

    name: str  # name of the correction, with its band
    type: str
    condition: Condition
    recipe: Recipe
    final: Estimate
    learned: tuple[bool, ...]
    collapsed: tuple[bool, ...]
    gradients: tuple[float, ...]  # largest of all steps
    kept: tuple[float, ...]  # mean over the steps
    least_kept: float  # the lowest over all steps and seeds
    drift: tuple[float, ...]  # mean over the last steps
    largest_drift: float
    by_age: Mapping[int, float]
    validations: Mapping[int, float]  # the last of each seed that was validated


def measure(recipe: Recipe) -> Measured:
    """Measure a variant with shared rollouts and correction, which their first run's configuration gives."""
    config = recipe.runs[0].config
    correction = (config.get("mixed") or {}).get("rollout_correction") or config["method"]["correction"]  # as recorded
    banded = correction["type"] != "none"
    metrics = (REWARD, GRADIENT_NORM, KEPT_SHARE, LOG_RATIO_MEAN, LOG_RATIO_MAX, VALIDATION_SCORE)
    series = {name: _by_seed(recipe, name) for name in metrics}
    final = estimate([run.means for run in recipe.runs])
    stale = config["rollouts"] != "sync"
    precision = config.get("rollout_precision") or config["actor_rollout_ref"]["rollout"]["dtype"]
    return Measured(
        name=f"{correction['type']} [{correction['low']:g}, {correction['high']:g}]" if banded else correction["type"],
        type=correction["type"],
        condition=Condition(precision, config["max_staleness"] if stale else 0),
        recipe=recipe,
        final=final,
        learned=tuple(value >= LEARNED for value in final.by_seed),
        collapsed=tuple(map(collapses, series[REWARD])),
        gradients=tuple(map(max, series[GRADIENT_NORM])),
        kept=tuple(map(fmean, series[KEPT_SHARE])),
        least_kept=min(map(min, series[KEPT_SHARE])),
        drift=tuple(fmean(values[-LAST:]) for values in series[LOG_RATIO_MEAN]),
        largest_drift=max(chain(*series[LOG_RATIO_MAX])),
        by_age={age: fmean(chain(*_by_seed(recipe, f"{DRIFT_BY_AGE}{age}"))) for age in _ages(recipe)},
        validations={
            run.facts["seed"]: values[-1]
            for run, values in zip(recipe.runs, series[VALIDATION_SCORE], strict=True)
            if values
        },
    )


def _by_seed(recipe: Recipe, metric: str) -> list[list[float]]:
    """Return the values of a metric, one list for each run."""
    return [[value for _, value in points(run.records, metric)] for run in recipe.runs]


def _ages(recipe: Recipe) -> list[int]:
    """Return the ages of tokens for which the runs recorded a drift."""
    recorded = {key for run in recipe.runs for record in run.records for key in record["data"]}
    return sorted(int(key.removeprefix(DRIFT_BY_AGE)) for key in recorded if key.startswith(DRIFT_BY_AGE))


def collapses(rewards: Sequence[float]) -> bool:
    """Return whether the rewards of the last steps fall below half of the best rewards of consecutive steps.

    >>> collapses([0.1, 0.9, 0.9, 0.9, 0.9, 0.9, 0.1, 0.1, 0.1, 0.1, 0.1])
    True
    >>> collapses([0.1, 0.1, 0.1, 0.1, 0.1, 0.9, 0.9, 0.9, 0.9, 0.9])
    False
    """
    windows = [fmean(rewards[at : at + LAST]) for at in range(max(1, len(rewards) - LAST + 1))]
    return windows[-1] < COLLAPSED * max(windows)


@dataclass(frozen=True)
class DriftReport:
    """The variants of an experiment, by condition."""

    variants: tuple[Measured, ...]

    @cached_property
    def by_condition(self) -> dict[Condition, list[Measured]]:
        """The variants under each condition, the least stale first."""
        return {
            condition: [variant for variant in self.variants if variant.condition == condition]
            for condition in sorted({variant.condition for variant in self.variants})
        }

    def chosen(self, condition: Condition) -> dict[str, Measured]:
        """Return the variant of each type of correction with the best validation over the seeds that two share.

        It is the first where nothing was validated.
        """
        best: dict[str, Measured] = {}
        for variant in self.by_condition[condition]:
            present = best.setdefault(variant.type, variant)
            both = variant.validations.keys() & present.validations.keys()
            if sum(variant.validations[seed] - present.validations[seed] for seed in both) > 0:
                best[variant.type] = variant
        return best

    def table(self, condition: Condition) -> Table:
        """Return the figures under one condition, a row for each correction."""
        table, chosen = Table(COLUMNS), self.chosen(condition)
        types = [variant.type for variant in self.by_condition[condition]]
        for variant in self.by_condition[condition]:
            several, validations = types.count(variant.type) > 1, list(variant.validations.values())
            table.add(
                f"{variant.name}, chosen" if several and chosen[variant.type] is variant else variant.name,
                str(len(variant.recipe.runs)),
                score(variant.final.low, variant.final.mean, variant.final.high),
                _share(variant.learned),
                _share(variant.collapsed),
                _each(variant.gradients),
                f"{fmean(variant.kept):.3f}, {variant.least_kept:.3f}",
                _each(variant.drift),
                f"{variant.largest_drift:.2g}",
                f"{100 * fmean(validations):.1f}" if validations else "",
            )
        return table

    def differences(self, condition: Condition, type_: str = "reinforce_pro") -> list[Table]:
        """Return each band of ``type_``, the chosen one first, minus every other variant, over their common seeds."""
        variants, chosen = self.by_condition[condition], self.chosen(condition).get(type_)
        references = sorted((v for v in variants if v.type == type_), key=lambda variant: variant is not chosen)
        tables = [_minus(reference, variants) for reference in references]
        return [table for table in tables if table.rows]

    def ages(self) -> Table:
        """Return the mean drift of tokens by their age, over the steps and seeds of each variant."""
        ages = sorted({age for variant in self.variants for age in variant.by_age})
        table = Table(["rollouts, correction", *(f"age {age}" for age in ages)])
        for condition, variants in self.by_condition.items():
            for variant in variants:
                drifts = (f"{variant.by_age[age]:.2g}" if age in variant.by_age else "" for age in ages)
                table.add(f"{condition}, {variant.name}", *drifts)
        return table

    def to_markdown(self) -> str:
        """Return all tables, with what their columns mean."""
        parts = [
            "A final score is the share of right samples of the benchmarks, in percent, with its 95% interval over "
            f"problems and seeds. A seed learns if its score is at least {LEARNED:.0%}. It collapses if the reward of "
            f"its last {LAST} steps is below {COLLAPSED:.0%} of that of its best {LAST} steps in a row. Shares of "
            "seeds have Wilson's 95% interval. Drift is the mean |log-ratio| of actor and vLLM over the on-policy "
            "tokens of a step. Where a cell has several numbers, each is of one seed; tokens kept are the mean and the "
            "least of a step. Of several variants of one correction, that with the best validation is chosen, over the "
            "seeds that both have.",
        ]
        for condition in self.by_condition:
            parts += [f"## {str(condition).capitalize()}", self.table(condition).to_markdown()]
            parts += [table.to_markdown() for table in self.differences(condition)]
        return "\n\n".join([*parts, "## Drift by age", self.ages().to_markdown()])

    def write(self, folder: Path) -> None:
        """Write the tables as ``drift.md`` and the figures of each condition as SVG files into a new folder."""
        folder.mkdir()
        (folder / "drift.md").write_text(f"# Drift\n\n{self.to_markdown()}\n", encoding="utf-8")
        for condition, variants in self.by_condition.items():
            colours = {v.name: COLOURS[k % len(COLOURS)] for k, v in enumerate(variants)}
            records = {v.name: [run.records for run in v.recipe.runs] for v in variants}
            for metric in FIGURES:
                name = f"{condition.slug}_{metric.rpartition('/')[2]}.svg"
                if drawn := metric_curves(metric, f"{title_of(metric)}, {condition}", records, colours, legend=True):
                    (folder / name).write_text(drawn, encoding="utf-8")


def drift_report(recipes: Sequence[Recipe]) -> DriftReport | None:
    """Report on the ``recipes`` with rollouts that could be corrected; None if there is none."""
    needed = (REWARD, GRADIENT_NORM, KEPT_SHARE, LOG_RATIO_MEAN)
    sampled = [recipe for recipe in recipes if all(points(run.records, name) for run in recipe.runs for name in needed)]
    measured = [measure(recipe) for recipe in sampled]
    cells = Counter((variant.condition, variant.name) for variant in measured)
    variants = (  # some differ in other settings
        replace(v, name=f"{v.name}, {v.recipe.name}") if cells[v.condition, v.name] > 1 else v for v in measured
    )
    return DriftReport(tuple(variants)) if measured else None


def _minus(reference: Measured, variants: Sequence[Measured]) -> Table:
    table = Table([f"{reference.name} minus", "seeds", "points", "so it is"], left=(0, 3))
    for variant in variants:
        runs = {run.facts["seed"]: run for run in variant.recipe.runs}
        pairs = [(runs[run.facts["seed"]], run) for run in reference.recipe.runs if run.facts["seed"] in runs]
        if variant is not reference and pairs:
            gain = difference([before.means for before, _ in pairs], [after.means for _, after in pairs])
            table.add(variant.name, str(len(pairs)), change(gain.mean, gain.low, gain.high), _verdict(gain))
    return table


def _verdict(gain: Estimate) -> str:
    """State what the interval of a difference says about other seeds."""
    if len(gain.by_seed) == 1:
        return "one seed tells nothing about others"
    return "better" if gain.low > 0 else "worse" if gain.high < 0 else "no significant difference"


def _share(seeds: Sequence[bool]) -> str:
    low, high = wilson(fmean(seeds), len(seeds))
    return f"{sum(seeds)} of {len(seeds)} [{low:.0%}, {high:.0%}]"


def _each(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2g}" for value in values)
