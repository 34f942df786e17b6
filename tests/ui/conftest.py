"""One Chromium for the tests of a module, and the screenshots that the documentation shows."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path("/usr/bin/chromium")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
QUIET += ["--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium, driven by playwright; tests are skipped where one of the two is missing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright in this interpreter")
    if not CHROMIUM.exists():
        pytest.skip(f"no {CHROMIUM}: install Debian's chromium")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(CHROMIUM), args=QUIET)
        yield opened
        opened.close()


@pytest.fixture
def screenshot(tmp_path: Path) -> Callable[[Any, str], Path]:
    """Takes the picture NAME.png of a page, in the folder that the variable SCREENSHOTS names (docs), or in none."""

    def take(page: Any, name: str) -> Path:
        file = Path(os.environ.get("SCREENSHOTS", tmp_path)) / f"{name}.png"
        page.screenshot(path=file)
        assert file.stat().st_size > 10_000  # an empty page has less
        return file

    return take
