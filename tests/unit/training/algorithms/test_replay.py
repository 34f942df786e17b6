"""ExGRPO's store: what it keeps, what it draws, that it survives a checkpoint, and the loss of a replayed sample."""

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

from core.errors import InputError  # noqa: E402
from core.model.base_model import SHIPPED  # noqa: E402
from core.model.prompts import CHAT  # noqa: E402
from training.algorithms.off_policy import LogP  # noqa: E402
from training.algorithms.policy import mixed_policy_token_loss  # noqa: E402
from training.algorithms.replay import Experience, Replay, ReplayStore, Trajectory  # noqa: E402
from training.algorithms.samples import Samples  # noqa: E402
from training.config.method_keys import of_run  # noqa: E402
from training.config.to_verl import compose_run  # noqa: E402
from training.methods.exgrpo import Exgrpo  # noqa: E402
from training.methods.given import Prompt, Start  # noqa: E402
from training.verl_hooks.agent_loop import OffPolicyAgentLoop  # noqa: E402

OPTIONS = Replay()


def trajectory(first: int = 7) -> Trajectory:
    return Trajectory([first, 2], [-0.25, -1.5])


def filled(n: int = 8, prompts: int = 70) -> ReplayStore:
    store = ReplayStore(OPTIONS, started=True)
    for prompt in range(prompts):
        store.add(prompt, 1 + prompt % (n - 1), n, [trajectory()])
    return store


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


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 5), st.booleans()), max_size=30))
def test_the_store_keeps_every_success_after_the_start_and_what_retired_stays_away(groups):
    store, kept, latest, retired = ReplayStore(OPTIONS), {}, {}, set()
    for prompt, successes, token, start in groups:
        store.add(prompt, successes, 4, [trajectory(token)] if successes else [])
        if successes == 4:
            retired.add(prompt)
            kept.pop(prompt, None)
        elif successes and prompt not in retired and store.started:
            kept.setdefault(prompt, set()).add(token)
            latest[prompt] = successes  # a group without a success leaves the bucket as it is
        if start:
            store.note_success(1.0)
    assert store.retired == retired
    found = {prompt: {one.tokens[0] for one in entry.trajectories} for prompt, entry in store.experiences.items()}
    assert found == kept
    assert {prompt: entry.successes for prompt, entry in store.experiences.items()} == {p: latest[p] for p in kept}
    assert all(len(entry.trajectories) == len(kept[prompt]) for prompt, entry in store.experiences.items())


def test_a_trajectory_that_is_drawn_again_keeps_its_first_log_probabilities():
    store = filled(prompts=1)
    store.add(0, 1, 8, [Trajectory([7, 2], [-9.0, -9.0])])
    assert store.experiences[0].trajectories == [trajectory()]


def test_retired_prompts_leave_the_dataset_when_an_epoch_starts_unless_no_batch_would_remain():
    store = ReplayStore(OPTIONS)
    for prompt in range(3):
        store.add(prompt, 4, 4, [])
    assert store.absent == set()
    store.start_epoch(prompts=8, batch=6)
    assert store.absent == set()
    store.start_epoch(prompts=8, batch=5)
    assert store.absent == {0, 1, 2}
    store.add(3, 4, 4, [])
    assert store.absent == {0, 1, 2}  # it leaves with the next epoch


@pytest.mark.parametrize("p", [1e-2, 1e-6, 1e-8])
def test_an_unchanged_policy_has_the_ratio_one_however_rare_a_token_is(p):
    shaped = Exgrpo().off_policy
    log_prob = torch.tensor([[p]]).log()
    ratio = shaped.ratio(log_prob, log_prob.exp(), torch.ones(1, 1, dtype=torch.bool))
    assert ratio.item() == pytest.approx(1 / 1.1, rel=1e-5)
    weighed = shaped.model_copy(update={"reshape": LogP()})
    none = weighed.ratio(log_prob, torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool))
    assert none.isfinite().all()  # the recorded probability is too small for its precision


@pytest.mark.parametrize(("score", "solved", "starts"), [(0.5, False, False), (0.3, True, True)])
def test_replay_starts_by_right_samples_and_not_by_scores(score, solved, starts):
    """Two groups of two samples; the last row only fills the batch up, and the first is a replayed sample."""
    rows = {
        "solved": torch.tensor([not solved, *[solved] * 3, not solved]),
        "rm_scores": torch.full((5, 2), score / 2),
        "prefix_length": torch.tensor([2, 0, 0, 0, 0]),
        "prompt_key": torch.tensor([1, 1, 2, 2, 2]),
        "response_mask": torch.ones(5, 2),
        "responses": torch.ones(5, 2, dtype=torch.long),
        "old_log_probs": -torch.ones(5, 2),
    }
    index, sampled = np.array(["a", "a", "b", "b", "b"], dtype=object), torch.tensor([True] * 4 + [False])
    method = Exgrpo()
    method.note(Samples(TensorDict(rows, batch_size=[5]), index, sampled), SimpleNamespace())  # pyright: ignore[reportArgumentType]
    assert method._store.started == starts


