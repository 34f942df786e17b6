"""Asynchronous rollouts without a cluster: what a token keeps, and which policy is compared with which."""

import asyncio
import math
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from test_step_metrics import Store, nested
from transfer_queue import KVBatchMeta
from verl.utils import tensordict_utils as tu
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput

from training.algorithms.aggregate import Reduce
from training.algorithms.correction import Correction, Uncorrected
from training.algorithms.derived_seeds import stable_hash
from training.algorithms.off_policy import OffPolicyRatio
from training.algorithms.on_policy import Clip, Ppo
from training.methods.luffy import Luffy
from training.verl_hooks import trainer
from training.verl_hooks.agent_loop import batch_number
from training.verl_hooks.asynchronous.trainers import SeparateTrainer
from training.verl_hooks.asynchronous.vllm_client import VERSIONS, ResumingClient, TimedBalancer
from training.verl_hooks.loss import mean_of_sums, step_loss
from training.verl_hooks.metrics import Outcomes
from training.verl_hooks.replay_buffer import AsyncGroupBuffer, ReplayBufferAsync
from training.verl_hooks.target_uses import Ledger

# Sample 0 is a whole target. Sample 1 was interrupted after two tokens of version 5, and went on with version 6.
RATIO = {"rollout": [0.5, 0.5, 0.25, 0.4], "proximal": [0.15, 0.45, 0.5, 0.4], "current": [0.2, 0.3, 0.5, 0.44]}
DRIFT = {2: -math.log(0.3 * 0.9) / 2, 1: math.log(2) / 2}  # by the age of the tokens, before the eighth step
TEACHER = {"proximal": [0.3, 0.6], "current": [0.4, 0.7]}


def server(*parts: TokenOutput) -> tuple[Any, list[dict[str, Any]]]:
    """vLLM, which answers with ``parts``, and what it was asked."""
    asked: list[dict[str, Any]] = []

    async def generate(self: Any, request_id: str, **request: Any) -> TokenOutput:
        asked.append(request)
        return parts[len(asked) - 1]

    return generate, asked


def part(tokens: list[int], version: int, reason: str) -> TokenOutput:
    log_probs = [-token / 10 for token in tokens]
    steps = dict.fromkeys(("global_steps", "min_global_steps", "max_global_steps"), version)
    return TokenOutput(token_ids=tokens, log_probs=log_probs, stop_reason=reason, extra_fields=steps)


def generate(monkeypatch: pytest.MonkeyPatch, *parts: TokenOutput, limit: int = 9) -> tuple[Any, list[dict[str, Any]]]:
    answer, asked = server(*parts)
    monkeypatch.setattr(LLMServerClient, "generate", answer)
    client = ResumingClient(OmegaConf.create(), requests=2)
    params = {"max_tokens": limit, "seed": 11}
    return asyncio.run(client.generate("r", prompt_ids=[1, 2], sampling_params=params)), asked


def test_an_interrupted_sample_keeps_what_each_token_was_sampled_with(monkeypatch: pytest.MonkeyPatch) -> None:
    output, asked = generate(monkeypatch, part([3, 4], 5, "aborted"), part([], 6, "aborted"), part([7], 7, "completed"))
    assert (output.token_ids, output.log_probs) == ([3, 4, 7], [-0.3, -0.4, -0.7])
    assert output.extra_fields[VERSIONS] == [5, 5, 7]
    assert (output.extra_fields["min_global_steps"], output.extra_fields["max_global_steps"]) == (5, 7)
    assert [request["prompt_ids"] for request in asked] == [[1, 2], [1, 2, 3, 4], [1, 2, 3, 4]]
    assert [request["sampling_params"]["max_tokens"] for request in asked] == [9, 7, 7]
    assert [request["sampling_params"]["seed"] for request in asked] == [11, stable_hash(11, 2), stable_hash(11, 2)]


