"""What the hooks into verl decide without a cluster: off-policy samples, seeds, how groups count."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from core.model.base_model import SHIPPED
from core.model.prompts import CHAT
from training.algorithms.derived_seeds import HASHES, stable_hash
from training.methods.given import Start
from training.verl_hooks.agent_loop import OffPolicyAgentLoop, OffPolicyOutput, prompt_id, start_of
from training.verl_hooks.metrics import group_metrics

ROOT = Path(__file__).resolve().parents[3]
TARGET = "<think>\n1+1=2\n</think>\n\n\\boxed{2}"


def loop() -> OffPolicyAgentLoop:
    """An agent loop without a server behind it."""
    agent_loop = OffPolicyAgentLoop.__new__(OffPolicyAgentLoop)
    agent_loop.response_length = 96
    agent_loop.tokenizer, agent_loop.template = AutoTokenizer.from_pretrained(SHIPPED), CHAT
    return agent_loop


ROW = {"raw_prompt": [{"role": "user", "content": "1+1=?"}], "target": [{"role": "assistant", "content": TARGET}]}


def test_a_sample_starts_as_it_was_planned() -> None:
    agent_loop, plan = loop(), {"starts": [Start(1.0)._asdict(), Start(0.5)._asdict(), Start()._asdict()]}
    whole = [*agent_loop.tokenizer.encode(TARGET, add_special_tokens=False), agent_loop.tokenizer.eos_token_id]
    responses = [
        agent_loop._example(ROW, start_of({"plan": plan, "session_id": sample})).response for sample in range(3)
    ]
    assert responses == [whole, whole[: len(whole) // 2], []]
    assert start_of({"session_id": 0}) == Start()  # of a validation


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
    for start, texts in ((Start(1.0), 2), (Start(), 1)):  # off-policy, on-policy
        agent_loop.tokenizer = Counting()
        agent_loop._example(ROW, start)
        assert len(agent_loop.tokenizer.texts) == texts


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


def test_group_metrics_never_count_an_off_policy_sample() -> None:
    index = np.array([name for name in ("all", "none", "some", "off_policy") for _ in range(3)], dtype=object)
    scores = torch.tensor([1.0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 1, 1])
    on_policy = torch.tensor([True, True, False, True, True, False, True, True, True, False, False, False])
    assert group_metrics(scores, scores == 1, index, on_policy) == {
        "batch/off_policy_samples": 5.0,
        "batch/off_policy_prompts": 3.0,
        "groups/off_policy": 0.75,
        "reward/on_policy": pytest.approx(3 / 7),
        "reward/off_policy": pytest.approx(4 / 5),
        "groups/solve_all": pytest.approx(1 / 3),
        "groups/solve_none": pytest.approx(1 / 3),
        "groups/solve_partial": pytest.approx(1 / 3),
    }
