"""The site of the documentation, opened as files by a browser that reaches no network."""

import os
import subprocess
from pathlib import Path

import pytest

from core import PROJECT

MKDOCS = PROJECT / ".venv-docs" / "bin" / "mkdocs"
WIDTH, HEIGHT = 1300, 900


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` builds; a warning, such as a broken link, is an error."""
    if not MKDOCS.exists():
        pytest.skip("no .venv-docs: run make docs")
    folder = tmp_path_factory.mktemp("site")
    command = [str(MKDOCS), "build", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_needs_no_network_and_its_search_answers(site, browser, tmp_path):
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    requested, broken = [], []
    page.on("request", lambda request: requested.append(request.url))
    page.on("pageerror", lambda error: broken.append(str(error)))
    page.goto((site / "reference" / "settings.html").as_uri())
    page.get_by_role("cell", name="promotion.max_ood_drop", exact=True).wait_for()
    page.locator(".md-search__input").click()
    page.wait_for_timeout(1000)
    page.keyboard.type("rollback", delay=50)
    page.locator(".md-search-result__item").first.wait_for()
    page.screenshot(path=tmp_path / "search.png")
    page.close()
    assert not [url for url in requested if not url.startswith(("file:", "data:"))]
    assert not broken


def test_every_page_of_the_navigation_opens(site, browser):
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    page.goto((site / "index.html").as_uri())
    links = page.locator(".md-nav__link[href]").evaluate_all("links => links.map(link => link.href.split('#')[0])")
    assert len(set(links)) > 15
    for link in sorted(set(links)):
        page.goto(link)
        assert page.locator("h1").first.inner_text().strip(), link
    page.close()
