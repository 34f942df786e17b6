"""The methods of 2026: the signal of a group, with the values that the original code computes."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from core.errors import InputError
from core.files import read_yaml
from core.plugins.config_files import RECIPES, config_file
from training.algorithms.samples import Samples, Signal
from training.methods import method_of, resolved
from training.methods.given import Group, Prompt, Start
from training.methods.opd import Opd
from training.verl_hooks.agent_loop import start_of
from training.verl_hooks.batch import PLAN
from training.verl_hooks.conformance import SeededTools, seeded_samples
from training.verl_hooks.group_loop import GroupLoops
from training.verl_hooks.reward import compute_score

LENGTH = 4


def signal_of(values: dict[str, Any], scores: list[float], prefixes: list[int], step: int = 0, **rows: Any) -> Signal:
    """The signal of a method for one group of samples, of which the first tokens of each are off-policy."""
    count = len(scores)
    mask = torch.ones(count, LENGTH)
    rewards = torch.zeros(count, LENGTH)
    rewards[:, -1] = torch.tensor(scores)
    fields = {
        "response_mask": mask,
        "old_log_probs": torch.zeros(count, LENGTH),
        "rollout_log_probs": torch.zeros(count, LENGTH),
        "prefix_length": torch.tensor(prefixes),
        "solved": torch.tensor(scores) == 1,
    }
    samples = Samples(
        TensorDict(fields | rows, batch_size=count),
        np.array(["g"] * count),
        torch.ones(count).bool(),
        numbers=range(count),
        limit=LENGTH,
    )
    return method_of(resolved(values)).signal(samples, rewards, step)


def test_gdpo_compares_the_rewards_that_the_reward_function_returns() -> None:
    method = method_of(resolved({"type": "on_policy", "advantage": {"rewards": {"form": 1.0}}}))
    rows = {name: torch.zeros(2, LENGTH) for name in ("old_log_probs", "rollout_log_probs")}
    rows |= {"response_mask": torch.ones(2, LENGTH), "prefix_length": torch.zeros(2)}
    samples = Samples(
        TensorDict(rows, batch_size=2),
        np.array(["g"] * 2),
        torch.ones(2).bool(),
        rewards={"form": torch.tensor([1.0, 0])},
    )
    signal = method.signal(samples, torch.zeros(2, LENGTH), 0)
    assert signal.metrics["reward/part/form"] == 0.5
    assert signal.advantages[:, 0].tolist() == pytest.approx([0.5**0.5, -(0.5**0.5)], rel=1e-4)
    with pytest.raises(InputError, match=r"rewards\.form: .* returns no such number, but score"):
        method.signal(replace(samples, rewards={"score": torch.ones(2)}), torch.zeros(2, LENGTH), 0)


def test_a_weighted_verifier_returns_its_parts() -> None:
    parts = [{"verifier": {"type": "math"}, "weight": 3}, {"verifier": {"type": "exact", "answer": "boxed"}}]
    specs = json.dumps({"s": {"type": "weighted", "verifiers": parts}})
    graded = compute_score("s", "<think>t</think>\\boxed{1.0}", "1", verifiers=specs)
    assert {name: graded[name] for name in ("math", "exact", "score")} == {"math": 1.0, "exact": 0.0, "score": 0.75}
    cut = compute_score("s", "<think>t", "1", verifiers=specs)
    assert {name: cut[name] for name in ("math", "exact", "score")} == {"math": 0.0, "exact": 0.0, "score": 0.0}


def test_prefix_rft_learns_a_prefix_as_an_own_sample() -> None:
    signal = signal_of({"type": "prefix_rft"}, [1.0, 1.0, 0.0, 0.0, 0.0], [3, 0, 0, 0, 0])
    assert signal.advantages[0].tolist() == [0.75, 0.75, 0.75, 1.0]
    assert signal.advantages[1:, 0].tolist() == [0.75, -0.25, -0.25, -0.25]
    assert "policy" not in signal.weights


@pytest.mark.parametrize(("step", "expected"), [(0, 0.9), (25, 0.95), (50, 1.0)])
def test_rlsd_becomes_grpo(step: int, expected: float) -> None:
    teacher = {"teacher_log_probs": torch.full((2, LENGTH), -0.5)}
    signal = signal_of({"type": "rlsd", "advantage": {"use_std": False}}, [1.0, 0.0], [0, 0], step, **teacher)
    assert signal.advantages[0].tolist() == pytest.approx([0.5 * expected] * LENGTH)
    assert signal.advantages[1].tolist() == pytest.approx([-0.5 * (2 - expected)] * LENGTH)


PROMPT = Prompt(key=1, name="p", step=0, seed=0, has_target=True)


def test_a_target_replaces_a_sample_where_the_group_failed_in_this_step() -> None:
    method = method_of(resolved({"type": "luffy", "guide": "failed"}))
    assert method.plan(PROMPT, 8) == [Start()] * 8
    wrong = dict.fromkeys(range(8), False)
    assert method.draw_more(PROMPT, Group(wrong, 8), 8) == {0: Start(1.0)}
    assert method.draw_more(PROMPT, Group(wrong, 9), 8) == {}  # the target is wrong, too
    assert method.draw_more(PROMPT, Group({**wrong, 7: True}, 8), 8) == {}
    assert method.draw_more(PROMPT._replace(has_target=False), Group(wrong, 8), 8) == {}


@pytest.mark.parametrize(("targets", "expected"), [(1, [0.875, -0.125]), (2, [0.75, -0.25])])
def test_a_replaced_sample_counts_in_the_mean_of_its_group(targets: int, expected: list[float]) -> None:
    scores = [1.0] * targets + [0.0] * (8 - targets)
    signal = signal_of({"type": "luffy", "guide": "failed"}, scores, [LENGTH] * targets + [0] * (8 - targets))
    assert [signal.advantages[row, 0].item() for row in (0, 7)] == expected


def test_a_group_is_drawn_on_until_the_method_is_content() -> None:
    class Loops:
        """verl's worker, of which no sample is right but a target."""

        async def _run_agent_loop(self, *_: Any, **row: Any) -> None:
            if row["session_id"] == fails:
                raise RuntimeError
            start = start_of(row)
            drawn.append((row["session_id"], start.ratio, row[PLAN].get("again")))
            output = SimpleNamespace(extra_fields={}, reward_score=start.ratio)
            await self._agent_loop_postprocess(output, False, **row)

        async def _agent_loop_postprocess(self, *_: Any, **__: Any) -> None: ...

    async def group() -> None:
        plan = {"starts": [Start()._asdict()] * 3, "prompt": PROMPT._asdict()}
        row = {"uid": "u", PLAN: plan}
        loops = (worker._run_agent_loop({}, {"validate": False}, session_id=number, **row) for number in range(3))
        await asyncio.gather(*loops, return_exceptions=True)

    class Worker(GroupLoops, Loops):
        def __init__(self) -> None: ...

    worker = Worker()
    worker.method, worker.n, worker.groups = method_of(resolved({"type": "luffy", "guide": "failed"})), 3, {}
    drawn: list[Any] = []
    fails = -1
    asyncio.run(group())
    assert drawn == [(0, 0.0, None), (1, 0.0, None), (2, 0.0, None), (0, 1.0, [0])]
    assert worker.groups == {}
    drawn, fails = [], 1
    asyncio.run(group())
    assert drawn == [(0, 0.0, None), (2, 0.0, None)]


