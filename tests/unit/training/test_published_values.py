"""The recipes have the published numbers, or training/config/published.yaml says why not."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import ListConfig, OmegaConf

from core.files import read_yaml
from core.plugins.config_files import RECIPES, config_file, config_names
from training.config.to_verl import CONFIG, compose_run
from training.config.verl_keys import leaf_values, within

TABLE = read_yaml(CONFIG / "published.yaml", "published values")


def published(recipe: str) -> dict[str, Any]:
    """The values of a recipe, with those of the one that it comes from."""
    entry = TABLE[recipe]
    values = entry["values"]
    inherited = published(entry["from"]) if "from" in entry else {}
    # A part that is null ends what is below it, and a key below a part that it is null.
    gone = {key for key, value in values.items() if ours(value) is None}
    kept = {
        key: value
        for key, value in inherited.items()
        if not (within(key, gone) or any(within(own, [key]) for own in values))
    }
    return kept | values


def ours(value: Any) -> Any:
    """The value of the recipe: another one than is published, with a reason, or the same."""
    return value["ours"] if isinstance(value, dict) else value


def test_every_recipe_is_in_the_table_with_its_source() -> None:
    assert sorted(TABLE) == sorted(config_names(RECIPES))
    assert all(entry["source"] for entry in TABLE.values())


@pytest.mark.parametrize("recipe", TABLE)
def test_a_recipe_composes_its_published_numbers_but_for_those_with_a_reason(recipe: str) -> None:
    config = compose_run(recipe, "gpu", [], run=Path("run"))
    for key, value in published(recipe).items():
        if isinstance(value, dict):
            assert value["published"] != value["ours"] and value["why"], key
        composed = OmegaConf.select(config, key)
        assert (list(composed) if isinstance(composed, ListConfig) else composed) == ours(value), key


@pytest.mark.parametrize("recipe", TABLE)
def test_each_number_of_a_recipe_is_in_the_table(recipe: str) -> None:
    values = leaf_values(read_yaml(config_file(RECIPES, recipe), "recipe"))
    numbers = {key for key, value in values if isinstance(value, int | float) and not isinstance(value, bool)}
    assert numbers <= published(recipe).keys()
