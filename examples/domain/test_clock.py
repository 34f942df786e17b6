"""The example's verifier and profile, as an installed package."""

from collections.abc import Callable
from pathlib import Path

import pytest

from examples.domain.clock.verifier import score

LUFFY, STORAGE = ("-m", "pipelines.cli.luffy"), "LUFFY__STORAGE__ROOT"
WRITE = Path(__file__).parent / "write_traces.py"
RUN = ("run", "--profile", "clock", "--select", "+key:targets/prepared")


@pytest.mark.parametrize(
    ("response", "gold", "expected"),
    [
        ("<think>\n9:00\n</think>\n\n9:15", "9:15", 1.0),
        ("9:00", "9:15", 0.5),
        ("23:55", "0:10", 0.5),
        ("9:50", "9:15", 0.0),
        ("late", "9:15", 0.0),
    ],
)
def test_a_time_counts_less_the_further_it_is_from_the_gold_time(response: str, gold: str, expected: float) -> None:
    assert score("clock", response, gold)["score"] == pytest.approx(expected)


def test_the_verifier_and_the_profile_are_found_by_their_names(
    install: Callable[[str], dict[str, str]], python: Callable[..., str], tmp_path: Path
) -> None:
    environment = install("domain") | {name: str(tmp_path / "out") for name in ("DAGSTER_HOME", STORAGE)}
    python(str(WRITE), env=environment)
    tried = python(*LUFFY, "verify", "--thinking", "--verifier", "clock", "--in", "clock.jsonl", env=environment)
    assert tried.startswith("200 responses, mean score 1.000: 200 correct")
    shown = python(*LUFFY, *RUN, env=environment)  # the profile names clock.jsonl, which is in the current folder
    assert "180 of 200 traces are used" in shown
