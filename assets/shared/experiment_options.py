"""Settings of experiments: the recipes that are trained and compared, with their settings and seeds."""

from itertools import product
from typing import Annotated, Any

import dagster as dg
from pydantic import (
    BeforeValidator,
    Field,
    PositiveInt,
    StringConstraints,
    TypeAdapter,
    ValidationInfo,
    field_validator,
    model_validator,
)

from assets.shared.stage_options import Options, Overrides, Recipe, TrainingOptions, known
from core.plugins.config_files import RECIPES, config_names

RECIPE, SEED = "recipe", "seed"  # dimensions of a partition
VariantName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]  # part of a partition's key


class Variant(Options):
    """A recipe with its own settings, which is trained and compared under its own name."""

    recipe: Recipe = Field(description="Name of a file in training/config/recipe, or the path of your own recipe.")
    overrides: Overrides = Field(default=[], description="KEY=VALUE settings that win over training.overrides.")


class Matrix(Options):
    """Variants of one recipe, one for each combination of some values."""

    name: str = Field(description="Name of each variant; {AXIS} stands for the value of an axis.")
    recipe: Recipe = Field(description="Name of a file in training/config/recipe, or the path of your own recipe.")
    axes: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        description="Values by axis. The first axis varies slowest."
    )
    overrides: list[str] = Field(
        default=[], description="KEY=VALUE settings of each variant; {AXIS} stands for its value."
    )
    seeds: PositiveInt | None = Field(
        default=None, description="Number of seeds per variant. None: experiments.seeds decides."
    )

    def variants(self) -> dict[str, dict[str, Any]]:
        """Return the variants by name; ValueError if a text names an unknown axis, or if names are equal."""
        variants: dict[str, dict[str, Any]] = {}
        for values in product(*self.axes.values()):
            texts = ("null" if value is None else value for value in values)  # as a KEY=VALUE setting writes it
            chosen = dict(zip(self.axes, texts, strict=True))
            try:
                name, *overrides = (text.format(**chosen) for text in (self.name, *self.overrides))
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                axes = ", ".join(self.axes)
                raise ValueError(f"{self.name}: no axis {error}; the axes are {axes}") from None
            if name in variants:
                raise ValueError(f"{self.name}: two variants are named {name!r}; name every axis in it")
            variants[name] = {"recipe": self.recipe, "overrides": overrides}
        return variants


def _by_name(seeds: Any) -> Any:
    """Return numbers of runs by name; a single number holds for every recipe, and what nobody names has one run."""
    return {"default": 1, **seeds} if isinstance(seeds, dict) else {"default": seeds}


def _names(info: ValidationInfo) -> list[str]:
    """Return the names of the recipes and of the variants that were validated before."""
    return [*config_names(RECIPES), *info.data.get("variants", {})]


class ExperimentOptions(Options):
    """Options of experiments/*: the recipes that are compared, besides the main training and evaluation."""

    matrix: list[Matrix] = Field(
        default=[],
        description="Variants, one for each combination of values: `name`, `recipe`, `axes`, `overrides` and `seeds`.",
    )
    variants: dict[VariantName, Variant] = Field(
        default={}, description="Variants by name: recipes with their own settings, compared like recipes."
    )
    recipes: list[str] = Field(
        default=[], description="Recipes and variants that `luffy experiments` trains. Empty: the variants, or all."
    )
    seeds: Annotated[dict[str, PositiveInt], BeforeValidator(_by_name)] = Field(
        default={"default": 1},
        description="Seeds per recipe: a number, or numbers by recipe and variant, with `default` (1) for others. "
        "Seeds count up from training.seed.",
    )
    baseline: str = Field(default="on_policy", description="Recipe or variant that the others are compared with.")
    runs: str | None = Field(
        default=None,
        min_length=1,
        description="Folder of recorded runs, where each run is kept as a small file. A run that this or another "
        "machine has recorded there is not repeated.",
    )
    overrides: dict[Recipe, Overrides] = Field(
        default={}, description="KEY=VALUE settings by recipe, which win over training.overrides."
    )

    @model_validator(mode="before")
    @classmethod
    def _span(cls, values: Any) -> Any:
        """Add the variants of the matrix, with their numbers of runs, before the variants that are named one by one."""
        if not isinstance(values, dict) or not (spanned := values.get("matrix")):
            return values
        matrix = TypeAdapter(dict[str, list[Matrix]]).validate_python({"matrix": spanned})["matrix"]  # errors name it
        variants: dict[str, Any] = {}
        runs: dict[str, int] = {}
        for part in matrix:
            named = part.variants()
            if taken := sorted(named.keys() & variants.keys()):
                raise ValueError(f"matrix: two variants are named {taken[0]!r}")
            variants |= named
            runs |= dict.fromkeys(named, part.seeds) if part.seeds else {}
        seeds = values.get("seeds", {})
        seeds = {**runs, **seeds} if isinstance(seeds, dict) else seeds  # a single number holds for every variant
        given = values.get("variants", {})
        return {**values, "variants": {**variants, **given} if isinstance(given, dict) else given, "seeds": seeds}

    @field_validator("variants")
    @classmethod
    def _are_no_recipes(cls, variants: dict[str, Variant]) -> dict[str, Variant]:
        if taken := sorted(set(variants) & set(config_names(RECIPES))):
            raise ValueError(f"{taken[0]!r} is the name of a recipe; choose another")
        return variants

    @field_validator("recipes", "baseline")
    @classmethod
    def _exist(cls, value: list[str] | str, info: ValidationInfo) -> list[str] | str:
        for name in [value] if isinstance(value, str) else value:
            known(name, _names(info))
        return value

    @field_validator("seeds")
    @classmethod
    def _are_of_names_that_exist(cls, seeds: dict[str, int], info: ValidationInfo) -> dict[str, int]:
        for name in seeds:
            known(name, ["default", *_names(info)])
        return seeds

    def seeds_of(self, name: str) -> int:
        """Return the number of runs of a recipe or variant."""
        return self.seeds.get(name, self.seeds["default"])

    def most_seeds(self) -> int:
        """Return the largest number of seeds of any recipe."""
        return max(self.seeds.values())

    def names(self) -> list[str]:
        """Return the names of everything that can be trained and compared: the recipes, then the variants."""
        return [*config_names(RECIPES), *self.variants]

    def trained(self) -> list[str]:
        """Return the names that `luffy experiments` trains by default."""
        return self.recipes or list(self.variants) or self.names()

    def of(self, name: str) -> Variant:
        """Return the recipe ``name`` with its settings, or the variant of that name."""
        return self.variants.get(name) or Variant(recipe=name, overrides=self.overrides.get(name, []))


def training_of(options: ExperimentOptions, training: TrainingOptions, key: dg.MultiPartitionKey) -> TrainingOptions:
    """Return the training options of a partition: its recipe and seed, whatever ``training`` says."""
    name, seed = recipe_and_seed(key)
    variant = options.of(name)
    last = {override.partition("=")[0]: override for override in [*training.overrides, *variant.overrides]}
    changes = {"recipe": variant.recipe, "seed": int(seed), "overrides": list(last.values())}
    return training.model_copy(update=changes)


def recipe_and_seed(key: dg.MultiPartitionKey) -> tuple[str, str]:
    """Return the name of the recipe or variant of a partition, and its seed."""
    return key.keys_by_dimension[RECIPE], key.keys_by_dimension[SEED]
