"""What a step reports is what was optimised: by update, by where a token came from, without verl's padding rows."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from updates import update_loss
from verl.utils import tensordict_utils as tu
from verl.utils.metric import reduce_metrics

from training.algorithms.aggregate import LOSS_AGG_MODES
from training.algorithms.regularize import AdaptiveEntropy
from training.methods import method_of, resolved
from training.methods.luffy import Luffy
from training.methods.on_policy import OnPolicy
from training.verl_hooks import trainer
from training.verl_hooks.loss import mean_of_sums, pair_of_sums
from training.verl_hooks.metrics import Outcomes
from training.verl_hooks.target_uses import Ledger


def nested(*rows: list[float]) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)


def made(type: str, mode: str = "token-mean", **values: Any) -> Any:
    clip = {"on_policy": {"clip": {}}} if type == "luffy" else {}
    return method_of(resolved({"type": type, "reduce": {"type": mode}, **clip, **values}))


def loss_of(
    weights: float = 1.0, entropy: float = 0.0, type: str = "luffy", **values: Any
) -> tuple[float, dict[str, float]]:
    """Loss and metrics of a batch of two responses: one of 2 off-policy tokens, one of an on-policy token."""
    data = {
        "prompts": nested([5], [5, 6]),
        "responses": nested([7, 8], [9]),
        "response_mask": nested([1, 1], [1]),
        "old_log_probs": nested([-1.0, -1.0], [-1.0]),
        "advantages": nested([0.5, 0.5], [1.0]),
        "rollout_is_weights": nested([1.0, 1.0], [weights]),
        "prefix_length": torch.tensor([2, 0]),
    }
    output = {"log_probs": nested([-1.0, -3.0, 0.0], [0.0, -0.5, 0.0])}
    if entropy:
        output["entropy"] = nested([entropy, entropy, 0.0], [0.0, entropy, 0.0])
    loss, metrics = update_loss(made(type, **values), output, data, [2, 1], [2, 0])
    values = {name: metric.aggregate() for name, metric in metrics.items()}
    mean_of_sums(values)
    return loss.item(), values


def test_the_policy_loss_that_is_shown_is_the_one_that_is_optimised() -> None:
    for mode in ("token-mean", "constant", "seq64-mean-token-sum-norm"):
        loss, metrics = loss_of(weights=3.0, mode=mode)
        assert metrics["pg_loss"] == pytest.approx(loss)
    loss, metrics = loss_of(weights=3.0, entropy=2.0, imitation={"coef": 0.5})
    assert loss == pytest.approx(metrics["pg_loss"] - 0.1 * metrics["entropy_loss"] + 0.5 * metrics["sft_loss"])


def test_the_parts_of_the_policy_loss_have_its_correction_weights() -> None:
    _, metrics = loss_of(weights=3.0, on_policy={"clip": None})
    ratio = torch.tensor(0.5).exp().item()
    assert metrics["on_pg_loss"] == pytest.approx(-3.0 * ratio)
    assert 3 * metrics["pg_loss"] == pytest.approx(metrics["on_pg_loss"] + 2 * metrics["off_pg_loss"])


def test_figures_of_on_policy_tokens_see_no_off_policy_token() -> None:
    """The off-policy tokens are far outside the clip range, the on-policy one is clipped."""
    _, metrics = loss_of()
    assert metrics["on_pg_clipfrac"] == 1.0
    assert metrics["ppo_kl"] == pytest.approx(-0.5)


def test_off_policy_tokens_without_a_policy_loss_are_not_in_its_denominator() -> None:
    for mode in ("token-mean", "seq-mean-token-mean"):
        _, metrics = loss_of(type="multitask", mode=mode)
        assert metrics["pg_loss"] == pytest.approx(-torch.tensor(0.5).exp().item())


def test_a_share_is_averaged_over_the_updates_of_a_batch_by_its_tokens() -> None:
    """verl takes the largest or smallest value of metrics with max or min in their names."""
    updates = [(2.0, 100.0), (30.0, 300.0)]
    for name in ("off_ratio_max_clip_frac", "off_ratio_min_clip_frac", "off_ratio_mean"):
        entries: dict[str, Any] = {}
        for total, count in updates:
            for key, value in pair_of_sums(name, total, count).items():
                entries.setdefault(f"actor/{key}", []).append(value)
        metrics = reduce_metrics(entries)
        mean_of_sums(metrics, "actor/")
        assert metrics == {f"actor/{name}": pytest.approx(32 / 400)}


def test_a_mean_over_nothing_is_left_out() -> None:
    metrics = pair_of_sums("off_ratio_mean", 0.0, 0.0)
    mean_of_sums(metrics)
    assert metrics == {}


@pytest.mark.parametrize("mode", LOSS_AGG_MODES)
def test_an_update_of_padding_rows_has_no_loss(mode: str) -> None:
    data = {name: nested([0.0], [0.0]) for name in ("old_log_probs", "advantages", "rollout_is_weights")}
    data |= {name: nested([0], [0]) for name in ("response_mask", "responses", "prompts")}
    log_prob = torch.zeros(4, requires_grad=True)
    jagged = torch.nested.nested_tensor_from_jagged(log_prob, torch.tensor([0, 2, 4]))
    data["prefix_length"], none = torch.tensor([0, 0]), dict.fromkeys(["valid", "imitation"], (0.0, 0.0))
    output = {"log_probs": jagged, "entropy": jagged}
    method = made("luffy", mode, imitation={})
    loss, _ = update_loss(method, output, data, [1, 1], [0, 0], counts=none, batch_num_tokens=0)
    loss.backward()
    assert loss.item() == 0
    assert log_prob.grad is not None and not log_prob.grad.any()


class Store:
    """The fields of a batch, in the place of verl's transfer queue, which needs Ray."""

    def __init__(self, fields: TensorDict) -> None:
        self.fields = fields

    def kv_batch_get(self, keys: list[str], partition_id: str, select_fields: list[str]) -> TensorDict:
        return self.fields.select(*select_fields)

    def kv_batch_put(self, keys: list[str], partition_id: str, fields: TensorDict) -> KVBatchMeta:
        self.fields.update(fields)
        return KVBatchMeta(partition_id=partition_id, keys=keys, tags=[{} for _ in keys])


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, float], KVBatchMeta, Store]:
    """A group of an off-policy sample (entropy 1.2) and one on-policy sample (0.3), and two padding rows."""
    fields = {
        "response_mask": nested([1, 1, 1, 1], [1, 1], [0], [0]),
        "rm_scores": nested([0.0, 0, 0, 1], [0.0, 0], [0.0], [0.0]),
        "old_log_probs": nested([-1.0] * 4, [-1.0] * 2, [0.0], [0.0]),
        "rollout_log_probs": nested([0.0] * 4, [-1.0] * 2, [0.0], [0.0]),
        "entropy": nested([1.2] * 4, [0.3] * 2, [9.0], [9.0]),
        "prefix_length": torch.tensor([4, 0, 4, 4]),
        "requests": torch.tensor([0, 1, 0, 0]),
        "rollout_versions": nested([-1] * 4, [2, 3], [-1] * 4, [-1] * 4),
    }
    uid = {"uid": ["a", "a", "pad", "pad"], "data_source": ["s"] * 4, "extra_fields": [{}] * 4}
    store = Store(tu.get_tensordict(fields, {}))
    store.fields = tu.get_tensordict({**fields, **uid}, {})
    monkeypatch.setattr(trainer, "tq", store)
    hooks = trainer.MixedPolicyTrainer.__new__(trainer.MixedPolicyTrainer)
    hooks.method = Luffy(regularize_on="on_policy")
    hooks.use_reference_policy = False
    hooks.has_verifiers = hooks.has_several_sources = False
    hooks.ledger, hooks.outcomes = Ledger(Path()), Outcomes()
    hooks.global_steps, hooks.parameter_sync_step, hooks._counts, hooks._logged = 4, 1, Counter(), {}
    hooks.config = OmegaConf.create(
        {
            "algorithm": {"use_kl_in_reward": False},
            "data": {"train_batch_size": 2, "max_response_length": 4},
            "actor_rollout_ref": {"actor": {"ppo_mini_batch_size": 1}, "rollout": {"n": 2}},
        }
    )
    tags = [{}, {}, {"is_padding": True}, {"is_padding": True}]
    meta = KVBatchMeta(partition_id="train", keys=["a_0_0", "a_1_0", "pad_0_0", "pad_1_0"], tags=tags)
    metrics: dict[str, float] = {}
    batch = hooks._compute_advantage(meta, metrics)
    return metrics | hooks.outcomes.metrics(by_source=False), batch, store


