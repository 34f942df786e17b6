"""Draw the scorecard of a storage for the documentation: ``python -m tests.ui.pictures var/storage``."""

import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.ui.conftest import CHROMIUM, QUIET

DOCS = Path(__file__).resolve().parents[2] / "docs"


def draw_scorecard(storage: Path, out: Path) -> None:
    """Write the upper part of the newest scorecard in ``storage`` as a PNG."""
    page = max(storage.glob("report/scorecard/*/scorecard.html"), key=lambda file: file.stat().st_mtime)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=QUIET)
        opened = browser.new_page(viewport={"width": 1080, "height": 1040})
        opened.goto(page.as_uri())
        opened.screenshot(path=out)
        browser.close()
    with Image.open(out) as picture:
        picture.quantize(64).save(out, optimize=True)


if __name__ == "__main__":
    draw_scorecard(Path(sys.argv[1]).absolute(), DOCS / "scorecard.png")
