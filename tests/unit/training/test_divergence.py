"""The divergence from a teacher: verl's sum without a tail, and from the logits of a micro-batch to gradients."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from verl.trainer.distillation.fsdp.losses import kl_divergence
from verl.utils import tensordict_utils as tu

from training.algorithms.divergence import Divergence, divergence
from training.methods import method_of, resolved
from training.verl_hooks.loss import from_logits, step_loss

VOCABULARY, K, PROMPT = 7, 3, 2
LENGTHS = (4, 2, 3, 1)  # of responses; the teacher said nothing of the third, and the last fills the batch up


def test_the_sum_that_verl_clamps_has_no_tail() -> None:
    policy, teacher = torch.tensor([0.7, 0.2]).log(), torch.tensor([0.5, 0.3]).log()
    assert round(kl_divergence(log_q=policy, log_p=teacher).item(), 6) == -0.046597
    assert divergence(policy, teacher, 0.0).item() == pytest.approx(0.092033, abs=5e-7)


def jagged(rows: list[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def full_kl(first: Tensor, second: Tensor) -> Tensor:
    return sum(p * (p / q).log() for p, q in zip(first, second, strict=True))  # pyright: ignore[reportReturnType]


def expected_loss(logits: list[Tensor], ids: list[Tensor], log_probs: list[Tensor], a: float) -> Tensor:
    """Token by token over the first two rows, from probabilities, and divided by the tokens of the first three."""
    total = torch.tensor(0.0, dtype=torch.float64)
    for row in (0, 1):
        for token in range(LENGTHS[row]):
            chosen = logits[row][PROMPT - 1 + token].softmax(-1)[ids[row][token].long()]
            p, q = (torch.cat([top, 1 - top.sum(0, keepdim=True)]) for top in (chosen, log_probs[row][token].exp()))
            m = (1 - a) * p + a * q
            middle = (1 - a) * full_kl(p, m) + a * full_kl(q, m) if 0 < a < 1 else None
            total = total + (middle if middle is not None else full_kl(p, q) if a else full_kl(q, p))
    return 2.0 * total / sum(LENGTHS[:3])


@pytest.mark.parametrize("a", [0.0, 0.3, 1.0])
def test_gradients_are_those_of_a_plain_computation(a: float) -> None:
    """In one micro-batch, and in two; with a coefficient of 2."""
    random = torch.Generator().manual_seed(0)
    leaves = [torch.randn(PROMPT + n, VOCABULARY, generator=random, dtype=torch.float64) for n in LENGTHS]
    said = [n if n > 1 else 5 for n in LENGTHS]  # verl copies the fields of another row to fill a batch up
    ids = [torch.stack([torch.randperm(VOCABULARY, generator=random)[:K] for _ in range(n)]).int() for n in said]
    log_probs = [torch.randn(n, VOCABULARY, generator=random).double().log_softmax(-1)[:, :K] for n in said]
    log_probs[2][:] = math.nan
    method: Any = method_of(resolved({"type": "opd", "divergence": {"a": a, "k": K}, "teacher": {"coef": 2.0}}))
    masks = [torch.ones(n, dtype=torch.float64) if n > 1 else torch.zeros(n, dtype=torch.float64) for n in LENGTHS]
    losses, gradients = [], []
    for parts in ((range(4),), (range(1), range(1, 4))):
        logits = [leaf.clone().requires_grad_() for leaf in leaves]
        total = 0.0
        for part in parts:
            fields = {"response_mask": masks, "old_log_probs": masks, "advantages": masks, "weights/policy": masks}
            fields |= {"top_ids": ids, "top_log_probs": log_probs, "rollout_is_weights": masks, "input_ids": logits}
            given: dict[str, Any] = {
                name: jagged([rows[row].detach() for row in part]) for name, rows in fields.items()
            }
            given["advantages"] = given["advantages"] * 0
            given["prefix_length"] = torch.zeros(len(part), dtype=torch.int64)
            rest = {"loss": "policy", "counts": {"policy": (9, 3), "valid": (9, 3)}, "dp_size": 1}
            rest |= {"batch_num_tokens": 9, "coefficients": method.coefficients(0)}
            data = tu.get_tensordict(given, rest)
            packed = torch.cat([logits[row] for row in part])
            read = from_logits(method.losses(), packed.unsqueeze(0), data)
            offsets = given["input_ids"].offsets()
            read["log_probs"] = packed.log_softmax(-1)[:, :1].sum(-1).unsqueeze(0)
            output = {name: torch.nested.nested_tensor_from_jagged(values[0], offsets) for name, values in read.items()}
            share, _ = step_loss(method.losses(), 8, output, data)
            share.backward()
            total += share.item()
        losses.append(total)
        gradients.append(torch.cat([row.grad for row in logits if row.grad is not None]))
    plain = [leaf.clone().requires_grad_() for leaf in leaves]
    expected = expected_loss(plain, ids, log_probs, a)
    expected.backward()
    of_rows = [torch.zeros_like(row) if row.grad is None else row.grad for row in plain]
    assert losses == [pytest.approx(expected.item())] * 2
    for gradient in gradients:
        torch.testing.assert_close(gradient, torch.cat(of_rows))


def test_tokens_that_only_the_teacher_has_are_others() -> None:
    logits, log_probs = torch.tensor([[0.7, 0.2, 0.1]]).log(), torch.tensor([[0.5, 0.3, 0.2]]).log()
    found = Divergence(a=0.0, k=3).on_logits(logits, torch.tensor([[0, 1, 9]]), log_probs)
    assert found.item() == pytest.approx(0.092033, abs=5e-7)


@pytest.mark.parametrize("a", [0.0, 0.5, 1.0])
def test_certainty_is_finite(a: float) -> None:
    """The policy is sure of a token that the teacher excludes, and the other way round."""
    logits = torch.tensor([[80.0, 0.0, 0.0], [0.0, 0.0, 0.0]], requires_grad=True)
    log_probs = torch.tensor([[-90.0, 0.0], [0.0, -math.inf]])
    values = Divergence(a=a, k=2).on_logits(logits, torch.tensor([[0, 1], [2, 1]]), log_probs)
    values.sum().backward()
    assert logits.grad is not None and (values >= 0).all()
    assert values.isfinite().all() and logits.grad.isfinite().all()
