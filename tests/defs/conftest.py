"""A project of its own for each test: storage, instance and settings in a temporary folder, everything else real."""

import importlib.util
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import clean_environment

if importlib.util.find_spec("dagster") is None:  # the training interpreter has no Dagster
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Makes a project from settings given as ``section__key=value``; the projects of one test share storage."""
    import dagster as dg

    from pipelines.definitions.factory import build_defs
    from tests.defs.project import Project, settings_of

    with dg.DagsterInstance.ephemeral() as instance:

        def make(profile: str = "embedded", **settings: str) -> Project:
            environment = {"LUFFY_PROFILE": profile, "LUFFY__STORAGE__ROOT": str(tmp_path / "storage")}
            environment |= {f"LUFFY__{name.upper()}": value for name, value in settings.items()}
            return Project(build_defs(settings_of(**environment)), tmp_path / "storage", instance)

        yield make


@pytest.fixture(scope="session")
def training_interpreter() -> Path:
    """The Python that generates; skips where it cannot."""
    python = Path(__file__).resolve().parents[2] / ".venv-train" / "bin" / "python"
    needs = "import importlib.util, sys; sys.exit(any(importlib.util.find_spec(n) is None for n in sys.argv[1:]))"
    if not python.exists() or subprocess.run([python, "-c", needs, "vllm"], check=False).returncode:
        pytest.skip(f"{python} has no vllm: run `luffy setup`")
    return python


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Variables of a command with storage, instance and small settings of its own."""
    kept = clean_environment()
    return kept | {
        "DAGSTER_HOME": str(tmp_path / "home"),
        "LUFFY__STORAGE__ROOT": str(tmp_path / "storage"),
        "LUFFY__TARGETS__EMBEDDED_ROWS": "300",
        "LUFFY__BENCHMARKS__LIMIT": "20",
    }