def test_padding_rows_never_count(step: tuple[dict[str, float], KVBatchMeta, Store]) -> None:
    metrics, batch, _ = step
    assert metrics["batch/off_policy_samples"] == 1
    assert metrics["reward/off_policy"] == 1.0
    assert metrics["groups/solve_none"] == 1.0
    assert metrics["batch/missing_samples"] == 2
    assert (metrics["staleness/mean"], metrics["staleness/max"], metrics["staleness/partial_share"]) == (0.5, 1, 1)
    assert {name for name in metrics if name.startswith("drift/")} == {"drift/age_0", "drift/age_1"}
    assert batch.extra_info["counts"] == {"valid": (3.0, 1.0), "regular": (1.0, 0.5)}  # of one update of two


def test_outcomes_are_means_over_all_samples_of_a_step() -> None:
    outcomes = Outcomes()
    for group, scores, on_policy in (("a", [1.0, 0.0], [True, True]), ("b", [1.0, 1.0], [True, False])):
        values = torch.tensor(scores)
        outcomes.add(["s", "t"], values, values > 0, np.array([group] * 2), torch.tensor(on_policy))
    metrics = outcomes.metrics(by_source=True)
    assert metrics["reward/on_policy"] == pytest.approx(2 / 3)  # and not the mean of 1/2 and 1
    assert (metrics["reward/source/s"], metrics["reward/source/t"], metrics["batch/off_policy_samples"]) == (1, 0, 1)


def test_the_entropy_is_that_of_on_policy_tokens(step: tuple[dict[str, float], KVBatchMeta, Store]) -> None:
    """With both, the mean of 0.9 would be above a target of 0.5, and the coefficient would fall where it must rise."""
    metrics, _, _ = step
    assert metrics["actor/entropy"] == pytest.approx(0.3)
    assert metrics["actor/off_policy_entropy"] == pytest.approx(1.2)
    method = OnPolicy(entropy=AdaptiveEntropy())
    method.end_step(metrics)
    assert -method.coefficients(0)["entropy_loss"] > 0.001
