"""What a worker differentiates for the hybrid methods: both terms, their weights, and any cut into micro-batches."""

import math
from typing import Any

import pytest
import torch
from updates import update_loss
from verl.utils import tensordict_utils as tu

from core.model.episodes import Example
from training.methods import method_of, resolved
from training.methods.on_policy import OnPolicy
from training.methods.relift import Relift
from training.verl_hooks.loss import step_loss
from training.verl_hooks.prompt_trainer import sft_update_batch

# Two prompts of a target and an on-policy sample: log-probabilities, advantage, solved (the first was not).
ROWS = [
    ([-1.0, -3.0], 0.0, True, 2),  # its target, off-policy
    ([-2.0, -0.5, -0.7], -0.5, False, 0),
    ([-4.0, -0.3], 0.0, True, 2),
    ([-0.9], 0.5, True, 0),
]


def nested(rows: list[list[float]]) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)


def made(type: str, **values: Any) -> OnPolicy:
    method = method_of(resolved({"type": type, "reduce": {"type": "token-mean"}, **values}))
    assert isinstance(method, OnPolicy)
    return method


def share(
    rows: list[int],
    method: OnPolicy,
    entropies: tuple[float, ...] | None = None,
    **more: Any,
) -> tuple[float, Any]:
    """The loss of the micro-batch of ``rows`` and its metrics; ``entropies`` of the tokens of each row."""
    chosen = [ROWS[row] for row in rows]
    data = {
        "prompts": nested([[5.0]] * len(rows)),
        "responses": nested([[1.0] * len(log_probs) for log_probs, *_ in chosen]),
        "response_mask": nested([[1.0] * len(log_probs) for log_probs, *_ in chosen]),
        "old_log_probs": nested([log_probs for log_probs, *_ in chosen]),
        "advantages": nested([[advantage] * len(log_probs) for log_probs, advantage, *_ in chosen]),
        "rollout_is_weights": nested([[1.0] * len(log_probs) for log_probs, *_ in chosen]),
        "prefix_length": torch.tensor([length for *_, length in chosen]),
    }
    output = {"log_probs": nested([[*log_probs, 0.0] for log_probs, *_ in chosen])}
    if entropies:
        output["entropy"] = nested([[entropies[row]] * (len(ROWS[row][0]) + 1) for row in rows])
    lengths, prefixes = [len(log_probs) for log_probs, *_ in ROWS], [length for *_, length in ROWS]
    solved = [right for _, _, right, _ in ROWS]
    loss, metrics = update_loss(method, output, data, lengths, prefixes, limit=4, rows=rows, solved=solved, **more)
    return loss.item(), metrics


HPT = made("hpt", imitation={"coef": 0.5})
# The counts of `ROWS` with the gate, for one of two updates.
HALF = {"valid": (4.0, 2.0), "kept": (1.5, 1.0), "policy": (0.5, 0.5), "imitation": (1.0, 0.5)}


def test_a_prompt_that_was_not_solved_is_imitated_and_another_one_has_rl_alone() -> None:
    loss, metrics = share([0, 1, 2, 3], HPT)
    # One on-policy token has a policy loss, with a ratio of 1; two target tokens have a supervised one.
    assert metrics["pg_loss"].aggregate() == pytest.approx(-0.5)
    assert metrics["sft_loss"].aggregate() == pytest.approx((1.0 + 3.0) / 2)
    assert loss == pytest.approx(-0.5 + 0.5 * 2.0)


def test_the_updates_of_a_batch_add_up_to_it_with_one_target_in_all_of_them() -> None:
    """Each of two updates divides by half of the batch's counts: half a row of a target, with two tokens."""
    mode = "seq64-mean-token-sum-norm-occupied"
    _, metrics = share([0, 1], made("hpt", reduce={"type": mode}), counts=HALF)
    batch_sequences, tokens = 1.0, 1.5
    ranks = batch_sequences / 64
    micro_batches = math.ceil(tokens / (4 * 4 * ranks))
    rows = 0.5 * 8 / ranks
    occupied = micro_batches * (1 - (1 - 1 / (8 * micro_batches)) ** rows)
    assert metrics["sft_loss"].aggregate() == pytest.approx((1.0 + 3.0) / 1.0 * occupied)


def test_nothing_counts_as_one() -> None:
    """Its sum is 0, whatever divides it."""
    _, metrics = share([1], HPT, counts=dict.fromkeys(HALF, (0.0, 0.0)))
    assert metrics["pg_loss"].aggregate() == metrics["sft_loss"].aggregate() == 0


def test_srft_needs_the_entropy() -> None:
    with pytest.raises(ValueError, match=r"calculate_entropy must be true"):
        share([0, 1, 2, 3], made("srft"))


# The second token of the last response is an observation.
EXAMPLES = [Example([5, 6], [1, 2, 3], [1] * 3), Example([5], [4], [1]), Example([7, 8, 9], [1, 0, 2], [1, 0, 1])]
# Of the token after each one:
LOG_PROBS = [[0.0, -1.0, -2.0, -0.5, 9.0], [-4.0, 9.0], [0.0, 0.0, -0.3, -8.0, -0.7, 9.0]]


def sft_update_share(rows: list[int], batch: Any, entropy: float) -> tuple[float, float]:
    """Loss and reported likelihood of the micro-batch of ``rows`` of an imitation batch."""
    chosen = [LOG_PROBS[row] if row < len(LOG_PROBS) else LOG_PROBS[0] for row in rows]
    part = tu.index_select_tensor_dict(batch, rows)
    output = {"log_probs": nested(chosen), "entropy": nested([[entropy] * len(values) for values in chosen])}
    loss, metrics = step_loss(Relift().losses(), 4, output, part)
    return loss.item(), float(metrics["sft_loss"].aggregate())


@pytest.mark.parametrize("ranks", [1, 2])
def test_relift_imitates_with_an_entropy_bonus_whatever_the_micro_batches_and_ranks(ranks: int) -> None:
    coefficients = {"sft_loss": 1.0, "entropy_loss": -0.01}
    batch = sft_update_batch(EXAMPLES, ranks, 1.0, "supervised", coefficients, clip_grad=8.0)
    assert len(batch) == (4 if ranks == 2 else 3)  # a row without tokens fills up
    assert batch["loss_mask"].values().sum() == 6
    tu.assign_non_tensor(batch, batch_num_tokens=6, dp_size=ranks)
    likelihood = (1.0 + 2.0 + 0.5 + 4.0 + 0.3 + 0.7) / 6
    rows = list(range(len(batch)))
    for cut in ([rows], [rows[:1], rows[1:]], [[row] for row in reversed(rows)]):
        shares = [sft_update_share(part, batch, 0.8) for part in cut]
        assert sum(loss for loss, _ in shares) / ranks == pytest.approx(likelihood - 0.01 * 0.8)
        assert sum(value for _, value in shares) / ranks == pytest.approx(likelihood)
