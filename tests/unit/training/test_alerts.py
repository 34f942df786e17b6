"""When somebody is told that a training goes wrong: curves made to do so, and curves that only look like it."""

from collections.abc import Sequence

import pytest

from core.errors import InputError
from core.metric_table import CUT_SHARE, ENTROPY, METRICS, OFF_POLICY_PROB, REWARD
from training.job.alerts import AlertOptions, Alerts, uncorrected_staleness
from training.job.configuration import compose_run

THREE = AlertOptions(window=3, off_policy_steps=5)


def warnings(name: str, values: Sequence[float], options: AlertOptions = THREE) -> list[tuple[int, str]]:
    """The step and the beginning of each warning about a curve."""
    alerts = Alerts(options)
    told = ((step, text) for step, value in enumerate(values, 1) for text in alerts.check(step, {name: value}))
    return [(step, text.split(":")[0]) for step, text in told]


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        (REWARD, [0.2, 0.6, 0.9, 0.9, 0.9, 0.3, 0.1, 0.0], [(7, "the reward collapses")]),
        (REWARD, [0.9, 0.9, 0.9, 0.0, 0.9, 0.9], []),  # one bad step
        (REWARD, [0.05, 0.1, 0.05, 0.0, 0.0, 0.0], []),  # it was never high
        (ENTROPY, [0.3, 0.3, 0.3, 0.6, 1.0, 2.5], [(6, "the entropy explodes")]),
        (ENTROPY, [0.3, 1.5, 3.0, 3.1, 3.1, 3.1], [(3, "the entropy explodes")]),  # before there is a mean to compare
        (ENTROPY, [0.3, 0.2, 0.1, 0.3, 0.4, 0.5], []),
        (ENTROPY, [2.0, 0.2, 0.2, 0.8, 0.9, 0.9], []),
        (CUT_SHARE, [0.1, 0.2, 0.3, 0.6, 0.9, 0.9], [(5, "60% of the samples are cut at data.max_response_length on "
          "average over the last 3 steps")]),
        (OFF_POLICY_PROB, [0.1, 0.2, 0.3, *[0.2] * 6], [(9, "the policy does not learn the targets")]),
        (OFF_POLICY_PROB, [0.1, 0.2, 0.3, 0.31, 0.32, 0.33, 0.34, 0.35, 0.36], []),
        (OFF_POLICY_PROB, [0.95] * 9, []),  # nothing is left to learn
    ],
)  # fmt: skip
def test_a_curve_warns_once_and_only_where_it_goes_wrong(name, values, told):
    assert warnings(name, values) == told


def test_it_warns_again_after_things_were_in_order():
    assert [step for step, _ in warnings(CUT_SHARE, [0.9] * 4 + [0.0] * 3 + [0.9] * 3)] == [3, 9]


def test_a_rule_can_be_switched_off():
    assert warnings(CUT_SHARE, [1.0] * 5, AlertOptions(window=3, cut_share=None)) == []


def test_a_threshold_that_no_curve_can_meet_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"run\.alerts\.cut_share: Input should be less than or equal to 1 \(got 50\)"):
        compose_run("luffy", "cpu", ["run.alerts.cut_share=50"], run=tmp_path)


@pytest.mark.parametrize(
    ("overrides", "warned"),
    [
        (["rollouts=separate_async", "max_staleness=4"], True),
        (["rollouts=colocate_async", "max_staleness=8"], True),
        (["rollouts=separate_async", "max_staleness=1"], False),
        (["rollouts=separate_async", "max_staleness=4", "mixed.rollout_correction.type=icepop"], False),
        (["rollouts=separate_async", "max_staleness=4", "run.alerts.uncorrected_staleness=null"], False),
        ([], False),
    ],
)
def test_stale_samples_that_nothing_corrects_are_told_of_before_the_start(overrides, warned, tmp_path):
    text = uncorrected_staleness(compose_run("luffy", "cpu", overrides, run=tmp_path))
    assert (text is not None) is warned
    assert not warned or "mixed.rollout_correction.type=seq-mask-tis" in text


def test_the_table_of_metrics_names_the_threshold_of_every_rule_about_a_curve() -> None:
    named = {metric.alert: metric.name for metric in METRICS if metric.alert}
    rules = set(AlertOptions.model_fields) - {"window", "uncorrected_staleness"}
    unknown = {name: key for key, name in named.items() if key not in rules}
    assert not unknown, f"core/metric_table.py: run.alerts has no rules {unknown}; it has {sorted(rules)}"
    unwatched = rules - set(named)
    assert not unwatched, (
        f"core/metric_table.py: no row has alert={sorted(unwatched)}, a rule of training/job/alerts.py"
    )
