"""Measure the page of rows in Chromium: ``.venv/bin/python -m perf.browser [ROWS]`` (default: 10,000).

It prints the load average, the time and size of writing the page, the first paint, the time until the list is there,
and how long the page takes to filter, and to search all texts after they were unpacked.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.browser.page import Page, Row, write_page
from perf.operations import BROWSER, FLAGS

TEXT = "we look at number %d and at $y_{%d}^2 = \\frac{1}{2}$, and then at the next one, as often as it takes;\n"
LINES = 40
SECONDS = 60  # to wait for a result
UNPACKED_MS = 3000  # after which the texts of 10,000 rows are unpacked


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    sys.stdout.write(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {count:,} rows\n")
    with tempfile.TemporaryDirectory(prefix="luffy-browser-") as folder:
        page, began = Path(folder) / "page.html", time.monotonic()
        write_page(Page("Targets", ("reason", "source"), review=True), _rows(count), count, page)
        _say("writing the page", time.monotonic() - began, f"; {page.stat().st_size / 1e6:.1f} MB")
        _open(page)


def _say(what: str, seconds: float, more: str = "") -> None:
    sys.stdout.write(f"{what:40} {seconds:6.3f} s{more}\n")
    sys.stdout.flush()


def _rows(count: int) -> Iterator[Row]:
    for k in range(count):
        response = f"<think>\n{(TEXT % (k, k)) * LINES}</think>\n\n\\boxed{{{k}}}"
        reason = "kept" if k % 5 else "wrong"
        yield Row(
            f"t.jsonl:{k}", (reason, f"source {k % 7}"), f"Problem {k}: $x^{{{k}}}$?", "1", response, len(response)
        )


def _open(page: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(BROWSER), args=FLAGS)
        opened = browser.new_page(viewport={"width": 1500, "height": 1000})
        opened.set_default_timeout(SECONDS * 1000)
        opened.goto(page.as_uri())
        opened.locator("article h2").wait_for()
        paint = opened.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        _say("first paint", paint / 1000, "  (target 2 s)")
        _say("the list is there", opened.evaluate("performance.getEntriesByName('list-shown')[0].startTime") / 1000)
        opened.select_option("select[name=reason]", "0")
        _say("filter by reason", _filtered(opened, 2), "  (target 0.2 s)")
        opened.wait_for_timeout(UNPACKED_MS)
        for number, query in enumerate(("number 7 and", "nothing has this"), 3):
            opened.fill("#query", query)
            _say(f"search {query!r}", _filtered(opened, number), "  (target 0.2 s)")
        browser.close()


def _filtered(opened: Any, times: int) -> float:
    """Return the seconds of the filter that was applied as the ``times``-th one."""
    end = time.monotonic() + SECONDS
    while len(took := opened.evaluate("performance.getEntriesByName('filter').map(entry => entry.duration)")) < times:
        assert time.monotonic() < end, f"no result after {SECONDS} s"
        time.sleep(0.05)
    return took[times - 1] / 1000


if __name__ == "__main__":
    main()
