"""docs/fidelity.md says what the recipes compose."""

from pathlib import Path

import pytest
import yaml

from core.errors import InputError
from training.commands import fidelity
from training.commands.fidelity import PUBLISHED, page, rows

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_what_the_recipes_compose() -> None:
    written = (ROOT / "docs" / "fidelity.md").read_text(encoding="utf-8")
    assert written == "\n".join(page()) + "\n", "write it: .venv-train/bin/python -m training.commands.fidelity"


def test_every_reason_is_needed() -> None:
    content = yaml.safe_load(PUBLISHED.read_text(encoding="utf-8"))
    given = {row.reason for recipe in content["recipes"] for row in rows(recipe)} - {""}
    assert given == set(content["reasons"].values())


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("actor_rollout_ref.rollout.n", 4, "luffy: actor_rollout_ref.rollout.n is 8 and was 4: say why"),
        ("actor_rollout_ref.rollout.m", 4, r"no key actor_rollout_ref\.rollout\.m"),
    ],
)
def test_a_value_that_drifts_needs_a_reason(
    key: str, value: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "published.yaml"
    file.write_text(yaml.safe_dump({"recipes": {"luffy": {key: value}}, "reasons": {}, "beyond": []}))
    monkeypatch.setattr(fidelity, "PUBLISHED", file)
    with pytest.raises(InputError, match=message):
        rows("luffy")
