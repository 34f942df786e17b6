"""Draw the scorecard of a storage for the documentation: ``python -m tests.ui.pictures var/storage``.

The picture holds the figures that it shows as text, with which ``tests/defs/test_pictures.py`` compares the pages.
"""

import sys
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import sync_playwright

from tests.ui.conftest import CHROMIUM, QUIET

DOCS = Path(__file__).resolve().parents[2] / "docs"
FIGURES = "figures"  # the name of the text in a picture


def draw_scorecard(storage: Path, out: Path) -> None:
    """Write the upper part of the newest scorecard in ``storage`` as a PNG, with the scorecard's text."""
    page = max(storage.glob("report/scorecard/*/scorecard.html"), key=lambda file: file.stat().st_mtime)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=QUIET)
        opened = browser.new_page(viewport={"width": 1080, "height": 1040})
        opened.goto(page.as_uri())
        opened.screenshot(path=out)
        browser.close()
    text = PngInfo()
    text.add_text(FIGURES, page.with_suffix(".txt").read_text(encoding="utf-8"))
    with Image.open(out) as picture:
        picture.quantize(64).save(out, pnginfo=text, optimize=True)


if __name__ == "__main__":
    draw_scorecard(Path(sys.argv[1]).absolute(), DOCS / "scorecard.png")
