"""Prefix schedules: the reference's boundaries, bounds, and the same draw everywhere."""

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.algorithms.options import PrefixOptions
from training.algorithms.prefix import cut_prefix, prefix_length, prefix_ratio
from training.algorithms.registry import PREFIX_STRATEGIES

EOS = 1
# The reference cuts a long target and glues an EOS to it, or lets it run over the response: here both are errors.
OURS = {"truncated_target_gets_eos", "target_eq_response_length_no_eos"}


def ratio(step=0, *, sample_id=0, n=1, seed=0, prompt_id=0, **options):
    """The ratio of one sample; every sample has a prefix, of any length, unless ``options`` say otherwise."""
    schedule = PrefixOptions(**{"n_prefix": -1, "strategy": "random", "min": 0.0} | options)
    return prefix_ratio(schedule, step, sample_id=sample_id, n=n, seed=seed, prompt_id=prompt_id)


def ratios(step=0, *, n, **arguments):
    """The ratios of the samples of one prompt."""
    return [ratio(step, sample_id=sample_id, n=n, **arguments) for sample_id in range(n)]


@pytest.fixture(scope="session")
def golden(shared):
    return json.loads((shared / "golden" / "prefix_rollout.json").read_text())


def schedules():
    """Keyword arguments of ``ratios``."""

    @st.composite
    def draw_one(draw):
        n = draw(st.integers(1, 9))
        minimum, maximum = sorted(draw(st.tuples(st.floats(0, 1), st.floats(0, 1))))
        strategy = draw(st.sampled_from(sorted(PREFIX_STRATEGIES)))
        return {
            "strategy": strategy,
            "step": draw(st.integers(0, 2000)),
            "n": n,
            "n_prefix": draw(st.integers(-1, n)),
            "min": minimum,
            "max": maximum,
            "steps": draw(st.integers(1, 1000)),
            "share": strategy != "fixed" and draw(st.booleans()),
            "seed": draw(st.integers(0, 2**40)),
            "prompt_id": draw(st.text(max_size=5)),
        }

    return draw_one()


def test_golden_ratios_and_prefixes(golden):
    assert len(golden["cases"]) == 14
    for case in golden["cases"]:
        options = {"n": 2, "n_prefix": 1, "min_prefix_ratio": 1.0, "max_prefix_ratio": 1.0} | case["cfg"]
        strategy = options.get("prefix_strategy", "random")
        if strategy == "linear":
            options |= {"min_prefix_ratio": 0.0, "max_prefix_ratio": 0.8}
        targets = case.get("tgts", [[11, 12, 13, 14, 15]])
        for prompt, target in enumerate(targets):
            drawn = ratios(
                case.get("step", 1) - 1,  # the reference counts from 1
                strategy=strategy,
                n=options["n"],
                n_prefix=options["n_prefix"],
                min=options["min_prefix_ratio"],
                max=options["max_prefix_ratio"],
                steps=1000,
                share=options.get("prefix_share_across_samples", False),
                prompt_id=prompt,
            )
            rows = slice(prompt * options["n"], (prompt + 1) * options["n"])
            assert drawn == pytest.approx(case["out"]["prefix_ratios"][rows], rel=1e-12), case["name"]
            if case["name"] in OURS:
                with pytest.raises(ValueError, match=r"target: .* tokens with its EOS, but a response has at most"):
                    cut_prefix(target, 1.0, eos_id=EOS, response_length=len(target))
                continue
            masks, responses = case["out"]["prefix_mask"][rows], case["out"]["responses"][rows]
            for share, mask, response in zip(drawn, masks, responses, strict=True):
                prefix = cut_prefix(target, share, eos_id=EOS, response_length=8)
                assert len(prefix) == sum(mask), case["name"]
                assert prefix == response[: len(prefix)]


def test_golden_windows(golden):
    windows = golden["windows_prefix_steps_1000_max_0.8"]
    assert len(windows) == 18
    for window in windows:
        low, high = window["uniform_window"]
        step = window["global_steps"] - 1
        draws = [
            ratio(step, strategy=window["strategy"], max=0.8, steps=1000, prompt_id=prompt) for prompt in range(400)
        ]
        assert low <= min(draws) <= low + 0.02 * high
        assert high * 0.98 <= max(draws) <= high


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


