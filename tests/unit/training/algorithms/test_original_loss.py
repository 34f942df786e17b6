"""The drop-in replacement of the original's loss, against its formulas."""

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from original_formulas import nan, reference_loss

from training.algorithms import compute_token_on_off_policy_loss

RTOL = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 2e-2, torch.bfloat16: 5e-2}
MASKS = torch.bool, torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64
WITH_GRADIENT = {"pg_loss", "off_pg_loss", "on_pg_loss", "ppo_kl", "off_policy_prob", "off_ratio_mean"}
ON_RESHAPES = ["no_reshape", "logp", "p_logp", "square_root", "pow", "p_div_p_0.1", "p_div_p_0.5"]
OFF_RESHAPES = [*ON_RESHAPES, "p_div_p_0.3"]


Batch = dict[str, torch.Tensor]


def batch(rows: int = 4, length: int = 6, seed: int = 0, dtype: torch.dtype = torch.float64) -> Batch:
    """A batch of every kind of row: all off-policy, an off-policy prefix, on-policy, short, empty."""
    generator = torch.Generator().manual_seed(seed)
    new = (-3 * torch.rand(rows, length, generator=generator)).to(dtype)
    old = (new.float() + 0.4 * torch.randn(rows, length, generator=generator)).clamp(max=0).to(dtype)
    starts = torch.tensor([length, 2, 0, 0, 1][:rows] + [0] * (rows - 5)).unsqueeze(-1)
    ends = torch.tensor([length, length, length - 1, 2, 0][:rows] + [length] * (rows - 5)).unsqueeze(-1)
    position = torch.arange(length)
    advantages = torch.randn(rows, 1, generator=generator).expand(rows, length).contiguous().to(dtype)
    return {
        "old_log_prob": old,
        "log_prob": new.requires_grad_(),
        "advantages": advantages,
        "eos_mask": (position < ends).long(),
        "prefix_mask": position < starts,
    }


def loss(tensors: dict[str, Any], cliprange: float = 0.2, clip_upper_bound: float = 1.0, **options: Any) -> Any:
    return compute_token_on_off_policy_loss(
        **tensors, cliprange=cliprange, clip_upper_bound=clip_upper_bound, off_cliprange=None, **options
    )


def expected(tensors: dict[str, Any], **options: Any) -> dict[str, float]:
    """`reference_loss` of tensors that broadcast."""
    shape = torch.broadcast_shapes(*(torch.as_tensor(value).shape for value in tensors.values()))
    flat = {name: torch.as_tensor(value).detach().expand(shape).flatten().tolist() for name, value in tensors.items()}
    if options.get("target_probs") is not None:
        options["target_probs"] = options["target_probs"].expand(shape).flatten().tolist()
    width = tensors["eos_mask"].shape[-1] if tensors["eos_mask"].ndim else 1
    arguments = flat["old_log_prob"], flat["log_prob"], flat["advantages"], flat["eos_mask"], flat["prefix_mask"]
    return reference_loss(*arguments, width, **options)


def assert_equal(output: dict[str, torch.Tensor], numbers: dict[str, float], rtol: float) -> None:
    assert list(output) == list(numbers)
    for name, value in output.items():
        assert value.shape == ()
        # Shares are in float32, and a ratio in half precision may be on the other side of a bound.
        least = max(rtol, 1e-7) if name.endswith("frac") else rtol / 10
        assert float(value.detach()) == pytest.approx(numbers[name], rel=rtol, abs=least, nan_ok=True), name


@pytest.mark.parametrize("dtype", RTOL, ids=str)
@pytest.mark.parametrize("reshapes", itertools.product(OFF_RESHAPES, ON_RESHAPES))
def test_every_pair_of_reshapes(dtype: torch.dtype, reshapes: tuple[str, str]) -> None:
    tensors = batch(rows=6, dtype=dtype)
    options = {"off_policy_reshape": reshapes[0], "off_policy_reshape_weight": 0.3, "off_policy_reshape_pow_exp": 1.7}
    options |= {"on_policy_reshape": reshapes[1], "on_policy_reshape_weight": 0.2, "on_policy_reshape_pow_exp": 0.25}
    for more in ({}, {"loss_remove_clip": True}, {"loss_remove_token_mean": True}, {"clip_upper_bound": 1.5}):
        assert_equal(loss(tensors, **options, **more), expected(tensors, **options, **more), RTOL[dtype])


