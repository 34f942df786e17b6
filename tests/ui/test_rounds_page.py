"""Rounds in the Dagster UI: their assets, their job, and what a round asked the teacher."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from processes import clean_environment

pytest.importorskip("playwright.sync_api", reason="no playwright in this interpreter")
pytest.importorskip("dagster", reason="no dagster in this interpreter")

from research.shipped_weights import exact_teacher
from tests.ui.dagster_ui import ROOT, open_page, served

ASSETS = ("traces", "train", "policy", "scores", "scorecard")


@pytest.fixture(scope="module")
def address(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the UI of two rounds is served; the first has asked its teacher."""
    folder = tmp_path_factory.mktemp("rounds")
    exact_teacher.write_problems(folder / "problems.jsonl", 24)
    environment = clean_environment() | {
        "DAGSTER_HOME": str(folder / "home"),
        "LUFFY__STORAGE__ROOT": str(folder / "storage"),
        "LUFFY__GENERATE__PROBLEMS": str(folder / "problems.jsonl"),
        "LUFFY__BENCHMARKS__LIMIT": "4",
        "LUFFY__ROUNDS__NUMBER": "2",
        "LUFFY__ROUNDS__BUDGET_TOKENS": "600",
    }
    with exact_teacher.serve() as teacher:
        environment["LUFFY__GENERATE__TEACHER"] = teacher
        part = ["--profile", "rounds", "--select", "+key:rounds/1/traces"]
        command = [sys.executable, "-m", "pipelines.cli.luffy", "rounds", *part]
        subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=300)
        with served(folder, environment, "--profile", "rounds") as url:
            yield url


def test_rounds_are_a_job_of_assets_that_say_what_was_asked(browser: Any, address: str) -> None:
    with open_page(browser, address) as page:
        page.goto("/locations/__repository__@luffy/jobs/rounds")
        page.get_by_text("View 12 assets", exact=True).locator("visible=true").first.wait_for()
        page.goto("/assets/rounds/1")
        for name in ASSETS:
            page.get_by_text(name, exact=True).first.wait_for()
        page.goto("/assets/rounds/1/traces")
        for fact in ("unsolved", "asked", "tokens of this round", "policy before"):
            page.get_by_text(fact, exact=True).first.wait_for()
        page.goto("/assets/rounds/2/traces")
        page.get_by_text("Never materialized").first.wait_for()
