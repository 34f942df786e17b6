"""ExGRPO: what it stores and draws, that this survives a checkpoint, and the loss of a replayed sample."""

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from omegaconf import OmegaConf  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

from core.errors import InputError  # noqa: E402
from core.model.base_model import SHIPPED  # noqa: E402
from core.model.prompts import CHAT  # noqa: E402
from training.algorithms.off_policy import LogP  # noqa: E402
from training.algorithms.policy import mixed_policy_token_loss  # noqa: E402
from training.algorithms.replay import Experience, Trajectory, draw  # noqa: E402
from training.algorithms.samples import Samples  # noqa: E402
from training.config.method_keys import of_run  # noqa: E402
from training.config.to_verl import compose_run  # noqa: E402
from training.methods.exgrpo import Exgrpo  # noqa: E402
from training.methods.given import Prompt, Start  # noqa: E402
from training.verl_hooks.agent_loop import OffPolicyAgentLoop  # noqa: E402


def trajectory(first: int = 7) -> Trajectory:
    return Trajectory([first, 2], [-0.25, -1.5], [1, 1])


def filled(n: int = 8, prompts: int = 70) -> dict[int, Experience]:
    return {prompt: Experience(1 + prompt % (n - 1), [trajectory()]) for prompt in range(prompts)}


def samples(groups: dict[int, list[bool]], replayed: tuple[int, ...] = ()) -> Samples:
    """Groups of generated samples that are right or not; the rows ``replayed`` repeat a response of two tokens."""
    solved = [right for group in groups.values() for right in group]
    count = len(solved)
    keys = [prompt for prompt, group in groups.items() for _ in group]
    rows = {
        "prompt_key": torch.tensor(keys),
        "solved": torch.tensor(solved),
        "prefix_length": torch.tensor([2 * (row in replayed) for row in range(count)]),
        "response_mask": torch.tensor([[1, 0, 1, 0]] * count),  # an observation, and padding
        "responses": torch.tensor([[row, 3, 2, 0] for row in range(count)]),
        "old_log_probs": torch.tensor([[-0.5, -2.0, -1.0, 0.0]] * count),
    }
    return Samples(TensorDict(rows, batch_size=count), np.array(keys), torch.ones(count, dtype=torch.bool))


def after(*steps: Samples, started: bool = True) -> Exgrpo:
    method = Exgrpo()
    method._started = started
    for step in steps:
        method.note(step, SimpleNamespace())  # pyright: ignore[reportArgumentType]
    return method


def test_a_replayed_sample_has_the_shaped_ratio_against_its_own_past():
    """r = 0.4 / 0.5 and 0.1 / 0.2; the gradient of f(r) by log p is r 0.1 / (r + 0.1)^2."""
    options = of_run(compose_run("exgrpo", "cpu", [], run=Path("run")))
    assert isinstance(options, Exgrpo)
    p = torch.tensor([[0.4, 0.1], [0.3, 0.6]], dtype=torch.float64)
    log_prob = p.log().requires_grad_()
    stored = torch.tensor([[0.5, 0.2], [-1.0, -1.0]], dtype=torch.float64)
    old = torch.tensor([[0.9, 0.9], [0.1, 0.6]], dtype=torch.float64).log()
    advantages = torch.tensor([[0.5, 0.5], [-0.25, -0.25]], dtype=torch.float64)
    mask, off_policy = torch.ones(2, 2, dtype=torch.bool), torch.tensor([[True, True], [False, False]])
    losses, stats = mixed_policy_token_loss(
        old, log_prob, advantages, mask, off_policy, options.on_policy, options.off_policy, stored
    )
    ratios = 0.8, 0.5
    expected = [-0.5 * r / (r + 0.1) for r in ratios]
    assert losses[0].tolist() == pytest.approx(expected, rel=1e-4)
    assert losses[1].tolist() == pytest.approx([0.25 * 3.0, 0.25])  # -A r, not clipped at 1.2
    assert stats["on_pg_clipfrac"][0] == 0
    losses.sum().backward()
    slopes = [-0.5 * 0.1 * r / (r + 0.1) ** 2 for r in ratios]
    assert log_prob.grad[0].tolist() == pytest.approx(slopes, rel=1e-4)
    assert (options.advantage.baseline, options.advantage.use_std, options.reduce.type) == (
        "all_samples",
        False,
        "seq64-mean-token-sum-norm",
    )


@pytest.mark.parametrize("p", [1e-2, 1e-6, 1e-8])
def test_an_unchanged_policy_has_the_ratio_one_however_rare_a_token_is(p):
    shaped = Exgrpo().off_policy
    log_prob = torch.tensor([[p]]).log()
    ratio = shaped.ratio(log_prob, log_prob.exp(), torch.ones(1, 1, dtype=torch.bool))
    assert ratio.item() == pytest.approx(1 / 1.1, rel=1e-5)
    weighed = shaped.model_copy(update={"reshape": LogP()})
    none = weighed.ratio(log_prob, torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool))
    assert none.isfinite().all()  # the recorded probability is too small for its precision


def test_a_group_is_counted_whole_and_only_what_was_generated_is_stored():
    """Prompt 7: a replayed sample and one of two generated ones are right. Prompt 8 is always right, 9 never."""
    step = samples({7: [True, True, False], 8: [True] * 3, 9: [False] * 3}, replayed=(0,))
    method = after(step)
    assert method._retired == {8}
    assert method._stored == {7: Experience(2, [Trajectory([1, 3, 2], [-0.5, -2.0, -1.0], [1, 0, 1])])}
    again = samples({7: [False, True, False], 8: [True, False, False], 6: [True] * 3})
    again.rows["old_log_probs"] -= 1.0
    assert after(step, again)._stored == {7: Experience(1, method._stored[7].trajectories)}  # with its first figures
    none = samples({7: [False] * 3})
    assert after(step, none)._stored == method._stored
    assert after(step, samples({7: [True] * 3}))._stored == {}