def test_each_of_seed_step_prompt_and_sample_changes_the_draw():
    def draw(step=3, **changes):
        return ratio(step, **({"n": 2, "seed": 1, "prompt_id": "a"} | changes))

    draws = {draw(), draw(step=4), draw(sample_id=1), draw(seed=2), draw(prompt_id="b")}
    assert len(draws) == 5
    assert draw(share=True) == draw(share=True, sample_id=1)


def test_another_process_draws_the_same_and_needs_no_torch():
    code = (
        "import sys; from training.algorithms.options import PrefixOptions;"
        "from training.algorithms.prefix import prefix_ratio;"
        "options = PrefixOptions(n_prefix=1, strategy='random', min=0.0);"
        "print(prefix_ratio(options, 5, sample_id=0, n=3, seed=7, prompt_id='p')); assert 'torch' not in sys.modules"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == str(ratio(5, n=3, seed=7, prompt_id="p"))


def test_uniform_draws_are_uniform():
    draws = sorted(ratio(prompt_id=prompt) for prompt in range(4000))
    distance = max(abs(draw - i / len(draws)) for i, draw in enumerate(draws))
    assert distance < 1.95 / len(draws) ** 0.5  # Kolmogorov-Smirnov, one in a thousand


def test_the_hint_of_uft_has_binomially_many_fifths():
    def draws(step, **options):
        return [ratio(step, strategy="binomial", steps=300, prompt_id=i, **options) for i in range(4000)]

    for step, q in ((0, 0.95), (100, 0.725), (150, 0.5), (300, 0.05), (5000, 0.05)):
        drawn = draws(step)
        assert set(drawn) <= {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}
        for fifths in range(6):
            expected = math.comb(5, fifths) * q**fifths * (1 - q) ** (5 - fifths)
            assert drawn.count(fifths / 5) / len(drawn) == pytest.approx(expected, abs=0.03)
    assert max(draws(0, max=0.8)) == 0.8 and min(draws(300, min=0.1)) == pytest.approx(0.1)


def test_linear_variance_is_normal_about_linear():
    options = {"max": 0.8, "steps": 100}
    mean = ratio(50, strategy="linear", **options)
    draws = [ratio(50, strategy="linear_variance", prompt_id=i, std=0.05, **options) for i in range(2000)]
    assert mean == pytest.approx(0.4)
    assert sum(draws) / len(draws) == pytest.approx(mean, abs=0.005)
    assert ratio(50, strategy="linear_variance", std=0.0, **options) == mean


@pytest.mark.parametrize(
    ("tokens", "share", "length"), [(6, 0.5, 3), (6, 2 / 3, 4), (7, 1.0, 7), (7, 0.0, 0), (0, 1, 0)]
)
def test_prefix_length_rounds_down(tokens, share, length):
    assert prefix_length(tokens, share) == length


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"strategy": "cosine"}, "strategy\n.*got 'cosine'.*reverse_linear"),
        ({"step": -1}, "step: expected 0 or more"),
        ({"steps": 0}, "steps\n.*greater than or equal to 1"),
        ({"min": 0.9, "max": 0.1}, "prefix.min=0.9 contradicts prefix.max=0.1"),
        ({"n_prefix": 5}, "n_prefix: expected 0 to n = 4"),
        ({"n_prefix": -2}, "n_prefix"),
        ({"sample_id": 4}, "sample_id: expected 0 to 3"),
        ({"std": -1.0}, "std\n.*greater than or equal to 0"),
        ({"strategy": "fixed", "share": True}, "fixed contradicts prefix.share=True"),
    ],
)
def test_bad_input_names_the_argument(changes, words):
    with pytest.raises(ValueError, match=words):
        ratio(**({"n": 4, "n_prefix": 1} | changes))


def test_bad_lengths_and_ratios():
    with pytest.raises(ValueError, match="n_target_tokens"):
        prefix_length(-1, 0.5)
    with pytest.raises(ValueError, match=r"ratio: expected a number in \[0, 1\], got 1.5"):
        prefix_length(5, 1.5)