def test_a_sample_that_reached_its_limit_is_not_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    output, asked = generate(monkeypatch, part([3, 4], 5, "aborted"), limit=2)
    assert len(asked) == 1 and output.extra_fields[VERSIONS] == [5, 5]


def log(values: list[float]) -> list[float]:
    return [math.log(value) for value in values]


def step_of(correction: str, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, float], torch.Tensor, float, dict]:
    """Metrics, correction weights, loss and loss metrics of the two samples in the step after seven updates."""
    fields = {
        "prompts": nested([5], [5]),
        "responses": nested([7, 8], [7, 8, 9, 9]),
        "response_mask": nested([1, 1], [1, 1, 1, 1]),
        "rm_scores": nested([0.0, 1.0], [0.0, 0.0, 0.0, 0.0]),
        "old_log_probs": nested(log(TEACHER["proximal"]), log(RATIO["proximal"])),
        "rollout_log_probs": nested([0.0, 0.0], log(RATIO["rollout"])),
        "entropy": nested([0.5] * 2, [0.5] * 4),
        "prefix_length": torch.tensor([2, 0]),
        "requests": torch.tensor([0, 1]),
        "rollout_versions": nested([-1, -1], [5, 5, 6, 6]),
    }
    store = Store(
        tu.get_tensordict({**fields, "uid": ["a"] * 2, "data_source": ["s"] * 2, "extra_fields": [{}] * 2}, {})
    )
    monkeypatch.setattr(trainer, "tq", store)
    hooks = SeparateTrainer.__new__(SeparateTrainer)
    hooks.method = Luffy(
        on_policy=Ppo(clip=Clip(low=9.0, high=9.0)),
        off_policy=OffPolicyRatio(),
        correction=Uncorrected() if correction == "none" else Correction(type=correction, low=0.6, high=5.0),
        reduce=Reduce(type="token-mean"),
    )
    hooks.use_reference_policy = False
    hooks.has_verifiers = hooks.has_several_sources = False
    hooks.ledger, hooks.outcomes = Ledger(Path()), Outcomes()
    hooks.global_steps, hooks.parameter_sync_step, hooks._counts, hooks._logged = 8, 1, Counter(), {}
    hooks.config = OmegaConf.create(
        {
            "algorithm": {"use_kl_in_reward": False},
            "data": {"train_batch_size": 1, "max_response_length": 4},
            "actor_rollout_ref": {"actor": {"ppo_mini_batch_size": 1}, "rollout": {"n": 2}},
        }
    )
    metrics: dict[str, float] = {}
    batch = hooks._compute_advantage(KVBatchMeta(partition_id="train", keys=["a_0_0", "a_1_0"], tags=[{}, {}]), metrics)
    current = nested([*log(TEACHER["current"]), 0.0], [*log(RATIO["current"]), 0.0])
    counts = {"batch_num_tokens": 6, "dp_size": 1, **batch.extra_info}
    loss, stats = step_loss(
        hooks.method.losses(),
        8,
        {"log_probs": current},
        tu.get_tensordict(dict(store.fields.exclude("uid").items()), counts),
    )
    values = {name: metric.aggregate() for name, metric in stats.items()}
    mean_of_sums(values)
    return metrics, store.fields["rollout_is_weights"].to_padded_tensor(0.0), loss.item(), values


# proximal / rollout is [0.3, 0.9, 2, 1], its geometric means up to each token are [0.3, 0.52, 0.81, 0.86].
WEIGHTS = {
    "none": [1.0, 1.0, 1.0, 1.0],
    "tis": [0.6, 0.9, 2.0, 1.0],
    "icepop": [0.0, 0.9, 2.0, 1.0],
    "seq-mask-tis": [0.3, 0.9, 2.0, 1.0],
    "reinforce_pro": [0.0, 0.0, 2.0, 1.0],
    "geo-mask": [1.0, 1.0, 1.0, 1.0],
    "seq-tis": [0.6, 0.6, 0.6, 0.6],  # the product 0.54 is below the band
    "seq-mis": [0.0, 0.0, 0.0, 0.0],
}


