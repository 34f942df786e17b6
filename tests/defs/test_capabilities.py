"""What docs/capabilities.tsv says is kept has the test, the page or the target of make that shows it."""

import csv
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_what_shows_a_capability_that_stays_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    with (ROOT / "docs" / "capabilities.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert [row for row in rows if row["verdict"] != "keeps" and not row["verdict"].startswith("goes: ")] == []
    shown = {row["shown by"] for row in rows if row["verdict"] == "keeps"}
    missing = [at for at in shown if not (at.removeprefix("make ") in targets or (ROOT / at).exists())]
    assert missing == [], "docs/capabilities.tsv: say what shows the capability now, or 'goes: why'"