@pytest.mark.parametrize(
    "reshapes", [*((name, "no_reshape") for name in OFF_RESHAPES), *zip(ON_RESHAPES, ON_RESHAPES, strict=True)]
)
def test_the_gradient_is_the_slope_of_the_formula(reshapes: tuple[str, str]) -> None:
    tensors = batch(rows=5)
    for options in ({}, {"loss_remove_clip": True}, {"off_max_clip": 0.4, "all_max_clip": 0.8}, {"off_min_clip": 0.3}):
        options |= {"off_policy_reshape": reshapes[0], "on_policy_reshape": reshapes[1]}
        (gradient,) = torch.autograd.grad(loss(tensors, **options)["pg_loss"], tensors["log_prob"])
        for token in itertools.product(range(5), range(6)):
            step = torch.zeros(5, 6, dtype=torch.float64)
            step[token] = 1e-6
            ends = [expected(tensors | {"log_prob": tensors["log_prob"] + s}, **options) for s in (step, -step)]
            slope = (ends[0]["pg_loss"] - ends[1]["pg_loss"]) / 2e-6
            assert float(gradient[token]) == pytest.approx(slope, rel=1e-5, abs=1e-8)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Float64 tensors with any masks: all on-policy, all off-policy, empty, weights, padding anywhere."""
    rows, length = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    size = rows * length
    probability = st.one_of(st.floats(-12.0, 0.0), st.sampled_from([0.0, math.log(0.5), -1.0]))

    def matrix(values: st.SearchStrategy[Any], dtype: torch.dtype) -> torch.Tensor:
        drawn = draw(st.lists(values, min_size=size, max_size=size))
        return torch.tensor(drawn, dtype=dtype).view(rows, length)

    advantages = matrix(st.one_of(st.floats(-2.0, 2.0), st.just(0.0)), torch.float64)
    mask = draw(st.sampled_from([st.just(1), st.just(0), st.integers(0, 1), st.sampled_from([0, 1, 0.5, 2])]))
    off_policy = draw(st.sampled_from([st.just(True), st.just(False), st.booleans()]))
    return {
        "old_log_prob": matrix(probability, torch.float64),
        "log_prob": matrix(probability, torch.float64).requires_grad_(),
        "advantages": advantages,
        "eos_mask": matrix(mask, torch.float64),
        "prefix_mask": matrix(off_policy, torch.bool),
    }


OPTIONS = st.fixed_dictionaries(
    {
        "off_policy_reshape": st.sampled_from(OFF_RESHAPES),
        "on_policy_reshape": st.sampled_from(ON_RESHAPES),
        "off_policy_reshape_weight": st.sampled_from([1.0, 0.3]),
        "on_policy_reshape_weight": st.sampled_from([1.0, 0.3]),
        "off_policy_reshape_pow_exp": st.sampled_from([0.5, 2.0]),
        "on_policy_reshape_pow_exp": st.sampled_from([0.5, 0.25]),
        "off_max_clip": st.sampled_from([None, 0.5, 1.0]),
        "off_min_clip": st.sampled_from([None, 0.5, 0.1]),
        "all_max_clip": st.sampled_from([None, 0.5, -1.0]),
        "cliprange": st.sampled_from([0.2, 0.05]),
        "clip_upper_bound": st.sampled_from([1.0, 1.28, 100.0]),
        "loss_remove_clip": st.booleans(),
        "loss_remove_token_mean": st.booleans(),
    }
)


@settings(max_examples=300, deadline=None)
@given(tensors=batches(), options=OPTIONS, phi=st.one_of(st.none(), st.sampled_from([1.0, 0.25, 0.0, -1.0])))
def test_any_batch_and_options(tensors: Batch, options: dict[str, Any], phi: float | None) -> None:
    if phi is not None:
        options = options | {"target_probs": torch.full_like(tensors["advantages"], phi)}
    assert_equal(loss(tensors, **options), expected(tensors, **options), 1e-9)


@pytest.mark.parametrize(
    ("options", "fractions"),
    [
        ({"off_max_clip": 1.0}, (0.25, 0.0)),  # p = 1 reaches the bound, and nothing is above it
        ({"off_max_clip": 0.5}, (0.75, 0.0)),
        ({"off_min_clip": 0.5}, (0.0, 0.75)),
        ({"off_max_clip": 0.5, "off_min_clip": 0.5}, (0.75, 1.0)),
        ({"off_max_clip": 2.0, "off_min_clip": 0.1}, (0.0, 0.0)),
        ({"off_policy_reshape": "p_div_p_0.5", "off_max_clip": 0.5}, (0.75, 0.0)),
        ({"off_policy_reshape": "logp", "off_max_clip": 0.0}, (0.25, 0.0)),
    ],
)
@pytest.mark.parametrize("dtype", RTOL, ids=str)
def test_a_ratio_that_equals_a_bound_reaches_it(
    dtype: torch.dtype, options: dict[str, Any], fractions: tuple[float, float]
) -> None:
    log_prob = torch.tensor([[1.0, 0.5, 0.5, 0.25]], dtype=dtype).log()
    ones = torch.ones(1, 4)
    tensors = {"old_log_prob": log_prob, "log_prob": log_prob, "advantages": ones, "eos_mask": ones}
    output = loss(tensors | {"prefix_mask": ones.bool()}, **options)
    assert (float(output["off_ratio_max_clip_frac"]), float(output["off_ratio_min_clip_frac"])) == fractions


EMPTY = {
    "no valid token": ({"eos_mask": torch.zeros(4, 6)}, {}, {"pg_loss", "on_pg_loss", "on_pg_clipfrac", "ppo_kl"}),
    "all off-policy": ({"prefix_mask": torch.ones(4, 6).bool()}, {}, {"on_pg_loss"}),
    "no off-policy token": (
        {"prefix_mask": torch.zeros(4, 6).bool()},
        {"off_max_clip": 0.5, "off_min_clip": 0.1},
        {"off_ratio_max_clip_frac", "off_ratio_min_clip_frac"},
    ),
    "all dropped": ({}, {"all_max_clip": -1.0}, {"pg_loss"}),
    "no valid token, sum": (
        {"eos_mask": torch.zeros(4, 6)},
        {"loss_remove_token_mean": True, "loss_remove_clip": True},
        {"on_pg_loss", "ppo_kl"},
    ),
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("dtype", RTOL, ids=str)
def test_a_mean_over_no_token_is_nan_unless_the_original_guards_it(name: str, dtype: torch.dtype) -> None:
    changes, options, nans = EMPTY[name]
    output = loss(batch(dtype=dtype) | changes, **options)
    assert {key for key, value in output.items() if value.isnan()} == nans
    guarded = ("off_pg_loss", "off_policy_prob", "off_ratio_mean") if name != "all dropped" else ()
    if name != "all off-policy":
        assert all(output[key].dtype == torch.float32 and not output[key].requires_grad for key in guarded)


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("dtype", RTOL, ids=str)
def test_dtypes_and_gradients_of_the_parts(dtype: torch.dtype, mask: torch.dtype) -> None:
    tensors = batch(dtype=dtype)
    tensors["eos_mask"] = tensors["eos_mask"].to(mask)
    weighted = torch.promote_types(dtype, mask) if mask.is_floating_point else dtype
    share = torch.promote_types(torch.float32, mask) if mask.is_floating_point else torch.float32
    output = loss(tensors, off_max_clip=0.5, off_min_clip=0.1)
    expected_dtypes = {
        "pg_loss": torch.promote_types(weighted, torch.float32),
        "off_pg_loss": weighted,
        "on_pg_loss": weighted,
        "off_pg_clipfrac": torch.float32,
        "on_pg_clipfrac": share,
        "ppo_kl": weighted,
        "off_policy_prob": torch.promote_types(weighted, torch.float32),
        "on_policy_prob": torch.promote_types(weighted, torch.float32),
        "off_ratio_mean": weighted,
        "off_ratio_max_clip_frac": share,
        "off_ratio_min_clip_frac": share,
    }
    assert {name: value.dtype for name, value in output.items()} == expected_dtypes
    assert {name for name, value in output.items() if value.requires_grad} == WITH_GRADIENT
    for name in WITH_GRADIENT:
        output[name].backward(retain_graph=True)
    assert_equal(output, expected(tensors, off_max_clip=0.5, off_min_clip=0.1), RTOL[dtype])


def test_half_precisions_stay_in_their_own_arithmetic() -> None:
    new, old = torch.tensor([[-0.1]]).bfloat16(), torch.tensor([[-2.2]]).bfloat16()
    one = torch.ones(1, 1, dtype=torch.int64)
    tensors = {"old_log_prob": old, "log_prob": new, "advantages": one.bfloat16(), "eos_mask": one}
    output = loss(tensors | {"prefix_mask": ~one.bool()}, loss_remove_clip=True)
    difference = (new.double() - old.double()).bfloat16()
    assert float(output["on_pg_loss"]) == -float(difference.double().exp().bfloat16())
    assert float(output["on_pg_loss"]) != pytest.approx(-math.exp(new.item() - old.item()), rel=5e-3)


BROADCASTS: dict[str, dict[str, Any]] = {
    "advantages [B, 1]": {"advantages": torch.tensor([[1.0], [-0.5], [0.3], [2.0]], dtype=torch.float64)},
    "advantages 0-d": {"advantages": torch.tensor(0.7, dtype=torch.float64)},
    "advantages int": {"advantages": torch.tensor([[1], [-1], [0], [2]])},
    "advantages a number": {"advantages": -0.5},
    "mask [1, T]": {"eos_mask": torch.tensor([[1, 1, 1, 1, 0, 1]])},
    "prefix [B, 1]": {"prefix_mask": torch.tensor([[True], [False], [True], [False]])},
    "old [1, T]": {"old_log_prob": torch.full((1, 6), -0.4, dtype=torch.float64)},
}


@pytest.mark.parametrize("name", [name for name in BROADCASTS if "mask" not in name])
def test_arguments_broadcast(name: str) -> None:
    tensors = batch() | BROADCASTS[name]
    assert_equal(loss(tensors, off_max_clip=0.4), expected(tensors, off_max_clip=0.4), 1e-9)


def test_a_mask_of_one_row_counts_once() -> None:
    """The original multiplies by the mask and divides by its sum, which knows nothing of the other rows."""
    tensors = batch() | BROADCASTS["mask [1, T]"]
    output, numbers = loss(tensors), expected(tensors)
    assert float(output["ppo_kl"].detach()) == pytest.approx(4 * numbers["ppo_kl"])
    assert float(output["on_pg_loss"].detach()) == pytest.approx(numbers["on_pg_loss"])


@pytest.mark.parametrize("shape", [(24,), (2, 2, 6), (1, 24)])
def test_any_number_of_dimensions(shape: tuple[int, ...]) -> None:
    tensors = {name: value.reshape(shape) for name, value in batch().items()}
    for options in ({}, {"loss_remove_token_mean": True}):
        assert_equal(loss(tensors, **options), expected(tensors, **options), 1e-9)


def test_beyond_the_range_of_exp() -> None:
    one = torch.ones(1, 1)
    tensors = {"old_log_prob": -30 * one, "log_prob": 0 * one, "advantages": -one, "eos_mask": one}
    on = loss(tensors | {"prefix_mask": ~one.bool()}, loss_remove_clip=True)
    assert float(on["pg_loss"]) == pytest.approx(math.exp(30), rel=1e-5)
    assert loss(tensors | {"old_log_prob": -100 * one, "prefix_mask": one.bool()})["pg_loss"].isnan()  # inf x 0
    underflow = tensors | {"old_log_prob": -200 * one, "log_prob": -200 * one, "prefix_mask": ~one.bool()}
    assert loss(underflow, on_policy_reshape="p_div_p_0.1")["pg_loss"].isnan()  # 0 / 0


@pytest.mark.parametrize("name", ["log_prob", "old_log_prob", "advantages"])
def test_nan_in_padding_spreads(name: str) -> None:
    tensors = batch()
    tensors[name] = tensors[name].detach().clone()
    tensors[name][3, 5] = nan
    output = loss(tensors)
    assert output["pg_loss"].isnan()
    assert not output["off_pg_loss"].isnan()  # the original's guard


def test_negative_target_probs_give_a_negative_ratio() -> None:
    tensors = batch()
    output = loss(tensors, target_probs=torch.full((4, 6), -1.0, dtype=torch.float64))
    assert output["off_ratio_mean"] < 0


@pytest.mark.parametrize("flag", [1, "yes"])
def test_flags_are_compared_with_true_and_false_themselves(flag: Any) -> None:
    tensors = batch()
    assert torch.equal(loss(tensors, loss_remove_token_mean=flag)["pg_loss"], loss(tensors)["pg_loss"])
    removed = loss(tensors, loss_remove_clip=True)["pg_loss"]
    assert torch.equal(loss(tensors, loss_remove_clip=flag)["pg_loss"], removed)
    assert torch.equal(loss(tensors, loss_remove_clip=0)["pg_loss"], removed)


def test_unused_arguments_change_nothing_and_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    tensors = batch()
    plain = loss(tensors, 0.2, 100.0, loss_remove_token_mean=True)
    other = compute_token_on_off_policy_loss(
        **tensors,
        cliprange=0.2,
        clip_upper_bound=100.0,
        off_cliprange=0.1,
        off_normalize=True,
        off_abs_cliprange=0.3,
        loss_remove_token_mean=True,
    )
    assert all(torch.equal(plain[name], other[name]) for name in plain)
    assert capsys.readouterr() == ("", "")


ERRORS: dict[str, tuple[dict[str, Any], dict[str, Any], type[Exception], str]] = {
    "off reshape": ({}, {"off_policy_reshape": "bad"}, ValueError, "Invalid off_policy_reshape: bad"),
    "on reshape": ({}, {"on_policy_reshape": None}, ValueError, "Invalid on_policy_reshape: None"),
    "off gamma": ({}, {"off_policy_reshape": "p_div_p_0.2"}, ValueError, "Invalid off_policy_reshape: p_div_p_0.2"),
    "on gamma": ({}, {"on_policy_reshape": "p_div_p_0.3"}, ValueError, "Invalid on_policy_reshape: p_div_p_0.3"),
    "phi": ({}, {"target_probs": torch.ones(4, 1)}, AssertionError, "target_probs: expected shape [4, 6]"),
    "no upper bound": ({}, {"clip_upper_bound": None}, TypeError, "'>' not supported between"),
    "prefix of floats": ({"prefix_mask": torch.ones(4, 6)}, {}, TypeError, "prefix_mask: expected dtype torch.bool"),
    "prefix of ints": ({"prefix_mask": torch.ones(4, 6).int()}, {}, TypeError, "as prefix_mask.bool() has"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_of_the_loss(name: str) -> None:
    changes, options, error, text = ERRORS[name]
    with pytest.raises(error) as caught:
        loss(batch() | changes, **options)
    assert text in str(caught.value)
    if error is ValueError:
        assert str(caught.value) == text
        assert "expected no_reshape, logp, p_logp, square_root, pow, p_div_p_0.1" in caught.value.__notes__[0]


def test_a_reshape_that_target_probs_leave_unused_is_not_checked() -> None:
    tensors, phi = batch(), torch.full((4, 6), 0.5, dtype=torch.float64)
    plain = loss(tensors, target_probs=phi)
    assert torch.equal(loss(tensors, target_probs=phi, off_policy_reshape="bad")["pg_loss"], plain["pg_loss"])
