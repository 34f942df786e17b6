"""The drop-in replacements of the original's advantage and supervised loss, against their formulas."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from original_formulas import inf, nan, reference_advantages

import training.algorithms
from training.algorithms import compute_grpo_outcome_advantage_split, compute_sft_pure_loss

RTOL = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 2e-2, torch.bfloat16: 5e-2}
MASKS = torch.bool, torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64


@pytest.mark.parametrize("mask", [*MASKS, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dtype", RTOL, ids=str)
def test_the_sft_loss(dtype: torch.dtype, mask: torch.dtype) -> None:
    log_prob = torch.tensor([[-1.0, -2.0], [-6.0, -9.0]], dtype=dtype, requires_grad=True)
    ours = compute_sft_pure_loss(log_prob, torch.tensor([[1, 1], [1, 0]]).to(mask))
    assert ours.item() == pytest.approx(3.0, rel=1e-2)
    assert ours.dtype == (torch.promote_types(dtype, mask) if mask.is_floating_point else dtype)
    ours.backward()
    assert log_prob.grad is not None
    assert log_prob.grad.flatten().tolist() == pytest.approx([-1 / 3, -1 / 3, -1 / 3, 0.0], rel=1e-2)


def test_the_sft_loss_of_weights_integers_and_other_shapes() -> None:
    log_prob = torch.tensor([-1.0, -2.0, -3.0, -9.0])
    assert compute_sft_pure_loss(log_prob, torch.tensor([0.5, 0.5, 1.0, 0.0])).item() == 2.25
    assert compute_sft_pure_loss(torch.tensor([[-1, -3]]), torch.tensor([[1, 1]])).item() == 2.0
    assert compute_sft_pure_loss(log_prob.view(2, 2), torch.tensor([[1, 0]])).item() == 4.0  # its sum knows one row
    assert compute_sft_pure_loss(torch.tensor(-4.0), torch.tensor(1)).item() == 4.0


@pytest.mark.parametrize("shape", [(2, 3), (0, 3)])
def test_the_sft_loss_of_nothing_is_nan(shape: tuple[int, int]) -> None:
    assert compute_sft_pure_loss(torch.zeros(shape), torch.zeros(shape, dtype=torch.bool)).isnan()


def rewards_of(scores: list[float], length: int, dtype: torch.dtype) -> torch.Tensor:
    """A score as one token's reward, at another position in each row."""
    rewards = torch.zeros(len(scores), length, dtype=dtype)
    for row, score in enumerate(scores):
        rewards[row, row % length] = score
    return rewards


@settings(max_examples=150, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(list(RTOL)), use_std=st.booleans(), mask=st.sampled_from(MASKS))
def test_advantages_of_any_groups(data: st.DataObject, dtype: torch.dtype, use_std: bool, mask: torch.dtype) -> None:
    n, length = data.draw(st.integers(1, 10)), data.draw(st.integers(1, 4))
    scores = data.draw(st.lists(st.sampled_from([0.0, 1.0, -0.5, 0.25, 3.0]), min_size=n, max_size=n))
    groups = data.draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n))
    on_policy = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    for group in set(groups):  # each has at least one
        on_policy[groups.index(group)] = True
    valid = (torch.rand(n, length) < 0.7).to(mask)
    arguments = rewards_of(scores, length, dtype), valid, groups, torch.tensor(on_policy), 1e-6, use_std
    advantages, returns = compute_grpo_outcome_advantage_split(*arguments)
    assert returns is advantages
    assert advantages.dtype == (torch.promote_types(dtype, mask) if mask.is_floating_point else dtype)
    wanted = torch.tensor(
        reference_advantages(scores, groups, on_policy, 1e-6, use_std), dtype=torch.float64
    ).unsqueeze(-1)
    torch.testing.assert_close(advantages.double(), wanted * valid, rtol=RTOL[dtype], atol=RTOL[dtype])


SCORES, SPLIT = [1.0, 0.0, 1.0, 0.0, 0.0, 1.0], torch.tensor([False, True, True, False, True, True])
NAMES = list("aaabbb")
INDICES = {
    "list": [7, 7, 7, 9, 9, 9],
    "numpy": np.array([7, 7, 7, 9, 9, 9]),
    "numpy objects": np.array(NAMES, dtype=object),
    "numpy names": np.array(NAMES),
    "string": "aaabbb",
    "tuples": [(k, "x") for k in NAMES],
    "equal numbers of several types": [1, True, 1.0, 2, 2.0, np.int64(2)],
    "longer": [*NAMES, "c", "d"],
    "by position": dict(enumerate(NAMES)),
}


def advantages_of(rewards: torch.Tensor | None = None, index: Any = NAMES, on_policy: Any = SPLIT, **more: Any) -> Any:
    rewards = rewards_of(SCORES, 3, torch.float64) if rewards is None else rewards
    mask = more.pop("eos_mask", torch.ones(6, 3))
    return compute_grpo_outcome_advantage_split(rewards, mask, index, on_policy, **more)[0]