@pytest.mark.parametrize("correction", WEIGHTS)
def test_which_policy_is_compared_with_which(correction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are proximal against rollout, PPO's ratio is current against proximal, teacher tokens are in neither."""
    metrics, weights, loss, stats = step_of(correction, monkeypatch)
    assert weights[0, :2].tolist() == [1.0, 1.0]
    assert weights[1].tolist() == pytest.approx(WEIGHTS[correction], rel=1e-5)
    advantage = 0.5  # of the target's score of 1 against the group's mean, and its opposite for the sample
    ratios = [now / before for now, before in zip(RATIO["current"], RATIO["proximal"], strict=True)]
    on_policy = sum(weight * advantage * ratio for weight, ratio in zip(WEIGHTS[correction], ratios, strict=True))
    off_policy = -advantage * sum(TEACHER["current"])  # p itself: neither the proximal nor the rollout policy
    assert loss == pytest.approx((on_policy + off_policy) / 6, rel=1e-5)
    expected = -sum(log(ratios)) / 4
    assert stats["ppo_kl"] == pytest.approx(expected, rel=1e-4)
    assert metrics["rollout_correction/abs_log_ratio_mean"] == pytest.approx((DRIFT[2] + DRIFT[1]) / 2, rel=1e-5)


def test_drift_is_told_by_the_age_of_each_token(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics, *_ = step_of("none", monkeypatch)
    ages = {name: value for name, value in metrics.items() if name.startswith(("staleness/", "drift/"))}
    assert ages == {
        "staleness/mean": 1.5,
        "staleness/max": 2,
        "staleness/partial_share": 1,
        "drift/age_1": pytest.approx(DRIFT[1], rel=1e-5),
        "drift/age_2": pytest.approx(DRIFT[2], rel=1e-5),
    }


def test_a_batch_is_named_by_its_number_also_after_a_resume() -> None:
    assert batch_number({"global_steps": 7}) == 7
    assert batch_number({"global_steps": 7, "batch_number": torch.tensor(9)}) == 9


def test_groups_that_fail_again_and_again_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = AsyncGroupBuffer.__new__(AsyncGroupBuffer)
    buffer.train_batch_size = 4
    monkeypatch.setattr(
        ReplayBufferAsync,
        "_terminal_eviction_reasons",
        lambda *_: (set(), set(), {"a", "b"}, Counter()),
    )
    for _ in range(2):
        assert buffer._terminal_eviction_reasons(1, "train")[2] == {"a", "b"}
    with pytest.raises(RuntimeError, match="6 groups of samples failed since the last batch, and a batch has 4"):
        buffer._terminal_eviction_reasons(1, "train")


def test_the_balancer_counts_the_seconds_with_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("training.verl_hooks.asynchronous.vllm_client.time", SimpleNamespace(monotonic=lambda: now[0]))
    balancer = TimedBalancer({"one": None, "two": None}, {})
    first, _ = balancer.acquire_server("a")
    now[0] += 1
    second, _ = balancer.acquire_server("b")  # the one that is free
    now[0] += 2
    balancer.release_server(first)
    now[0] += 4
    assert {first, second} == {"one", "two"}
    assert balancer.busy_seconds() == (3 + 6) / 2
    balancer.release_server(second)
    now[0] += 8
    assert balancer.busy_seconds() == (3 + 6) / 2


def test_the_weights_that_a_step_starts_from_are_a_copy_on_a_cpu_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from training.verl_hooks.asynchronous.trainers import DetachActorWorker, PinningActorWorker

    model = torch.nn.Linear(2, 2)

    def save(given: torch.nn.Module) -> Any:
        return {name: (value.detach().cpu(), None) for name, value in given.named_parameters()}, None

    monkeypatch.setattr(DetachActorWorker, "copy_handler", property(lambda _: save))
    state, _ = PinningActorWorker.__new__(PinningActorWorker).copy_handler(model)
    before = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.add_(1)
    assert torch.equal(state["weight"][0], before)
