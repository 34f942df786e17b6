"""Recipes are compared if their intervals cover seeds alike; the others are named."""

from research.recipe_comparison import Recipe, Run
from research.recipe_selection import select_recipes


def recipe(name: str, seeds: int) -> Recipe:
    return Recipe(name, tuple(Run(f"{name}{seed}", {}, seed=seed) for seed in range(seeds)))


def compared(*recipes: Recipe) -> tuple[dict[str, int], tuple[str, ...], tuple[str, ...]]:
    selection = select_recipes(recipes)
    return {recipe.name: len(recipe.runs) for recipe in selection.recipes}, selection.notes, selection.left_out


def test_recipes_with_equally_many_seeds_are_compared_as_they_are() -> None:
    assert compared(recipe("a", 1), recipe("b", 1)) == ({"a": 1, "b": 1}, (), ())
    assert compared(recipe("b", 3), recipe("a", 3)) == ({"b": 3, "a": 3}, (), ())


def test_one_recipe_with_more_seeds_than_all_others_is_compared_by_one_of_them() -> None:
    kept, notes, left_out = compared(recipe("a", 1), recipe("b", 4), recipe("c", 1))
    assert kept == {"a": 1, "b": 1, "c": 1} and not left_out
    assert notes == ("b is compared by one of its 4 seeds",)


def test_a_recipe_with_one_seed_beside_several_is_left_out_and_one_with_fewer_is_noted() -> None:
    kept, notes, left_out = compared(recipe("a", 5), recipe("b", 1), recipe("c", 2))
    assert kept == {"a": 5, "c": 2}
    assert notes == ("c has scores for 2 of 5 seeds: its differences are over the seeds that both have",)
    assert left_out == ("b is left out because it has scores for 1 of 5 seeds",)


def test_nothing_and_a_single_recipe_are_returned_as_they_are() -> None:
    assert compared() == ({}, (), ())
    assert compared(recipe("a", 3)) == ({"a": 3}, (), ())
