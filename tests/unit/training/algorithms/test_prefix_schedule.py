"""Prefix schedules: the reference's boundaries, bounds, and the same draw everywhere."""

import math
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from training.algorithms.prefix import AnyPrefix, Prefix, cut_prefix, prefix_ratio

EOS = 1
PREFIX: TypeAdapter[Prefix] = TypeAdapter(AnyPrefix)
STRATEGIES = {
    name: kind for kind in get_args(get_args(AnyPrefix)[0]) for name in get_args(kind.model_fields["type"].annotation)
}
GOLDEN = yaml.safe_load((Path(__file__).parents[3] / "golden" / "prefix_schedule.yaml").read_text(encoding="utf-8"))


def ratio(step=0, *, sample_id=0, n=1, seed=0, prompt_id=0, **options):
    """The ratio of one sample; every sample has a prefix, of any length, unless ``options`` say otherwise."""
    chosen = {"n_prefix": -1, "strategy": "random", "min": 0.0} | options
    values = {{"n_prefix": "n", "strategy": "type"}.get(name, name): value for name, value in chosen.items()}
    read = {"n", "type", "min", "max", *STRATEGIES.get(values["type"], Prefix).model_fields}
    schedule = PREFIX.validate_python({name: value for name, value in values.items() if name in read})
    return prefix_ratio(schedule, step, sample_id=sample_id, n=n, seed=seed, prompt_id=prompt_id)


def ratios(step=0, *, n, **arguments):
    """The ratios of the samples of one prompt."""
    return [ratio(step, sample_id=sample_id, n=n, **arguments) for sample_id in range(n)]


def schedules():
    """Keyword arguments of ``ratios``."""

    @st.composite
    def draw_one(draw):
        n = draw(st.integers(1, 9))
        minimum, maximum = sorted(draw(st.tuples(st.floats(0, 1), st.floats(0, 1))))
        strategy = draw(st.sampled_from(sorted(STRATEGIES)))
        return {
            "strategy": strategy,
            "step": draw(st.integers(0, 2000)),
            "n": n,
            "n_prefix": draw(st.sampled_from([-1, *range(1, n + 1)])),
            "min": minimum,
            "max": maximum,
            "steps": draw(st.integers(1, 1000)),
            "share": strategy != "fixed" and draw(st.booleans()),
            "seed": draw(st.integers(0, 2**40)),
            "prompt_id": draw(st.text(max_size=5)),
        }

    return draw_one()


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["name"])
def test_golden_ratios_and_prefixes(case):
    drawn = []
    for prompt, _ in enumerate(case["targets"]):
        drawn += ratios(
            case.get("step", 1) - 1,
            strategy=case.get("strategy", "random"),
            n=case["n"],
            n_prefix=case["n_prefix"],
            min=case["min"],
            max=case["max"],
            steps=1000,
            share=case.get("share", False),
            prompt_id=prompt,
        )
    assert drawn == pytest.approx(case["ratios"], rel=1e-12)
    targets = [target for target in case["targets"] for _ in range(case["n"])]
    whole = [[*target, EOS] if target else [] for target in targets]
    cuts = [cut_prefix([1] * len(one), share, response_length=8) for one, share in zip(whole, drawn, strict=True)]
    assert [one[:end] for one, end in zip(whole, cuts, strict=True)] == case["prefixes"]


@pytest.mark.parametrize("case", GOLDEN["too_long"])
def test_a_target_that_is_longer_than_the_limit_is_an_error(case):
    with pytest.raises(ValueError, match=r"target: .* tokens with its EOS, but a response has at most"):
        cut_prefix([1] * (len(case["target"]) + 1), 1.0, response_length=case["limit"])


@pytest.mark.parametrize("window", GOLDEN["windows"], ids=lambda window: f"{window['strategy']}-{window['step']}")
def test_golden_windows(window):
    options = {"strategy": window["strategy"], "max": 0.6, "steps": 1000}
    draws = [ratio(window["step"] - 1, prompt_id=prompt, **options) for prompt in range(400)]
    assert 0.0 <= min(draws) <= 0.02 * window["top"]
    assert 0.98 * window["top"] <= max(draws) <= window["top"] + 1e-12


