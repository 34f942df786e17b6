"""Curves of several runs on one axis, the facts of several seeds, and the gradient weights of shaping."""

from research.figures import recipe_curves
from research.recipe_comparison import Comparison, Recipe, Run, paired


def records(*values: float) -> list[dict]:
    return [{"step": step, "data": {"actor/entropy": value}} for step, value in enumerate(values, 1)]


def test_several_seeds_are_a_mean_before_faint_lines():
    runs = [records(0.0, 1.0), records(1.0, float("nan"))]
    figures = recipe_curves({"luffy": runs}, {"luffy": "#123456"}, legend=True)
    assert list(figures) == ["actor_entropy", "gradient_weight"]
    assert figures["actor_entropy"].count("opacity: 0.25") == 2  # a faint line of each seed
    assert "luffy: 1 at the end" in figures["actor_entropy"]  # the mean at the last step, which one seed has


def test_facts_of_several_seeds_are_said_once_or_for_each():
    runs = tuple(Run(str(k), {}, facts={"steps": 60, "minutes": minutes}) for k, minutes in enumerate((6.4, 7.0, 6.4)))
    assert Recipe("luffy", runs).facts() == {"steps": "60", "minutes": "6.4; 7.0; 6.4"}
    unknown = Run("3", {}, facts={"steps": 60})
    assert Recipe("luffy", (unknown, *runs)).facts() == {"steps": "60", "minutes": "–; 6.4; 7.0; 6.4"}


def scored(*scores: float, seed: int | None = None, minutes: float = 0.0, tokens: float = 0.0) -> Run:
    """A run with these scores of a benchmark's problems."""
    run = Run(f"{seed} {scores}", {}, seed=seed, costs={"minutes": minutes, "generated tokens": tokens})
    vars(run)["means"] = {"sums": {str(k): score for k, score in enumerate(scores)}}
    return run


def comparison(**recipes: list[Run]) -> Comparison:
    return Comparison(tuple(Recipe(name, tuple(runs)) for name, runs in recipes.items()), {"in": {"sums": "Sums"}}, ())


def test_recipes_are_paired_by_the_seeds_that_both_have():
    one = Recipe("one", tuple(scored(0.0, 1.0, seed=seed) for seed in (0, 1, 2, 3)))
    other = Recipe("other", tuple(scored(1.0, 1.0, seed=seed) for seed in (1, 3, 4)))
    base = Recipe("base", (scored(0.0, 0.0),))
    assert [[run.seed for run in runs] for runs in paired(one, other)] == [[1, 3], [1, 3]]
    assert paired(one, base) == (list(one.runs), list(base.runs))
    lone = Recipe("lone", (scored(1.0, 1.0, seed=3), scored(1.0, 1.0, seed=5)))
    assert paired(one, lone) == ([], [])  # one seed of several says little


def test_the_strongest_recipe_is_first_and_a_point_has_its_price():
    low = [scored(0.0, 0.1, seed=seed, minutes=4.0, tokens=2000.0) for seed in range(8)]
    high = [scored(0.9, 0.8, seed=seed, minutes=8.0) for seed in range(8)]
    none = [scored(0.0, 0.0, seed=seed, minutes=1.0) for seed in range(8)]
    page = comparison(low=low, high=high, none=none, base=[scored(0.0, 0.0)])
    rows = [[str(cell) for cell in row.cells] for row in page.ranking_table("in").rows]
    assert [row[0] for row in rows] == ["high", "low", "none"]
    assert rows[0][1] == "8" and rows[0][2].startswith("85.0%") and rows[0][3] == "85.0% [85.0, 85.0]"
    assert rows[0][4:] == ["8 of 8 [67.6%, 100.0%]", "<0.001"] and rows[1][4:] == ["0 of 8 [0.0%, 32.4%]", ""]
    prices = [[str(cell) for cell in row.cells] for row in page.costs_table("in").rows]
    assert prices == [
        ["high", "+85.0", "0.09", "0.00"],
        ["low", "+5.0", "0.80", "400"],
        ["none", "+0.0", "–", "–"],
    ]