@pytest.mark.parametrize(("right", "starts"), [(1, False), (2, True)])
def test_replay_starts_with_more_than_a_third_of_right_samples_and_stores_from_the_next_batch_on(right, starts):
    method = after(samples({7: [True] * right + [False] * (4 - right)}), started=False)
    assert (method._started, method._stored) == (starts, {})


def test_retired_prompts_leave_the_dataset_when_an_epoch_starts_unless_no_batch_would_remain():
    method = after(samples({prompt: [True, True] for prompt in range(3)}), started=False)
    method.begin_epoch(prompts=8, batch=6)
    assert method._absent == set()
    method.begin_epoch(prompts=8, batch=5)
    assert method._absent == {0, 1, 2}


def test_the_surest_trajectory_of_each_prompt_is_replayed():
    method = after()
    method._stored = {prompt: Experience(4, [trajectory(5), trajectory(6), trajectory(7)]) for prompt in range(4)}
    surest = {0: 6, 1: 5, 2: 7, 3: 6}
    asked = []

    def entropies(answers):
        asked.extend(answers)
        return [0.0 if surest[prompt] == path.tokens[0] else 1.0 for prompt, path in answers]

    chosen = method.choose(SimpleNamespace(seed=0, n=8, global_steps=1, entropies=entropies), 4)  # pyright: ignore[reportArgumentType]
    assert len(chosen) == 2 and len(asked) == 6
    for prompt in chosen:
        first, *others = method.plan(Prompt(prompt, "p", 0, 0, has_target=False), 8)
        assert first.tokens[0] == surest[prompt] and others == [Start()] * 7
    method._absent = {9}
    assert method.skips(9, 10) and method.skips(chosen[0], 10) and not method.skips(8, 10)


def test_prompts_solved_half_of_the_time_are_replayed_most_whatever_their_order():
    stored = filled()
    drawn = Counter(prompt for seed in range(400) for prompt in draw(stored, 4, 8, seed))
    assert all(len(set(draw(stored, 4, 8, seed))) == 4 for seed in range(20))
    by_bucket = Counter({k: sum(drawn[p] for p in range(70) if 1 + p % 7 == k) for k in range(1, 8)})
    weights = {1: 0.0111, 2: 0.1353, 3: 0.6065, 4: 1.0, 5: 0.6065, 6: 0.1353, 7: 0.0111}  # exp(-(k - 4)^2 / 2)
    for k, count in by_bucket.items():
        assert count / 1600 == pytest.approx(weights[k] / sum(weights.values()), abs=0.04)
    turned = dict(reversed(stored.items()))
    assert draw(stored, 20, 8, 5) == draw(turned, 20, 8, 5) != draw(stored, 20, 8, 6)
    assert len(draw(filled(prompts=3), 9, 8, 0)) == 3


def test_a_checkpoint_gives_back_the_store_to_the_last_bit(tmp_path: Path):
    saved, loaded = after(), Exgrpo()
    third = torch.tensor([-1 / 3, -1e-7]).tolist()
    saved._stored = filled(prompts=5) | {3: Experience(2, [Trajectory([1, 2], third, [1, 0]), trajectory()])}
    saved._retired, saved._absent = {8, 9}, {8}
    saved.save(tmp_path)
    loaded.load(tmp_path)
    assert (loaded._stored, loaded.state()) == (saved._stored, saved.state())
    Exgrpo().save(tmp_path)
    loaded.load(tmp_path)
    assert loaded._stored == {}


def test_a_sample_that_is_replayed_costs_no_generation():
    record = {
        "raw_prompt": [{"role": "user", "content": "1+1=?"}],
        "target": [{"role": "assistant", "content": "2"}],
        "extra_info": {"id": "p"},
        "index": 0,
    }
    loop = OffPolicyAgentLoop.__new__(OffPolicyAgentLoop)  # without a server: whatever asks for one fails
    loop.has_phi, loop.seed, loop.seeded, loop.response_length, loop.tools = True, 3, True, 4, None
    loop.config = OmegaConf.create({"reward": {"truncated": "zero"}})
    loop.rollout_config = OmegaConf.create({"n": 4})
    loop.tokenizer, loop.template = AutoTokenizer.from_pretrained(SHIPPED), CHAT
    first = Start(tokens=[7, 2], log_probs=[-0.25, -1.5], mask=[1, 1])  # its last token is not the tokenizer's end
    row = record | {"plan": {"starts": [first._asdict(), Start()._asdict()]}}
    output = asyncio.run(loop.run({}, session_id=0, global_steps=3, **row))
    assert (output.response_ids, output.prefix_length, output.requests) == ([7, 2], 2, 0)
    assert output.as_dict()["off_policy_log_probs"].tolist() == [-0.25, -1.5]
    with pytest.raises(AttributeError, match="server_manager"):
        asyncio.run(loop.run({}, session_id=1, global_steps=3, **row))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rollouts.type=colocate_async", "method.type=exgrpo contradicts rollouts.type=colocate_async"),
        ("method.prefix.n=1", "method.prefix is not a setting"),
    ],
)
def test_what_replay_cannot_go_with_is_refused_before_anything_starts(override, message):
    with pytest.raises(InputError, match=message):
        compose_run("exgrpo", "cpu", [override], run=Path("run"))