@settings(max_examples=200)
@given(schedules())
def test_bounds_and_number_of_prefixes(schedule):
    drawn = ratios(**schedule)
    with_prefix = schedule["n"] if schedule["n_prefix"] == -1 else schedule["n_prefix"]
    assert len(drawn) == schedule["n"]
    assert all(schedule["min"] - 1e-12 <= share <= schedule["max"] + 1e-12 for share in drawn[:with_prefix])
    assert drawn[with_prefix:] == [0.0] * (schedule["n"] - with_prefix)
    if schedule["share"]:
        assert len(set(drawn[:with_prefix])) <= 1
    assert drawn == ratios(**schedule)


@settings(max_examples=50)
@given(st.integers(2, 12), st.floats(0, 0.5), st.floats(0.5, 1))
def test_fixed_values_are_evenly_spaced(n_prefix, minimum, maximum):
    given = {"strategy": "fixed", "n": n_prefix, "min": minimum, "max": maximum}
    step = (maximum - minimum) / (n_prefix - 1)
    assert ratios(7, **given) == pytest.approx([minimum + i * step for i in range(n_prefix)])
    assert ratios(7, n_prefix=1, **given)[0] == maximum


@pytest.mark.parametrize(("minimum", "maximum", "n"), [(0.1, 1.0, 8), (0.1, 1.0, 4), (0.0, 0.45, 4), (0.0, 0.85, 6)])
def test_the_last_fixed_value_is_the_maximum_itself(minimum, maximum, n):
    """By rounding, 0.1 + 7 (0.9 / 7) is above 1, and 0.1 + 3 (0.9 / 3) is below it."""
    drawn = ratios(n=n, n_prefix=-1, strategy="fixed", min=minimum, max=maximum)
    assert drawn[-1] == maximum and all(minimum <= value <= maximum for value in drawn)
    assert cut_prefix([1] * 10, drawn[-1], response_length=64) == int(10 * maximum)


def test_a_whole_hint_is_no_more_than_the_target():
    """By rounding, 0.08 + (1 - 0.08) 5 / 5 is above 1."""
    drawn = [ratio(prompt_id=prompt, n_prefix=-1, strategy="binomial", min=0.08, max=1.0) for prompt in range(20)]
    assert max(drawn) == 1.0


def test_each_of_seed_step_prompt_and_sample_changes_the_draw():
    def draw(step=3, **changes):
        return ratio(step, **({"n": 2, "seed": 1, "prompt_id": "a"} | changes))

    draws = {draw(), draw(step=4), draw(sample_id=1), draw(seed=2), draw(prompt_id="b")}
    assert len(draws) == 5
    assert draw(share=True) == draw(share=True, sample_id=1)


def test_another_process_draws_the_same_and_needs_no_torch():
    code = (
        "import sys; from training.algorithms.prefix import Random, prefix_ratio;"
        "options = Random(n=1, min=0.0);"
        "print(prefix_ratio(options, 5, sample_id=0, n=3, seed=7, prompt_id='p')); assert 'torch' not in sys.modules"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == str(ratio(5, n=3, seed=7, prompt_id="p"))


def test_the_hint_of_uft_has_binomially_many_fifths():
    def draws(step, **options):
        return [ratio(step, strategy="binomial", steps=300, prompt_id=i, **options) for i in range(4000)]

    # Published steps start at 1, and there is no hint after 300 of them.
    for step, q in ((0, 0.95), (99, 0.725), (149, 0.5), (299, 0.05), (300, 0.0), (5000, 0.0)):
        drawn = draws(step)
        assert set(drawn) <= {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}
        for fifths in range(6):
            expected = math.comb(5, fifths) * q**fifths * (1 - q) ** (5 - fifths)
            assert drawn.count(fifths / 5) / len(drawn) == pytest.approx(expected, abs=0.03)
    assert max(draws(0, max=0.8)) == 0.8 and min(draws(300, min=0.1)) == pytest.approx(0.1)
