"""What the tests of trainings share: each configuration is composed once, which takes Hydra half a second."""

import copy
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from omegaconf import DictConfig


@pytest.fixture(scope="session", autouse=True)
def composed_once() -> Iterator[None]:
    """Tests that ask for the same recipe, hardware and overrides get copies of one composition."""
    from training.run import configuration

    original = configuration.compose_files

    @cache
    def compose(recipe: str, hardware: str, overrides: tuple[str, ...]) -> "DictConfig":
        return original(recipe, hardware, overrides, run=Path("run"))

    def compose_files(recipe: str, hardware: str, overrides: Sequence[str], *, run: Path) -> "DictConfig":
        config = copy.deepcopy(compose(recipe, hardware, tuple(overrides)))
        config.paths.run = str(run)
        return config

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(configuration, "compose_files", compose_files)
        yield
