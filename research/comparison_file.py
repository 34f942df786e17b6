"""A comparison of recipes: a YAML file that names recipes, their settings and seeds, and a profile for the rest.

Each recipe and seed is an ordinary ``luffy run`` of the profile with other settings of the training.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from core import PROJECT
from core.errors import InputError, did_you_mean, explain_validation
from core.files import read_yaml
from core.plugins.config_files import RECIPES, config_file, config_names, is_path

FOLDER = PROJECT / "research/comparisons"
VariantName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]  # part of a file's name


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Variant(_Part):
    """A recipe with its own settings, which is trained and compared under its own name."""

    recipe: str  # name of a shipped recipe, or the path of a file
    overrides: list[str] = []  # KEY=VALUE settings that win over those of the profile


class Matrix(_Part):
    """Variants of one recipe, one for each combination of some values."""

    name: str  # of each variant; {AXIS} stands for the value of an axis
    recipe: str
    axes: dict[str, Annotated[list[Any], Field(min_length=1)]]  # values by axis; the first axis varies slowest
    overrides: list[str] = []  # {AXIS} stands for the value
    seeds: PositiveInt | None = None  # runs of each variant

    def variants(self) -> dict[str, dict[str, Any]]:
        """Return the variants by name; ValueError if a text names an unknown axis, or if names are equal."""
        variants: dict[str, dict[str, Any]] = {}
        for values in product(*self.axes.values()):
            texts = ("null" if value is None else value for value in values)  # as a KEY=VALUE setting writes it
            chosen = dict(zip(self.axes, texts, strict=True))
            try:
                name, *overrides = (text.format(**chosen) for text in (self.name, *self.overrides))
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                raise ValueError(f"{self.name}: no axis {error}; the axes are {', '.join(self.axes)}") from None
            if name in variants:
                raise ValueError(f"{self.name}: two variants are named {name!r}; name every axis in it")
            variants[name] = {"recipe": self.recipe, "overrides": overrides}
        return variants


def _by_name(seeds: Any) -> Any:
    """Return numbers of runs by name; a single number holds for every recipe."""
    return {"default": 1, **seeds} if isinstance(seeds, dict) else {"default": seeds}


@dataclass(frozen=True)
class Trial:
    """One run of a comparison."""

    name: str
    recipe: str
    seed: int
    overrides: tuple[str, ...]


class ComparisonFile(_Part):
    """The content of the file."""

    profile: str  # of the targets, the base model, the benchmarks and the training
    runs: str | None = None  # folder of the recorded runs; default: var/research/<comparison>/runs
    recipes: list[str] = []  # what is trained by default; empty: the variants
    baseline: str = "on_policy"
    seeds: Annotated[dict[str, PositiveInt], BeforeValidator(_by_name)] = {"default": 1}  # they count up from 0
    variants: dict[VariantName, Variant] = {}
    matrix: list[Matrix] = []
    overrides: dict[str, list[str]] = {}  # KEY=VALUE settings of shipped recipes

    @model_validator(mode="before")
    @classmethod
    def _span(cls, values: Any) -> Any:
        """Add the variants of the matrix, with their numbers of runs, before those that are named one by one."""
        variants: dict[str, Any] = {}
        runs: dict[str, int] = {}
        for part in TypeAdapter(list[Matrix]).validate_python(values.get("matrix", [])):
            named = part.variants()
            if taken := sorted(named.keys() & variants.keys()):
                raise ValueError(f"matrix: two variants are named {taken[0]!r}")
            variants |= named
            runs |= dict.fromkeys(named, part.seeds) if part.seeds else {}
        seeds = values.get("seeds", {})
        seeds = {**runs, **seeds} if isinstance(seeds, dict) else seeds  # a single number holds for every variant
        return {**values, "variants": {**variants, **values.get("variants", {})}, "seeds": seeds}

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        names = self.names()
        if twice := sorted(set(self.variants) & set(config_names(RECIPES))):
            raise ValueError(f"variants: {twice[0]!r} is the name of a recipe; choose another")
        for key, given in (("recipes", self.recipes), ("baseline", [self.baseline]), ("overrides", self.overrides)):
            check_names(given, names, key)
        check_names(self.seeds, ["default", *names], "seeds")
        return self

    def names(self) -> list[str]:
        """Return the names of everything that can be compared: the recipes, then the variants."""
        return [*config_names(RECIPES), *self.variants]

    def seeds_of(self, name: str) -> int:
        """Return the number of seeds of a recipe or variant."""
        return self.seeds.get(name, self.seeds["default"])

    def with_files(self, recipes: Sequence[str]) -> "ComparisonFile":
        """Return the comparison with the ``recipes`` that are files as variants, named after the file."""
        files = [Path(recipe).absolute() for recipe in recipes if is_path(recipe)]
        own = {file.stem: Variant(recipe=config_file(RECIPES, str(file)).as_posix()) for file in files}
        return self.model_copy(update={"variants": {**self.variants, **own}})

    def trials(self, names: Sequence[str], overrides: Sequence[str], seeds: int | None = None) -> Iterator[Trial]:
        """Yield the runs of ``names``, the first seed of all of them first.

        Args:
            names: Recipes and variants. Empty: all of the file.
            overrides: The training's settings in the profile, over which a recipe's win.
            seeds: Seeds of each. None: as many as the file says.
        """
        names = names or self.recipes or list(self.variants)
        check_names(names, self.names(), "RECIPE")
        counts = {name: seeds or self.seeds_of(name) for name in names}
        for seed in range(max(counts.values())):
            for name in (name for name, count in counts.items() if seed < count):
                variant = self.variants.get(name) or Variant(recipe=name, overrides=self.overrides.get(name, []))
                last = {text.partition("=")[0]: text for text in [*overrides, *variant.overrides]}
                yield Trial(name, variant.recipe, seed, tuple(last.values()))


def check_names(given: Sequence[str] | Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Raise ValueError, which begins with ``where``, for a name that is not among ``names``."""
    for name in given:
        if name not in names:
            guess = did_you_mean(name, names) or ""
            raise ValueError(f"{where}: there is no {name!r}{guess}; expected one of {', '.join(names)}")


def read_comparison(name: str) -> tuple[str, ComparisonFile]:
    """Read a shipped comparison by its name, or a file by its path; return its name and content.

    A file with ``base: NAME`` extends another one in its folder: ``seeds`` and ``overrides`` are merged by name.

    Raises:
        InputError: there is no such file, or a key or value of it is wrong.
    """
    file = Path(name) if is_path(name) else FOLDER / f"{name}.yaml"
    if not file.is_file():
        shipped = ", ".join(sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != "recipes"))
        raise InputError(f"comparison {name!r}: no such file; expected one of {shipped}, or the path of a YAML file")
    values = read_yaml(file, "comparison")
    if base := values.pop("base", None):
        shared = read_yaml(file.parent / f"{base}.yaml", "comparison")
        merged = {key: {**shared.get(key, {}), **values.get(key, {})} for key in ("seeds", "overrides")}
        values = {**shared, **values, **merged}
    try:
        return file.stem, ComparisonFile(**values)
    except ValidationError as error:
        raise InputError(f"comparison {file}: {explain_validation(error, ComparisonFile)}") from error
