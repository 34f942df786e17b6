"""The Dagster UI in a real browser, on an instance and a storage of the test's own."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from processes import clean_environment, wait_until

from assets.shared.interpreter_process import RUN_VARIABLE
from pipelines.definitions.jobs import DESCRIPTIONS
from tests.ui.dagster_ui import open_page, served

sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright in this interpreter")
pytest.importorskip("dagster", reason="no dagster in this interpreter")

pytestmark = pytest.mark.slow  # the quick tests look at the definitions and the guard of the UI
ROOT = Path(__file__).resolve().parents[2]
GROUPS = ["benchmarks", "evals", "models", "ood", "operations", "registry", "report", "targets"]
GROUPS += ["training"]


@pytest.fixture(scope="module")
def address(browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the UI is served; targets, model and benchmarks are materialized, and a scorecard of written scores."""
    folder = tmp_path_factory.mktemp("ui")
    kept = clean_environment()
    environment = kept | {
        "DAGSTER_HOME": str(folder / "home"),
        "LUFFY__STORAGE__ROOT": str(folder / "storage"),
        "LUFFY__TARGETS__EMBEDDED_ROWS": "300",
        "LUFFY__BENCHMARKS__LIMIT": "20",
    }
    written_scorecard(folder, environment)
    part = "group:models or group:benchmarks or group:targets"
    command = [sys.executable, "-m", "pipelines.cli.luffy", "run", "--select", part]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=300)
    with served(folder, environment) as url:
        yield url


def written_scorecard(folder: Path, environment: dict[str, str]) -> None:
    """A scorecard as a policy leaves it, from written scores."""
    from tests.defs.project import Project
    from tests.defs.written_scores import GOOD, Written

    (folder / "storage").mkdir()
    written = Written(Project(None, folder / "storage", None))
    written.scores("base", written.base, arithmetic=0.06, arithmetic_long=0.02, arithmetic_mul=0.05, arithmetic_short=1)
    written.policy("first", **GOOD)
    part = 'key:"report/scorecard" or key:"registry/champion"'
    command = [sys.executable, "-m", "pipelines.cli.luffy", "run", "--select", part]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=300)


@pytest.fixture
def page(browser, address: str) -> Iterator[sync_api.Page]:
    with open_page(browser, address) as page:
        yield page


def visible(page: sync_api.Page, text: str) -> sync_api.Locator:
    """The elements with a text that can be seen: the UI measures long ones in hidden elements."""
    return page.get_by_text(text, exact=True).locator("visible=true")


def picture(page: sync_api.Page, name: str, around: list[Any] | None = None) -> None:
    """Keep the page, or the part ``around`` some elements, where PICTURES names a folder.

    docs/asset-graph.png is such a picture.
    """
    if folder := os.environ.get("PICTURES"):
        page.wait_for_timeout(3000)  # the elements move to their places
        boxes = [box for element in around or [page.locator("body")] if (box := element.bounding_box())]
        left, top = (min(box[side] for box in boxes) - 30 for side in ("x", "y"))
        right, bottom = (max(box[s] + box[size] for box in boxes) + 30 for s, size in (("x", "width"), ("y", "height")))
        clip = {"x": max(0, left), "y": max(0, top), "width": right - left, "height": bottom - top}
        page.screenshot(path=Path(folder, name), clip=clip)


def test_the_graph_shows_every_stage(page):
    page.goto("/asset-groups/~")
    for group in GROUPS:
        page.get_by_text(group, exact=True).first.wait_for()
    picture(page, "asset-graph.png", [visible(page, group).last for group in GROUPS])  # the list of groups comes first


@pytest.mark.parametrize(("job", "assets"), [("prepare_targets", 6), ("train_policy", 2), ("score_policy", 10)])
def test_the_page_of_a_purpose_says_what_it_is_for(page, job: str, assets: int):
    page.goto(f"/locations/__repository__@luffy/jobs/{job}")
    page.get_by_text(DESCRIPTIONS[job][:40]).first.wait_for()
    visible(page, f"View {assets} assets").first.wait_for()
    picture(page, f"job-{job}.png")


def test_the_training_file_shows_its_rows_checks_and_columns(page):
    page.goto("/assets/targets/train")
    page.get_by_text("Row count", exact=True).wait_for()
    page.get_by_text("reward_model", exact=True).first.wait_for()
    page.goto("/assets/targets/train?view=checks")
    page.get_by_text("answers_verified", exact=True).first.click()
    page.get_by_text("blocking", exact=True).wait_for()
    page.get_by_text("Passed", exact=True).first.wait_for()