def test_the_surest_trajectory_of_each_prompt_is_replayed():
    method = Exgrpo()
    method._store.started = True
    for prompt in range(4):
        method._store.add(prompt, 4, 8, [trajectory(5), trajectory(6), trajectory(7)])
    surest = {0: 6, 1: 5, 2: 7, 3: 6}
    asked = []

    def entropies(answers):
        asked.extend(answers)
        return [0.0 if surest[prompt] == tokens[0] else 1.0 for prompt, tokens in answers]

    chosen = method.choose(SimpleNamespace(seed=0, n=8, global_steps=1, entropies=entropies), 4)  # pyright: ignore[reportArgumentType]
    assert len(chosen) == 2 and len(asked) == 6
    for prompt in chosen:
        first, *others = method.plan(Prompt(prompt, "p", 0, 0, has_target=False), 8)
        assert first.tokens[0] == surest[prompt] and others == [Start()] * 7
    method._store.absent = {9}
    assert method.skips(9, 10) and method.skips(chosen[0], 10) and not method.skips(8, 10)


def test_half_a_batch_is_replayed_at_most_and_prompts_solved_half_of_the_time_most():
    store = filled()
    drawn = Counter(prompt for seed in range(400) for prompt in store.draw(9, 8, seed))
    assert all(len(store.draw(9, 8, seed)) == len(set(store.draw(9, 8, seed))) == 4 for seed in range(20))
    by_bucket = Counter({k: sum(drawn[p] for p in range(70) if 1 + p % 7 == k) for k in range(1, 8)})
    weights = {1: 0.0111, 2: 0.1353, 3: 0.6065, 4: 1.0, 5: 0.6065, 6: 0.1353, 7: 0.0111}  # exp(-(k - 4)^2 / 2)
    for k, count in by_bucket.items():
        assert count / 1600 == pytest.approx(weights[k] / sum(weights.values()), abs=0.04)
    assert [len(filled(prompts=3).draw(batch, 8, 0)) for batch in (1, 2, 4, 100)] == [0, 1, 2, 3]


def test_a_draw_depends_on_the_content_alone_and_starts_with_success():
    store, other = filled(), ReplayStore(OPTIONS, started=True)
    for prompt in reversed(range(70)):
        other.experiences[prompt] = store.experiences[prompt]
    assert store.draw(20, 8, 5) == other.draw(20, 8, 5) != store.draw(20, 8, 6)
    waiting = ReplayStore(OPTIONS, experiences=store.experiences)
    assert waiting.draw(20, 8, 5) == []
    waiting.note_success(0.35)
    assert waiting.draw(20, 8, 5) == []
    waiting.note_success(0.351)
    waiting.note_success(0.0)
    assert waiting.draw(20, 8, 5) == store.draw(20, 8, 5)


def test_a_group_is_counted_whole_and_only_what_was_generated_is_kept():
    """Prompt 7: a replayed sample and one of two generated ones are right. Prompt 8 is always right."""
    method = Exgrpo()
    method._store.started = True
    rows = TensorDict(
        {
            "prompt_key": torch.tensor([7, 7, 7, 8, 8, 8]),
            "solved": torch.tensor([True, True, False, True, True, True]),
            "prefix_length": torch.tensor([2, 0, 0, 0, 0, 0]),
            "response_mask": torch.tensor([[1, 1, 0]] * 6),
            "responses": torch.tensor([[n, 2, 0] for n in range(6)]),
            "old_log_probs": torch.tensor([[-0.5, -1.0, 0.0]] * 6),
        },
        batch_size=6,
    )
    index = np.array(["a"] * 3 + ["b"] * 3, dtype=object)
    method.note(Samples(rows, index, torch.ones(6, dtype=torch.bool)), SimpleNamespace())  # pyright: ignore[reportArgumentType]
    assert method._store.retired == {8}
    assert method._store.experiences[7] == Experience(2, [Trajectory([1, 2], [-0.5, -1.0])])


def test_a_checkpoint_gives_back_the_store_to_the_last_bit(tmp_path: Path):
    saved, loaded = Exgrpo(), Exgrpo()
    saved._store = filled(prompts=5)
    third = torch.tensor([-1 / 3, -1e-7]).tolist()
    saved._store.experiences[3] = Experience(2, [Trajectory([1, 2], third), trajectory()])
    saved.save(tmp_path)
    loaded.load(tmp_path)
    assert loaded._store == saved._store
    Exgrpo().save(tmp_path)
    loaded.load(tmp_path)
    assert loaded._store.experiences == {}


def test_a_sample_that_is_replayed_costs_no_generation():
    record = {
        "raw_prompt": [{"role": "user", "content": "1+1=?"}],
        "target": [{"role": "assistant", "content": "2"}],
        "extra_info": {"id": "p"},
        "index": 0,
    }
    loop = OffPolicyAgentLoop.__new__(OffPolicyAgentLoop)  # without a server: whatever asks for one fails
    loop.has_phi, loop.seed, loop.seeded, loop.response_length = True, 3, True, 4
    loop.config = OmegaConf.create({"reward": {"truncated": "zero"}})
    loop.rollout_config = OmegaConf.create({"n": 4})
    loop.tokenizer, loop.template = AutoTokenizer.from_pretrained(SHIPPED), CHAT
    first = Start(tokens=[7, 2], log_probs=[-0.25, -1.5])  # its last token is not the tokenizer's end
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
