"""The reward: one rule for what was cut at the response limit, and the published rule by its name."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from transformers import AutoTokenizer
from verl import DataProto
from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager

from core.model.base_model import SHIPPED
from training.config.to_verl import compose_run
from training.verl_hooks.agent_loop import OffPolicyAgentLoop
from training.verl_hooks.reward import TRUNCATED, compute_score, compute_score_whole_text

RIGHT = "<think>\n1+1=2\n</think>\n\n\\boxed{2}"


def score(text: str, truncated: bool = False) -> list[float]:
    """By the default rule and by the published one."""
    extra = {TRUNCATED: truncated}
    return [f("test", text, "2", extra)["score"] for f in (compute_score, compute_score_whole_text)]


def test_a_truncated_response_scores_zero() -> None:
    assert score(RIGHT) == [1.0, 1.0]
    assert score(RIGHT, truncated=True) == [0.0, 0.0]


def test_the_published_rule_needs_no_box() -> None:
    assert score(RIGHT.replace("\\boxed{2}", "So it is 2.")) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It is 2.</think>It is 3.", [0.0, 1.0]),  # the published rule stops at the second tag
        ("It is 3.</think>It is 2.", [0.0, 0.0]),
        ("It is 3.</think>\\boxed{2}", [1.0, 0.0]),  # ours reads the last answer
        ("</think>It is 2.", [0.0, 0.0]),
        ("It is 2.</think>", [0.0, 1.0]),
        ("It is 2.</think>3</think>4", [0.0, 1.0]),
    ],
)
def test_the_published_rule_reads_between_the_first_and_the_second_tag(answer: str, expected: list[float]) -> None:
    assert score(f"<think>\n1+1\n</think>{answer}") == expected


@pytest.mark.parametrize(
    ("length", "last", "cut"), [(8, "x", True), (8, "end", False), (7, "x", False), (7, "end", False)]
)
def test_a_response_is_truncated_when_it_fills_its_limit_without_an_end(length: int, last: str, cut: bool) -> None:
    loop = OffPolicyAgentLoop.__new__(OffPolicyAgentLoop)
    loop.tokenizer = AutoTokenizer.from_pretrained(SHIPPED)
    (token,) = loop.tokenizer.encode("1", add_special_tokens=False)
    response = [token] * (length - 1) + [loop.tokenizer.eos_token_id if last == "end" else token]
    episode: Any = SimpleNamespace(ended="", room=8 - length, response=response)
    for truncated in ("zero", "by_text"):
        loop.config = OmegaConf.create({"reward": {"truncated": truncated}})
        assert loop._truncated(episode) == (cut and truncated == "zero")


@pytest.mark.parametrize(("truncated", "expected"), [(True, 0.0), (False, 1.0)])
def test_verl_hands_the_fields_of_a_sample_to_the_reward(truncated: bool, expected: float) -> None:
    tokenizer = AutoTokenizer.from_pretrained(SHIPPED)
    ids = torch.tensor([tokenizer.encode(RIGHT, add_special_tokens=False)])
    data = DataProto.from_dict(
        tensors={"responses": ids, "attention_mask": torch.ones_like(ids), "prompts": ids[:, :1]},
        non_tensors={
            "data_source": np.array(["test"], dtype=object),
            "reward_model": np.array([{"ground_truth": "2"}], dtype=object),
            "extra_info": np.array([{}], dtype=object),
            "tool_extra_fields": np.array([{TRUNCATED: truncated}], dtype=object),
        },
    )

    async def run() -> dict[str, Any]:
        config = compose_run("luffy", "cpu", [], run=Path("run"))
        return await NaiveRewardManager(config, tokenizer, compute_score).run_single(data)

    assert asyncio.run(run())["reward_score"] == expected