def test_a_click_materializes_and_the_checks_run(page):
    page.goto("/assets/targets/train?view=events")
    before = page.get_by_text("Materialized in run").first
    before.wait_for()
    link = page.locator("a[href*='/runs/']").first.get_attribute("href")
    page.get_by_text("Materialize", exact=True).first.click()
    page.wait_for_function(
        "old => [...document.querySelectorAll(\"a[href*='/runs/']\")].some(a => !a.getAttribute('href').includes(old))",
        arg=re.search(r"/runs/([\w-]+)", str(link))[1],
    )
    page.goto("/runs")
    page.get_by_text("Success", exact=True).nth(1).wait_for()
    page.goto("/assets/targets/train?view=checks")
    page.get_by_text("Passed", exact=True).first.wait_for()


def test_the_numbers_of_a_decision_are_plotted(page):
    page.goto("/assets/registry/champion")
    page.get_by_text("Plots", exact=True).first.click()
    page.get_by_text("in-domain difference, points", exact=True).first.wait_for()
    page.locator("canvas").first.wait_for()


def test_the_scorecard_shows_its_verdict_and_its_page(page):
    page.goto("/assets/report/scorecard")
    page.get_by_text("better than the base on").first.wait_for()
    page.get_by_text("scorecard.html").first.wait_for()


def test_the_browser_of_targets_opens_from_its_asset_and_a_review_is_downloaded(page):
    page.goto("/assets/targets/browser")
    with page.context.expect_page() as opened:
        page.locator("a[href*='/files/targets/browser/']").first.click()
    shown = opened.value
    shown.locator("#count", has_text="300 of 300 rows").wait_for()
    shown.get_by_text("Final answer").wait_for()
    shown.keyboard.press("r")
    with shown.expect_download() as download:
        shown.click("#download")
    assert re.fullmatch(r"id,decision,reviewer,note\nembedded:\S+,refuse,,\n", Path(download.value.path()).read_text())


def test_the_automation_is_listed_and_off(page):
    page.goto("/automation")
    for name in ("weekly_retrain", "watch_sources", "stop_orphans", "notify_run_failures"):
        page.get_by_text(name, exact=True).first.wait_for()


def test_a_training_is_launched_watched_and_cancelled(page, address):
    page.goto("/assets/training/policy")
    page.get_by_text("Materialize", exact=True).first.click()
    page.wait_for_url("**/assets/training/policy**")
    (run,) = wait_until(lambda: runs_of(address, "STARTED"), 120)
    seen = wait_until(lambda: observed(address), 300)  # loading verl and vLLM, and the first step
    page.goto("/assets/training/metrics")
    page.get_by_text("Plots", exact=True).first.click()
    page.locator("canvas").first.wait_for()
    wait_until(lambda: observed(address) > seen, 120)
    page.get_by_text("reward/on_policy", exact=True).first.wait_for()
    assert processes_of(run)
    page.goto(f"/runs/{run}")
    page.get_by_text("Terminate", exact=True).first.click()
    page.get_by_role("dialog").get_by_role("button", name="Terminate").click()
    wait_until(lambda: run in runs_of(address, "CANCELED"), 60)
    wait_until(lambda: not processes_of(run), 30)
    page.goto("/runs")
    page.get_by_text("Canceled", exact=True).first.wait_for()


def ask(address: str, query: str) -> dict[str, Any]:
    """The data that the UI's own GraphQL gives for ``query``."""
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(f"{address}/graphql", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)["data"]


def runs_of(address: str, status: str) -> list[str]:
    found = ask(
        address, f"{{ runsOrError(filter: {{statuses: [{status}]}}) {{ ... on Runs {{ results {{ id }} }} }} }}"
    )
    return [run["id"] for run in found["runsOrError"]["results"]]


def observed(address: str) -> int:
    """How many steps of training the instance has seen."""
    query = (
        '{ assetOrError(assetKey: {path: ["training", "metrics"]}) { ... on Asset { assetObservations { runId } } } }'
    )
    return len(ask(address, query)["assetOrError"].get("assetObservations", []))


def processes_of(run: str) -> list[int]:
    """The processes that a run's training is made of: they carry its id."""
    processes = psutil.process_iter(["environ"])
    return [process.pid for process in processes if (process.info["environ"] or {}).get(RUN_VARIABLE) == run]
