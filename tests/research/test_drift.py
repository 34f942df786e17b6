"""What the report on rollout corrections says about a few runs whose figures are known."""

from collections.abc import Callable
from typing import Any

import pytest

from research.drift import Condition, DriftReport, drift_report
from research.recipe_comparison import Recipe, Run

PROBLEMS = 40


@pytest.fixture
def variant(graded: Callable[..., Any]) -> Callable[..., Recipe]:
    def make(
        name: str,
        shares: dict[int, float],
        type_: str,
        *,
        high: float = 5.0,
        validation: float = 0.0,
        staleness: int = 4,
        precision: str = "float32",
    ) -> Recipe:
        """A variant whose seeds end with these shares of right samples, after a reward of 0.6."""
        config = {
            "rollouts": "separate_async" if staleness else "sync",
            "rollout_precision": precision,
            "max_staleness": 4,  # of no meaning where rollouts are synchronous
            "method": {"correction": {"type": type_, "low": 0.5, "high": high}},
        }
        runs = []
        for seed, share in shares.items():
            right = round(share * PROBLEMS)
            table = graded({str(n): [n < right] for n in range(PROBLEMS)})
            steps = [0.6] * 5 + [share] * 5
            records = [
                {
                    "step": step,
                    "data": {
                        "reward/on_policy": reward,
                        "actor/grad_norm": step / 10,
                        "rollout_correction/kept_share": 1 - step / 100,
                        "rollout_correction/abs_log_ratio_mean": 0.25,
                        "rollout_correction/abs_log_ratio_max": float(step),
                        "validation/score": validation,
                        f"drift/age_{min(step - 1, staleness)}": 0.125,
                    },
                }
                for step, reward in enumerate(steps, 1)
            ]
            runs.append(Run(f"{name}{seed}", {"sums": table}, records, {"seed": seed}, config))
        return Recipe(name, tuple(runs))

    return make


STALE = Condition("float32", 4)


def rows(report: DriftReport) -> dict[str, list[str]]:
    return {
        str(first): [str(cell) for cell in others] for first, *others in (r.cells for r in report.table(STALE).rows)
    }


def report(*recipes: Recipe) -> DriftReport:
    result = drift_report(recipes)
    assert result is not None
    return result


def test_a_row_has_the_figures_of_every_seed(variant):
    result = rows(report(variant("plain", {0: 0.9, 1: 0.1}, "none")))["none"]
    assert result[0] == "2" and result[1].startswith("50.0%")
    assert result[2:4] == ["1 of 2 [9%, 91%]", "1 of 2 [9%, 91%]"]  # the second seed neither learns nor stays
    assert result[4:8] == ["1, 1", "0.945, 0.900", "0.25, 0.25", "10"]


def test_staleness_is_that_of_the_rollouts(variant):
    both = report(variant("fresh", {0: 0.9}, "tis", staleness=0), variant("stale", {0: 0.9}, "tis"))
    assert list(both.by_condition) == [Condition("float32", 0), STALE]
    assert [[str(cell) for cell in row.cells] for row in both.ages().rows] == [
        ["staleness 0, float32 rollouts, tis [0.5, 5]", "0.12", "", "", "", ""],
        ["staleness 4, float32 rollouts, tis [0.5, 5]", *["0.12"] * 5],
    ]


def test_precision_is_a_condition_of_its_own(variant):
    coarse = variant("coarse", {0: 0.1}, "none", staleness=0, precision="int4")
    both = report(coarse, variant("fresh", {0: 0.9}, "none", staleness=0))
    assert [len(variants) for variants in both.by_condition.values()] == [1, 1]
    assert "## Staleness 0, int4 rollouts" in both.to_markdown()


def test_bands_are_validated_on_the_seeds_that_both_have(variant):
    wide = variant("wide", {0: 1.0, 1: 1.0}, "icepop", validation=0.5)
    wide.runs[1].records[-1]["data"]["validation/score"] = 0.0  # a seed that the narrow band does not have
    narrow = variant("narrow", {0: 0.5}, "icepop", high=1.25, validation=0.4)
    assert list(rows(report(wide, narrow))) == ["icepop [0.5, 5], chosen", "icepop [0.5, 1.25]"]


def test_the_band_with_the_best_validation_is_chosen_and_compared(variant):
    wide = variant("wide", {0: 1.0, 1: 1.0}, "reinforce_pro", validation=0.4)
    narrow = variant("narrow", {0: 0.5, 1: 0.5}, "reinforce_pro", high=1.25, validation=0.6)
    none = variant("none", {0: 0.0, 1: 0.0, 2: 0.0}, "none")
    result = report(none, wide, narrow)
    assert list(rows(result)) == ["none", "reinforce_pro [0.5, 5]", "reinforce_pro [0.5, 1.25], chosen"]
    chosen, other = result.differences(STALE)
    assert chosen.columns[0] == "reinforce_pro [0.5, 1.25] minus"
    assert other.columns[0] == "reinforce_pro [0.5, 5] minus"
    assert [str(row.cells[0]) for row in other.rows] == ["none", "reinforce_pro [0.5, 1.25]"]
    before_none, before_wide = ([str(cell) for cell in row.cells] for row in chosen.rows)
    assert (before_none[:2], before_none[3]) == (["none", "2"], "better")  # over the seeds that both have
    assert (before_wide[:2], before_wide[3]) == (["reinforce_pro [0.5, 5]", "2"], "worse")


def test_the_report_is_written_with_a_figure_for_each_staleness(variant, tmp_path):
    report(variant("none", {0: 0.0}, "none"), variant("fresh", {0: 1.0}, "none", staleness=0)).write(tmp_path / "drift")
    names = {f"staleness_{k}_float32_{name}.svg" for k in (0, 4) for name in ("on_policy", "abs_log_ratio_mean")}
    assert {file.name for file in (tmp_path / "drift").iterdir()} == {"drift.md", *names}
    text = (tmp_path / "drift" / "drift.md").read_text()
    assert text.index("## Staleness 0,") < text.index("## Staleness 4,") < text.index("## Drift by age")
