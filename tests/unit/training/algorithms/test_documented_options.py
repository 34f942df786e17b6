"""docs/algorithm.md and docs/asynchronous.md have every option with its default."""

import re
from pathlib import Path

import pytest
import yaml

from training.algorithms.options import MixedPolicyOptions, Options, RolloutOptions

DOCS = Path(__file__).resolve().parents[4] / "docs"
PAGES = {"algorithm.md": MixedPolicyOptions(), "asynchronous.md": RolloutOptions()}


def defaults(options: Options, prefix: str = "") -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in options:
        if isinstance(value, Options):
            values |= defaults(value, f"{name}.")
        else:
            values[prefix + name] = value
    return values


@pytest.mark.parametrize("page", PAGES)
def test_every_option_is_there_with_its_default(page: str) -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| `([^`]+)` \|", (DOCS / page).read_text(encoding="utf-8"), re.M)
    documented = {name: yaml.safe_load(default) for name, default in rows}
    expected = defaults(PAGES[page])
    expected.pop("clip_ratio", None)  # verl's key
    assert documented.keys() == expected.keys()
    assert {name: str(value) for name, value in documented.items()} == {n: str(v) for n, v in expected.items()}
