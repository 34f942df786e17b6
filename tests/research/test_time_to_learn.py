"""When recipes learn: the tables of the page, and decisions on times that are known."""

import numpy as np
import pytest

from core import PROJECT
from core.errors import InputError
from research.time_to_learn import Time, looks_table, sections

RUNS = PROJECT / "research" / "runs" / "comparison"


def test_the_page_has_the_tables_of_the_recorded_runs() -> None:
    page = (PROJECT / "docs/results/comparison.md").read_text(encoding="utf-8")
    for section in sections(["luffy", "mixed_policy", "sft_rl"], "on_policy", RUNS):
        assert section in page


def decided(first: float, second: float, pairs: int) -> list[str]:
    """Whether each look decides between exponential times of these means, of which those beyond 60 are censored."""
    random = np.random.default_rng(1)
    drawn = [
        {seed: Time(min(60, 1 + int(t)), bool(t < 59)) for seed, t in enumerate(random.exponential(mean, pairs))}
        for mean in (first, second)
    ]
    looks = [row.split("|")[-2].strip() for row in looks_table(*drawn).splitlines()[2:]]
    return [look for look in looks if look]


def test_a_look_decides_where_one_recipe_is_much_sooner_and_nowhere_else() -> None:
    assert decided(10, 60, 48)[-1] == "yes"
    assert decided(30, 30, 48) == ["no"] * 4
    assert len(decided(30, 30, 17)) == 2
    with pytest.raises(InputError, match="7 seeds of both are recorded: expected at least 8"):
        decided(30, 30, 7)
