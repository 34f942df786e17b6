"""A house of its own for each test: storage, instance and settings in a temporary folder, everything else real."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("dagster") is None:  # the training interpreter has no Dagster
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Makes a house from settings given as ``section__key=value``; all houses of a test share storage and instance."""
    import dagster as dg
    from tests.defs.house import House

    from pipelines.definitions.code_location import build_defs
    from pipelines.definitions.settings import load_settings

    with dg.DagsterInstance.ephemeral() as instance:

        def make(profile: str = "embedded", **settings: str) -> House:
            environment = {"LUFFY_PROFILE": profile, "LUFFY__STORAGE__ROOT": str(tmp_path / "storage")}
            environment |= {f"LUFFY__{name.upper()}": value for name, value in settings.items()}
            return House(build_defs(settings=load_settings(environment)), tmp_path / "storage", instance)

        yield make