@pytest.mark.parametrize("kind", INDICES)
def test_every_index_that_the_original_takes(kind: str) -> None:
    assert torch.equal(advantages_of(index=INDICES[kind]), advantages_of())


@pytest.mark.parametrize("mask", [SPLIT.unsqueeze(-1), SPLIT.numpy(), torch.cat([SPLIT, SPLIT])], ids=str)
def test_every_mask_of_rows_that_the_original_takes(mask: Any) -> None:
    assert torch.equal(advantages_of(on_policy=mask), advantages_of())


def test_masks_of_tokens_broadcast_and_weigh() -> None:
    plain = advantages_of()
    assert torch.equal(advantages_of(eos_mask=torch.tensor([[1, 0, 2]])), plain * torch.tensor([1, 0, 2]))
    assert torch.equal(advantages_of(eos_mask=torch.full((6, 1), 0.5)), plain * 0.5)


def test_rows_without_gradient_inputs_untouched_and_no_rows() -> None:
    rewards = rewards_of(SCORES, 3, torch.float32).requires_grad_()
    before = rewards.detach().clone()
    assert not advantages_of(rewards).requires_grad
    assert torch.equal(rewards.detach(), before)
    empty = compute_grpo_outcome_advantage_split(torch.zeros(0, 3), torch.zeros(0, 3), [], torch.zeros(0).bool())
    assert empty[0].shape == (0, 3)


@pytest.mark.parametrize("value", [nan, inf, -inf])
@pytest.mark.parametrize("use_std", [True, False])
def test_what_is_not_finite_in_an_off_policy_row_stays_in_its_row(value: float, use_std: bool) -> None:
    rewards = rewards_of([value, *SCORES[1:]], 3, torch.float32)
    ours, plain = advantages_of(rewards, use_std=use_std), advantages_of(use_std=use_std).float()
    torch.testing.assert_close(ours[1:], plain[1:])
    assert ours[0].tolist() == pytest.approx([value] * 3, nan_ok=True)


@pytest.mark.parametrize(
    ("value", "use_std", "wanted"),
    [(nan, False, [nan] * 3), (inf, True, [nan] * 3), (inf, False, [-inf, nan, -inf]), (-inf, False, [inf, nan, inf])],
)
def test_what_is_not_finite_in_an_on_policy_row_is_in_its_groups_mean(
    value: float, use_std: bool, wanted: list[float]
) -> None:
    rewards = rewards_of([1.0, value, *SCORES[2:]], 3, torch.float32)
    ours = advantages_of(rewards, use_std=use_std)
    assert ours[:3, 0].tolist() == pytest.approx(wanted, nan_ok=True)
    torch.testing.assert_close(ours[3:], advantages_of(use_std=use_std)[3:].float())


@pytest.mark.parametrize("score", [0.7, 0.1, 1 / 3, 1e-3])
@pytest.mark.parametrize("dtype", RTOL, ids=str)
def test_equal_scores_have_no_deviation(score: float, dtype: torch.dtype) -> None:
    rewards = rewards_of([score] * 7, 1, dtype)
    mask = torch.ones(7, 1)
    ours = compute_grpo_outcome_advantage_split(rewards, mask, [0] * 7, torch.ones(7).bool(), epsilon=0.0)[0]
    assert not ours.any()


@pytest.mark.parametrize(
    ("changes", "error", "key", "note"),
    [
        ({"on_policy": torch.tensor([True] * 3 + [False] * 3)}, KeyError, "b", "in group 'b'"),
        ({"on_policy": SPLIT.int()}, KeyError, "a", "of dtype bool"),
        ({"on_policy": SPLIT.float()}, KeyError, "a", "of dtype bool"),
        ({"index": torch.tensor([0, 0, 0, 1, 1, 1])}, KeyError, torch.tensor(0), r"index\.tolist\(\)"),
        ({"index": [torch.tensor(k) for k in (0, 0, 0, 1, 1, 1)]}, KeyError, torch.tensor(0), r"index\.tolist\(\)"),
    ],
)
def test_a_group_without_a_baseline_is_a_key_error(
    changes: dict[str, Any], error: type[Exception], key: Any, note: str
) -> None:
    with pytest.raises(error, match=note) as caught:
        advantages_of(**changes)
    assert caught.value.args == (key,)


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"on_policy": SPLIT.tolist()}, AttributeError, "'bool' object has no attribute 'item'"),
        ({"index": NAMES[:5]}, IndexError, "list index out of range"),
        ({"index": [[name] for name in NAMES]}, TypeError, "unhashable type"),
        ({"rewards": torch.zeros(6, 3).int()}, TypeError, "token_level_rewards: expected a floating-point tensor"),
        ({"rewards": torch.zeros(3)}, IndexError, "tuple index out of range"),
    ],
)
def test_errors_of_the_advantage(changes: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        advantages_of(**changes)


def test_every_exported_name_exists() -> None:
    for name in training.algorithms.__all__:
        assert getattr(training.algorithms, name).__module__ == training.algorithms.ORIGINAL
    with pytest.raises(ImportError):
        exec("from training.algorithms import no_such_name")