@pytest.mark.parametrize(
    ("scores", "ratios"),
    [
        ("00000000", [0, 0, 0, 0, 0.25, 0.25, 0.5, 1.0]),
        ("10000010", [0, 0, 0, 0, 0.25, 0.25, 0.5, 1.0]),
        ("11001000", [0, 0, 0, 0, 0, 0, 0.5, 1.0]),
        ("11110100", [0, 0, 0, 0, 0, 0, 0, 1.0]),
        ("11111110", [0] * 8),
    ],
)
def test_trapo_shows_more_of_the_target_the_fewer_samples_are_right(scores: str, ratios: list[float]) -> None:
    method = method_of(resolved({"type": "trapo"}))
    starts = dict(enumerate(method.plan(PROMPT, 8)))
    while more := method.draw_more(PROMPT, Group({n: scores[n] == "1" for n in starts}, len(starts)), 8):
        assert not starts.keys() & more.keys()
        starts |= more
    assert [starts[number].ratio for number in range(8)] == ratios
    assert method.plan(PROMPT._replace(has_target=False), 8) == [Start()] * 8


def test_trapo_learns_the_target_whatever_its_outcome() -> None:
    signal = signal_of({"type": "trapo"}, [0.0] * 7 + [1.0], [0, 0, 0, 0, 1, 1, 2, LENGTH])
    assert signal.advantages[:, 0].tolist() == [-0.125] * 4 + [0.0, 1.0, 1.0, 1.0]
    assert signal.advantages[6].tolist() == [1.0, 1.0, -0.125, -0.125]
    assert signal.advantages[4].tolist() == [0.0, -0.125, -0.125, -0.125]


def test_a_resumed_run_chooses_the_prompts_of_an_unbroken_one(tmp_path: Path) -> None:
    method, resumed = (method_of(resolved({"type": "on_policy", "prompts": {}})) for _ in range(2))
    tools = SeededTools()
    first = method.choose(tools, 3)
    assert len(set(first)) == 3 and set(first) <= set(tools.prompts())
    method.note(seeded_samples(method), tools)  # the first group is never solved
    method.save(tmp_path)
    resumed.load(tmp_path)
    tools.global_steps += 1
    assert method.choose(tools, 20) == resumed.choose(tools, 20)
    beliefs = {prompt: belief for prompt, *belief in resumed.state()["beliefs"]}
    assert beliefs[0] == [1.0, 9.0] and len(beliefs) == 3


def test_sdpo_learns_what_a_right_sample_says_of_the_others() -> None:
    """p = 0.7 and q = 0.5; the second sample is the only right one."""
    teacher = torch.stack([torch.full((LENGTH,), 0.5).log(), torch.full((LENGTH,), torch.nan)])
    rows = {"teacher_log_probs": teacher, "old_log_probs": torch.full((2, LENGTH), 0.7).log()}
    recipe = read_yaml(config_file(RECIPES, "sdpo"), "recipe")["method"]
    signal = signal_of({"type": "opd", **recipe}, [0.0, 1.0], [0, 0], 0, **rows)
    assert signal.advantages[:, 0].tolist() == pytest.approx([-0.336472, 0.0], abs=1e-6)
    assert signal.weights["policy"].tolist() == [[1.0] * LENGTH, [0.0] * LENGTH]
    log_prob = torch.tensor([[0.7]]).log().requires_grad_()
    method = method_of(resolved({"type": "opd", **recipe}))
    assert isinstance(method, Opd)
    losses, _ = method.on_policy.losses(
        log_prob, log_prob.detach(), -signal.advantages[:1, :1], torch.ones(1, 1).bool()
    )
    losses.sum().backward()
    assert losses.item() == pytest.approx(-0.120011, abs=1e-6)
    assert log_prob.grad is not None and log_prob.grad.item() == pytest.approx(0.336472, abs=1e-6)
