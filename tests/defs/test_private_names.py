"""The names of Dagster that are not public: where we use them, and what breaks if a release moves one.

The weekly workflow runs this file, and the tests of the definitions, against the newest Dagster.
"""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pipelines", "assets", "training", "evaluation", "targets", "grading", "core", "research")
PRIVATE = re.compile(r"_(?!_)")
WEBSERVER = "pipelines/cli/webserver.py"
# Where each name is used, and what it is for.
USES = {
    **{
        f"dagster._core.remote_origin.{name}": (
            "pipelines/cli/execute.py",
            "the UI's timeline shows the runs of a terminal: without it, it leaves them out",
        )
        for name in ("RegisteredCodeLocationOrigin", "RemoteRepositoryOrigin")
    },
    "dagster._core.execution.plan.instance_concurrency_context.InstanceConcurrencyContext": (
        "assets/shared/gpu_slot.py",
        "takes a slot of a pool inside a step: without it, give the assets the pool, whose wait keeps a core busy",
    ),
    "dagster._core.workspace.context.WorkspaceProcessContext": (WEBSERVER, "an argument of the web server"),
    "dagster._core.workspace.load_target.WorkspaceFileTarget": (WEBSERVER, "an argument of that context"),
    "dagster_webserver.webserver.DagsterWebserver": (
        WEBSERVER,
        "guards the UI and serves pages: use `dagster-webserver` behind a proxy, and reports are files",
    ),
}


def private_imports(file: Path) -> Iterator[str]:
    """The names that ``file`` imports from private modules of Dagster, or from its web server."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names = [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else modules
        for name in names:
            package, *rest = name.split(".")
            private = package.startswith("dagster") and any(PRIVATE.match(part) for part in rest)
            if private or package == "dagster_webserver":
                yield name


def test_each_private_name_is_used_in_one_module_and_listed_here() -> None:
    files = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    found = sorted((name, file.relative_to(ROOT).as_posix()) for file in files for name in private_imports(file))
    assert found == sorted((name, where) for name, (where, _) in USES.items())


@pytest.mark.parametrize("name", USES)
def test_a_private_name_is_there(name: str) -> None:
    where, purpose = USES[name]
    module, _, attribute = name.rpartition(".")
    try:
        assert hasattr(import_module(module), attribute)
    except (ImportError, AssertionError):
        pytest.fail(f"Dagster has no {name}, which {where} imports: {purpose}")
