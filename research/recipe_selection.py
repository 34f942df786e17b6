"""Select the recipes that a comparison can show: their intervals have to cover seeds alike."""

from collections.abc import Sequence
from dataclasses import dataclass

from research.recipe_comparison import Recipe


@dataclass(frozen=True)
class Selection:
    """The recipes that are compared, remarks on them, and why the others are left out."""

    recipes: tuple[Recipe, ...]
    notes: tuple[str, ...]
    left_out: tuple[str, ...]


def select_recipes(recipes: Sequence[Recipe]) -> Selection:
    """Return the ``recipes`` that can be compared.

    If no second recipe has several seeds, the first one is compared by one of them: an experiment that was interrupted
    may leave one recipe with seeds that no other has. Otherwise a recipe with one seed is left out, because an interval
    of one seed does not cover seeds and would look the surest of all.
    """
    most, second, *_ = *sorted((len(recipe.runs) for recipe in recipes), reverse=True), 0, 0
    kept: list[Recipe] = []
    notes: list[str] = []
    left_out: list[str] = []
    for recipe in recipes:
        seeds = len(recipe.runs)
        said = f"scores for {seeds} of {most} seeds"
        if second == 1:
            kept.append(Recipe(recipe.name, recipe.runs[:1]))
            notes += [f"{recipe.name} is compared by one of its {seeds} seeds"] if seeds > 1 else []
        elif seeds == 1 < most:
            left_out.append(f"{recipe.name} is left out because it has {said}")
        else:
            kept.append(recipe)
            if seeds < most:
                notes.append(f"{recipe.name} has {said}: its differences are over the seeds that both have")
    return Selection(tuple(kept), tuple(notes), tuple(left_out))
