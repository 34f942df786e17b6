"""Group advantages: against the definition, in any order, with any index."""

import statistics

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from training.algorithms.advantage import GroupAdvantage, group_advantage  # noqa: E402

EPSILON = 1e-6
SPLIT = GroupAdvantage(baseline="on_policy", use_std=True)


@st.composite
def groups(draw):
    """(scores, index, on_policy) of rows in any order."""
    n = draw(st.integers(1, 12))
    scores = draw(st.lists(st.sampled_from([0.0, 1.0, -0.5, 0.1]), min_size=n, max_size=n))
    index = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=n, max_size=n))
    on_policy = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return torch.tensor(scores, dtype=torch.float64), index, torch.tensor(on_policy)


def by_definition(scores, index, on_policy, baseline, use_std):
    """arXiv 2504.14945, equation 2, and its on-policy form, one row at a time."""
    result = []
    for score, name in zip(scores.tolist(), index, strict=True):
        members = [
            other
            for other, group, sampled in zip(scores.tolist(), index, on_policy.tolist(), strict=True)
            if group == name and (sampled or baseline == "all_samples")
        ]
        mean, std = (statistics.fmean(members), statistics.stdev(members)) if len(members) > 1 else (0.0, 1.0)
        std = std if len(set(members)) > 1 or len(members) < 2 else 1.0
        result.append((score - mean) / (std + EPSILON) if use_std else score - mean)
    return torch.tensor(result, dtype=torch.float64)


@settings(max_examples=150)
@given(groups(), st.sampled_from(["all_samples", "on_policy"]), st.booleans())
def test_equals_the_definition(group, baseline, use_std):
    scores, index, on_policy = group
    ours = group_advantage(
        scores, index, on_policy, GroupAdvantage(baseline=baseline, use_std=use_std, epsilon=EPSILON)
    )
    torch.testing.assert_close(ours, by_definition(scores, index, on_policy, baseline, use_std), rtol=1e-9, atol=1e-9)


@settings(max_examples=100)
@given(groups(), st.sampled_from(["all_samples", "on_policy"]), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_the_names_of_groups_do_not_matter(group, baseline, order):
    scores, index, on_policy = group
    rows = list(range(len(index)))
    order.shuffle(rows)
    options = GroupAdvantage(baseline=baseline, use_std=True)
    ours = group_advantage(scores, index, on_policy, options)
    shuffled = group_advantage(scores[rows], [index[i] * 2 for i in rows], on_policy[rows], options)
    torch.testing.assert_close(shuffled, ours[rows], rtol=1e-12, atol=1e-12)


def test_every_kind_of_index_and_mask_gives_the_same():
    scores, numbers = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0, 1.0]), [7, 7, -1, 7, -1, -1]
    on_policy = torch.tensor([1, 1, 0, 1, 1, 1])
    expected = group_advantage(scores, numbers, on_policy.bool(), SPLIT)
    indices = [
        torch.tensor(numbers),
        np.array(numbers),
        np.array([str(number) for number in numbers], dtype=object),
        np.array([str(number) for number in numbers]),
        tuple((number, "a") for number in numbers),
    ]
    for index in indices:
        for mask in (on_policy, on_policy.bool(), on_policy.float()):
            assert torch.equal(group_advantage(scores, index, mask, SPLIT), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_keeps_the_dtype_and_leaves_its_inputs_alone(dtype):
    scores = torch.tensor([0.0, 1.0], dtype=dtype)
    before = scores.clone()
    assert group_advantage(scores, [0, 0], torch.ones(2), SPLIT).dtype == dtype
    assert torch.equal(scores, before)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("use_std", [True, False])
@pytest.mark.parametrize("baseline", ["all_samples", "on_policy"])
def test_an_off_policy_score_that_is_not_finite_touches_no_other_row(value, use_std, baseline):
    options, index = GroupAdvantage(baseline=baseline, use_std=use_std), ["a", "b", "a", "a", "b"]
    scores, on_policy = torch.tensor([value, 1.0, 1.0, 0.0, 0.0]), torch.tensor([0, 0, 1, 1, 1])
    ours = group_advantage(scores, index, on_policy, options)
    without = group_advantage(scores[1:], index[1:], on_policy[1:], options)
    assert torch.equal(ours[1:], without)
    assert not ours[0].isfinite()


def test_equal_scores_carry_no_signal_whatever_their_value():
    for value in (0.1, 1 / 3, 1e-3):
        union = GroupAdvantage(baseline="all_samples", use_std=True, epsilon=0.0)
        ours = group_advantage(torch.full((7,), value), [0] * 7, torch.ones(7), union)
        assert torch.equal(ours, torch.zeros(7))
    # In float64 the mean of three 0.1 is not 0.1: a deviation of 1e-17 would make the off-policy row's advantage 9e5.
    scores = torch.tensor([1.0, 0.1, 0.1, 0.1], dtype=torch.float64)
    ours = group_advantage(scores, [0] * 4, torch.tensor([0, 1, 1, 1]), SPLIT)
    assert ours.tolist() == pytest.approx([0.9 / (1 + 1e-6), 0.0, 0.0, 0.0])
