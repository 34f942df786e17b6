"""The table of metrics covers what trainings log, and every view finds its metrics there."""

from collections import Counter

import pytest

from core.metric_table import (
    ENTROPY,
    METRICS,
    OFF_POLICY_PROB,
    RESPONSE_LENGTH,
    REWARD,
    View,
    live_values,
    metric_of,
    title_of,
    titles,
)


def test_a_metric_has_one_row_and_every_row_a_label() -> None:
    assert [name for name, count in Counter(metric.name for metric in METRICS).items() if count > 1] == []
    assert all(metric.label and ("{}" in metric.label) == metric.name.endswith("*") for metric in METRICS)
    unnamed = [m.name for m in METRICS if View.TERMINAL in m.views and not 1 <= len(m.short) <= 6]
    assert not unnamed, f"core/metric_table.py: the terminal draws {unnamed}; give them a `short` of 1 to 6 characters"


def test_no_row_is_hidden_behind_the_family_before_it() -> None:
    for metric in METRICS:
        member = metric.name.replace("*", "of_this_family")
        family = metric_of(member)
        assert family is metric, f"core/metric_table.py: move the row {metric.name!r} before {family and family.name!r}"


@pytest.mark.parametrize(
    ("name", "live", "title"),
    [
        ("reward/on_policy", True, "Reward of on-policy samples"),
        ("response_length/mean", True, "Response length, tokens"),
        ("response_length/max", False, "Response length: max, tokens"),
        ("actor/perf/max_memory_allocated_gb", True, "Memory of the actor: max_memory_allocated_gb, GiB"),
        ("actor/a_new_term", True, "Update: a_new_term"),
        ("drift/age_12", True, "Drift of tokens of age 12"),
        ("validation/source/score", True, "Validation: reward of source score"),
        ("reward/source/on_policy", True, "Reward of source on_policy"),
        ("solved/source/law", True, "Groups of source law with a solved sample, share"),
        ("reward/errors", True, "Samples that the verifier failed on"),
        ("timing_s/gen", True, "Duration of gen, s"),
        ("perf/time_per_step", False, "Performance: time_per_step"),
    ],
)
def test_names_of_verl_and_of_the_hooks_have_their_row(name: str, live: bool, title: str) -> None:
    assert title_of(name) == title
    assert (name in live_values({name: 1})) is live


def test_a_name_without_a_row_is_not_live_and_has_no_title() -> None:
    assert live_values({"weather/rain": 1}) == {}
    with pytest.raises(ValueError, match=r"no row for the metric 'weather/rain'"):
        title_of("weather/rain")


def test_a_view_draws_its_metrics_in_the_order_of_the_table_with_the_ages_that_a_run_had() -> None:
    names = list(titles(View.POLICY, ["drift/age_10", "drift/age_2", "actor/lr", "weather/rain"]))
    assert names.index("drift/age_2") + 1 == names.index("drift/age_10")
    assert "actor/lr" not in names and "weather/rain" not in names
    assert {REWARD, RESPONSE_LENGTH, ENTROPY, OFF_POLICY_PROB} <= set(titles(View.CHAMPION))
    assert list(titles(View.CHAMPION)) == [metric.name for metric in METRICS if View.CHAMPION in metric.views]
