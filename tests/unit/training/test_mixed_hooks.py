"""What the hooks into verl decide without a cluster: off-policy samples, seeds, how groups count."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from transformers import AutoTokenizer

from core.model.base_model import SHIPPED
from core.model.prompts import CHAT
from training.algorithms.options import MixedPolicyOptions
from training.job.derived_seeds import HASHES, stable_hash
from training.verl_hooks.agent_loop import OffPolicyAgentLoop, OffPolicyOutput, prompt_id
from training.verl_hooks.metrics import group_metrics

ROOT = Path(__file__).resolve().parents[3]
TARGET = "<think>\n1+1=2\n</think>\n\n\\boxed{2}"


def loop(sample_target_ratio: float = 1.0, **prefix: Any) -> OffPolicyAgentLoop:
    """An agent loop without a server behind it."""
    agent_loop = OffPolicyAgentLoop.__new__(OffPolicyAgentLoop)
    agent_loop.options = MixedPolicyOptions(
        prefix={"n_prefix": 2, "strategy": "fixed", "min": 1.0, "max": 1.0} | prefix
    )
    agent_loop.seed, agent_loop.target_ratio, agent_loop.response_length = 3, sample_target_ratio, 96
    agent_loop.rollout_config = OmegaConf.create({"n": 4})
    agent_loop.tokenizer, agent_loop.template = AutoTokenizer.from_pretrained(SHIPPED), CHAT
    return agent_loop


def row(prompt: int, sample: int = 0, step: int = 1) -> dict[str, Any]:
    target = [{"role": "assistant", "content": TARGET}]
    return {
        "extra_info": {"id": f"p{prompt}"},
        "raw_prompt": [{"role": "user", "content": "1+1=?"}],
        "target": target,
        "session_id": sample,
        "global_steps": step,
    }


def test_the_first_samples_of_a_group_are_off_policy_with_the_whole_target_and_its_end() -> None:
    agent_loop = loop()
    whole = [*agent_loop.tokenizer.encode(TARGET, add_special_tokens=False), agent_loop.tokenizer.eos_token_id]
    assert [agent_loop._example(row(0, sample)).response for sample in range(4)] == [whole, whole, [], []]
    scheduled = [
        row(0) | {"has_off_policy": torch.tensor(value)} for value in (True, False)
    ]  # as the trainer says of the prompt
    assert [agent_loop._example(sample).response for sample in scheduled] == [whole, []]


def test_a_sample_tokenizes_its_prompt_and_its_target_once() -> None:
    class Counting:
        def __init__(self) -> None:
            self.tokenizer, self.texts = AutoTokenizer.from_pretrained(SHIPPED), []

        def __getattr__(self, name: str) -> Any:
            return getattr(self.tokenizer, name)

        def __call__(self, texts: list[str], **options: Any) -> Any:
            self.texts += texts
            return self.tokenizer(texts, **options)

        def encode(self, text: str, **options: Any) -> list[int]:
            self.texts.append(text)
            return self.tokenizer.encode(text, **options)

    agent_loop = loop()
    for sample, texts in ((0, 2), (3, 1)):  # off-policy, on-policy
        agent_loop.tokenizer = Counting()
        agent_loop._example(row(0, sample))
        assert len(agent_loop.tokenizer.texts) == texts


def test_a_share_of_the_prompts_is_off_policy_the_same_ones_in_every_step() -> None:
    agent_loop = loop(sample_target_ratio=0.25)
    chosen = [{prompt for prompt in range(800) if agent_loop._prefix_ratio(row(prompt, 1, step))} for step in (1, 7)]
    assert chosen[0] == chosen[1]
    assert 150 < len(chosen[0]) < 250
    assert not any(loop(sample_target_ratio=0.0)._prefix_ratio(row(prompt)) for prompt in range(20))
    assert all(loop()._prefix_ratio(row(prompt)) for prompt in range(20))


def test_a_sample_says_whether_any_sample_of_its_group_is_off_policy() -> None:
    scheduled = row(0, 3) | {"has_off_policy": torch.tensor(False)}
    hint = {"n_prefix": -1, "strategy": "binomial", "min": 0.0, "max": 0.8, "steps": 300, "share": True}
    cases = [
        (loop(), row(0, 3), True),  # on-policy itself
        (loop(), scheduled, False),
        (loop(), row(0, 3) | {"target": []}, False),
        (loop(sample_target_ratio=0.0), row(0, 3), False),
        (loop(**hint), row(0, 3, step=301), False),  # after the last hint
    ]
    assert [agent_loop._group_off_policy(one) for agent_loop, one, _ in cases] == [expected for *_, expected in cases]
    sample = OffPolicyOutput(
        prompt_ids=[1],
        response_ids=[2],
        response_mask=[1],
        num_turns=2,
        metrics={},  # pyright: ignore[reportArgumentType]
        prefix_length=0,
        requests=1,
        versions=[0],
        group_off_policy=True,
    )
    assert sample.as_dict()["group_off_policy"] == 1


def test_a_seed_is_the_same_in_every_process() -> None:
    assert stable_hash(3, 7, "p1", 2) == 900045305790255882
    drawn = {stable_hash(3, step, f"p{prompt}", sample) for step in (1, 2) for prompt in (1, 2) for sample in range(4)}
    assert len(drawn) == 16
    assert all(0 <= number < HASHES < 2**63 for number in drawn)  # what vLLM takes for a seed
    assert prompt_id({"extra_info": {"index": 5}}) == "5"


def test_what_a_sample_was_made_of_travels_as_tensors() -> None:
    fields = {"prompt_ids": [1], "response_ids": [2], "response_mask": [1], "num_turns": 2, "metrics": {}}
    sample = OffPolicyOutput(**fields, prefix_length=7, requests=0, versions=[-1])
    fields = sample.as_dict()
    assert torch.equal(fields["prefix_length"], torch.tensor(7)) and torch.equal(fields["requests"], torch.tensor(0))


@pytest.mark.parametrize("filter_on", ["all_samples", "on_policy"])
def test_group_metrics_never_count_an_off_policy_sample(filter_on: str) -> None:
    options = MixedPolicyOptions(filter_on=filter_on)
    index = np.array([name for name in ("all", "none", "some", "off_policy") for _ in range(3)], dtype=object)
    scores = torch.tensor([1.0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 1, 1])
    on_policy = torch.tensor([True, True, False, True, True, False, True, True, True, False, False, False])
    assert group_metrics(scores, scores == 1, index, on_policy, options) == {
        "batch/off_policy_samples": 5.0,
        "batch/off_policy_prompts": 3.0,
        "groups/off_policy": 0.75,
        "reward/on_policy": pytest.approx(3 / 7),
        "reward/off_policy": pytest.approx(4 / 5),
        "groups/solve_all": pytest.approx(1 / 3),
        "groups/solve_none": pytest.approx(1 / 3),
        "groups/solve_partial": pytest.approx(1 / 3),
    }
