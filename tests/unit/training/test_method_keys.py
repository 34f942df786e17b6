"""The keys of the section ``method``: each has its row in docs/algorithm.md, and each former key its place."""

import re
from pathlib import Path

from method_keys import KEYS

ROOT = Path(__file__).resolve().parents[3]
ROW = re.compile(r"^\| `([\w.]+)` \| `[^`]*` \| .* \|$", re.M)


def test_every_key_is_explained() -> None:
    documented = ROW.findall((ROOT / "docs/algorithm.md").read_text(encoding="utf-8"))
    assert len(documented) == len(set(documented))
    sections = {key.rpartition(".")[0] for key in KEYS}
    assert KEYS - {"type"} - sections <= set(documented) <= KEYS


def test_every_place_of_a_former_key_exists() -> None:
    _, *rows = (ROOT / "tests/golden/keys.tsv").read_text(encoding="utf-8").splitlines()
    places = [
        place.removeprefix("method.") for place in (row.split("\t")[1] for row in rows) if place.startswith("method.")
    ]
    assert len(places) > 70
    assert [place for place in places if place not in KEYS] == []
