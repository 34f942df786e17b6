"""docs/algorithm.md and docs/asynchronous.md have every option with its default."""

import re
from pathlib import Path

import pytest
import yaml

from training.algorithms.options import MixedPolicyOptions, Options
from training.config.run import Rollout, SeparateAsync

DOCS = Path(__file__).resolve().parents[4] / "docs"


def defaults(options: Options, prefix: str = "") -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in options:
        if isinstance(value, Options):
            values |= defaults(value, f"{name}.")
        else:
            values[prefix + name] = value
    return values


ROLLOUTS = {"rollouts.type": "sync", "rollout.precision": Rollout().precision} | {
    f"rollouts.{name}": getattr(SeparateAsync(), name) for name in ("max_staleness", "stale_samples")
}


@pytest.mark.parametrize(
    ("page", "expected"), [("algorithm.md", defaults(MixedPolicyOptions())), ("asynchronous.md", ROLLOUTS)]
)
def test_every_option_is_there_with_its_default(page: str, expected: dict[str, object]) -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| `([^`]+)` \|", (DOCS / page).read_text(encoding="utf-8"), re.M)
    documented = {name: yaml.safe_load(default) for name, default in rows}
    expected = {name: value for name, value in expected.items() if name != "clip_ratio"}  # verl's key
    assert documented.keys() == expected.keys()
    assert {name: str(value) for name, value in documented.items()} == {n: str(v) for n, v in expected.items()}
