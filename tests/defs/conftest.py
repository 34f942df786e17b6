"""A project of its own for each test: storage, instance and settings in a temporary folder, everything else real."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
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

    from tests.defs.project import build_project

    with dg.DagsterInstance.ephemeral() as instance:
        yield partial(build_project, tmp_path / "storage", instance)


@pytest.fixture(scope="session")
def small_storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage in which the targets of `SMALL` are made."""
    import dagster as dg

    from tests.defs.project import build_project
    from tests.defs.small_targets import INPUTS, SMALL, TARGETS

    storage = tmp_path_factory.mktemp("small") / "storage"
    with dg.DagsterInstance.ephemeral() as instance:
        assert build_project(storage, instance, **SMALL).run(*INPUTS, *TARGETS).success
    return storage


@pytest.fixture
def build_on_small(build: Callable[..., Any], small_storage: Path, tmp_path: Path) -> Callable[..., Any]:
    """As `build`, on a copy of `small_storage`: a first run records what is there, and makes nothing."""
    shutil.copytree(small_storage, tmp_path / "storage")
    return build


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


@pytest.fixture
def luffy(capfd: pytest.CaptureFixture[str]) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs ``luffy`` with an environment in this process, because its imports take longer than most commands do."""
    from core.cli import exit_status
    from pipelines.cli.luffy import main

    def run(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
        folder, mask, kept = os.getcwd(), os.umask(0o077), dict(os.environ)
        try:
            os.environ.clear()
            os.environ.update(environment)
            return subprocess.CompletedProcess(arguments, exit_status(lambda: main(arguments)), *capfd.readouterr())
        finally:
            os.chdir(folder)
            os.umask(mask)
            os.environ.clear()
            os.environ.update(kept)

    return run
